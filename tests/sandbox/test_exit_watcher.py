"""The end of a child is noticed with pidfds, and without."""

from __future__ import annotations

import errno
import os
import select

import pytest

from agentgym.sandbox.guest.exit_watcher import ExitWatcher


def child() -> int:
    return os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], {})


@pytest.fixture
def no_pidfds(monkeypatch):
    """As on a kernel that has none."""

    def refuse(pid):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", refuse)


def test_the_kernel_tells_where_it_can():
    watcher, pid = ExitWatcher(), child()
    handle = watcher.handle(pid)
    assert select.select([handle], [], [], 10)[0] == [handle]
    assert watcher.limit_timeout(None, busy=True) is None
    os.waitpid(pid, 0)
    watcher.forget(pid)
    os.close(handle)


def test_where_it_cannot_looking_tells_and_the_child_can_still_be_waited_for(no_pidfds):
    watcher, pid = ExitWatcher(), child()
    handle = watcher.handle(pid)
    assert watcher.limit_timeout(None, busy=True) < watcher.limit_timeout(None, busy=False) < 1
    assert watcher.limit_timeout(0.0, busy=False) == 0.0
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert select.select([handle], [], [], 0)[0] == []
    watcher.poll()
    assert select.select([handle], [], [], 0)[0] == [handle]
    assert watcher.limit_timeout(None, busy=True) is None, "there is nobody left to look after"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    watcher.forget(pid)
    os.close(handle)
