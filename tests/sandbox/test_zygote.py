"""The zygote that sandboxes are forked from: what it leaves of itself, and what its end means."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import waits_for_its_sandbox

from agentgym.errors import SandboxDied
from agentgym.sandbox.namespaces.backend import NamespacesBackend

pytestmark = pytest.mark.needs_namespaces


def children_of(pid: int) -> dict[int, list[int]]:
    """A process's children but the one made ahead, and the number that each has in the namespaces it lives in."""
    children = {}
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        if waits_for_its_sandbox(child):
            continue
        status = Path(f"/proc/{child}/status").read_text()
        numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
        children[child] = [int(number) for number in numbers.split()[1:]]
    return children


def private_kib(pid: int) -> int:
    """Memory that a process shares with nobody."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty:"))


def spawner_of(backend: NamespacesBackend) -> int:
    (spawner,) = backend._spawners.values()
    return spawner.pid


def zygote_of(spawner: int) -> int:
    (zygote,) = [pid for pid, numbers in children_of(spawner).items() if len(numbers) == 1]
    return zygote


async def test_a_spawner_ends_with_its_zygote_and_the_next_sandbox_has_another(small):
    """Another fork of a spawner that knows what its sandboxes were told would hand that on to the next."""
    backend = NamespacesBackend()
    try:
        sandbox = await backend.create(small)
        spawner = spawner_of(backend)
        os.kill(zygote_of(spawner), signal.SIGKILL)
        with pytest.raises(SandboxDied):
            await sandbox.run_python("import time; time.sleep(60)")
        other = await backend.create(small)
        assert spawner_of(backend) != spawner
        assert (await other.run_python("print(1)")).text == "1\n"
    finally:
        await backend.close()


KILLED = """
import os, signal
from agentgym.sandbox.guest.zygote import Zygote

zygote = Zygote(os.pidfd_open(os.getpid()), [], namespaces=0)
child = zygote.take_child()
os.kill(zygote.pid, signal.SIGKILL)
try:
    zygote.take_child()
except ConnectionError:
    print("gone")
"""
ENDED = """
import os, signal, time
from agentgym.sandbox.guest.zygote import Zygote

zygote = Zygote(os.pidfd_open(os.getpid()), [], namespaces=0)
zygote.request_child()
for _ in range(500):
    children = set(map(int, open("/proc/thread-self/children").read().split())) - {zygote.pid}
    if children: break
    time.sleep(0.01)
(ahead,) = children
os.kill(ahead, signal.SIGKILL)
os.waitid(os.P_PID, ahead, os.WEXITED | os.WNOWAIT)
child = zygote.take_child()
print(child.pid not in (ahead, zygote.pid), os.waitpid(child.pid, os.WNOHANG))
child.close()
print(os.waitpid(child.pid, 0)[1] >> 8)
zygote.request_child()
zygote.end_child()
print(open("/proc/thread-self/children").read().split() == [str(zygote.pid)])
"""


def test_a_zygote_that_was_killed_is_not_waited_for_while_its_last_child_lives():
    """The child waits for the spawner, and would keep the zygote's end of the orders open to it."""
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("gone\n", "")


def test_a_child_made_ahead_that_has_ended_is_replaced_and_one_that_gets_no_order_ends():
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=30)
    assert (done.stdout.splitlines(), done.stderr) == (["True (0, 0)", "1", "True"], "")


async def test_a_sandbox_is_a_child_of_the_spawner_and_holds_nothing_but_what_is_its_own(small):
    """What the zygote had open, its orders above all, would be a way out of the sandbox."""
    backend = NamespacesBackend()
    try:
        sandbox = await backend.create(small)
        spawner = spawner_of(backend)
        (guest,) = [pid for pid, numbers in children_of(spawner).items() if len(numbers) == 2]
        assert children_of(spawner)[guest][-1] == 1
        held = {name: os.readlink(f"/proc/{guest}/fd/{name}") for name in os.listdir(f"/proc/{guest}/fd")}
        kinds = {name: held[name].partition(":")[0] for name in sorted(held, key=int)}
        assert [kinds.pop(name) for name in "0123"] == ["/dev/null"] * 3 + ["socket"], held
        assert kinds.pop("4") == "anon_inode", held  # the spawner's pidfd, until the first request
        assert set(kinds) <= {"5", "6", "8"}, held  # memory counters, and its own oom_score_adj
        await sandbox.close()
    finally:
        await backend.close()


async def test_an_idle_sandbox_keeps_sharing_what_it_was_forked_with(small):
    """Each object that Python looks at is a page of its own then: were the guest to start all it has, 300 more."""
    backend = NamespacesBackend()
    try:
        sandboxes = [await backend.create(small) for _ in range(3)]
        spawner = spawner_of(backend)
        guests = [pid for pid, numbers in children_of(spawner).items() if len(numbers) == 2]
        assert private_kib(guests[1]) < 1200
        assert len(sandboxes) == len(guests)
    finally:
        await backend.close()
