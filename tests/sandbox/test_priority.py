"""The guest is preferred to agent code, and none of that ever has the guest's priority."""

from __future__ import annotations

import os
import sys

import pytest

from agentgym.sandbox.guest import priority

BORN = """
import os, sys
from agentgym.sandbox.guest import priority
priority.prefer(os.getpid())
pid = os.posix_spawnp("sh", ["sh", "-c", "(nice) & wait; nice"], os.environ)
os.waitpid(pid, 0)
print(os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may raise a priority")
def test_children_of_a_preferred_process_are_born_without_its_priority():
    read, write = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, write, 1)]
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", BORN], os.environ, file_actions=actions)
    os.close(write)
    with open(read) as output:
        values = [int(line) for line in output.read().split()]
    assert os.waitpid(pid, 0)[1] == 0
    assert values[:2] == [0, 0]
    assert values[2] < 0


def test_a_user_who_may_not_prefer_anything_is_not_stopped():
    priority.prefer(1 << 22)  # no such process


@pytest.mark.needs_namespaces
async def test_what_a_command_starts_at_once_gives_way_to_the_guest(backend, small):
    sandbox = await backend.create(small)
    result = await sandbox.exec(["sh", "-c", "for i in 1 2 3 4 5; do (nice) & done; wait"])
    own = int((await sandbox.run_python("import os; print(os.getpriority(os.PRIO_PROCESS, 1))")).stdout)
    assert all(int(niceness) > own for niceness in result.stdout.split()) or os.geteuid() != 0
    await sandbox.close()
