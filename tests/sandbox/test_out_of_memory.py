"""What becomes of a sandbox whose code uses up its memory: a result of the agent's, whoever the kernel kills."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from processes import process_files, waits_for_its_sandbox

from agentgym.errors import SandboxDied, SandboxExhausted, ToolError

pytestmark = [pytest.mark.needs_namespaces, pytest.mark.skipif(os.geteuid() != 0, reason="needs control groups")]
FILL = """
import os, time
os.fork()
while not os.path.exists("go"): time.sleep(0.01)
held = []
while True:
    held.append(os.memfd_create("x"))
    os.write(held[-1], bytes(4 << 20))
"""


def processes_of_sandboxes() -> dict[int, bool]:
    """Pids of the processes in this process's sandboxes; whether each is process 1 there."""
    numbers, parents = {}, {}
    for path in process_files("status"):
        try:
            lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        pid = int(path.parent.name)
        if waits_for_its_sandbox(pid):
            continue
        numbers[pid], parents[pid] = lines["NSpid"].split(), int(lines["PPid"])
    own, front = set(), {os.getpid()}
    while front:
        front = {pid for pid, parent in parents.items() if parent in front}
        own |= front
    return {pid: numbers[pid][-1] == "1" for pid in own if len(numbers[pid]) > len(numbers[os.getpid()])}


def oom_score_of(pid: int | str) -> str:
    return Path(f"/proc/{pid}/oom_score_adj").read_text()


def choose_the_guest() -> None:
    """Have the kernel kill the guest first, which nobody in a sandbox can."""
    for pid, first in processes_of_sandboxes().items():
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000" if first else "0")


async def test_agents_are_killed_before_the_guest_and_cannot_change_that(backend, small):
    sandbox = await backend.create(small)
    code = "import os; print(open('/proc/self/oom_score_adj').read()); open('/proc/self/oom_score_adj', 'w')"
    runs = [
        await sandbox.run_python(code),
        await sandbox.run_python(code, session="one"),
        await sandbox.exec(["sh", "-c", "(cat /proc/self/oom_score_adj) & wait; echo 0 > /proc/self/oom_score_adj"]),
    ]
    for result in runs:
        assert result.stdout.strip() == b"1000"
        assert b"ead-only file system" in result.stderr
    (guest,) = [pid for pid, first in processes_of_sandboxes().items() if first]
    assert 1000 > int(oom_score_of(guest)) >= 500 > int(oom_score_of("self"))
    await sandbox.close()


async def test_a_guest_that_is_killed_for_the_agents_memory_is_a_result(backend, small):
    sandbox = await backend.create(small)
    filling = asyncio.create_task(sandbox.run_python(FILL))
    await asyncio.sleep(0.2)
    choose_the_guest()
    await sandbox.write("go", b"")
    for result in (await filling, await sandbox.exec(["true"]), await sandbox.run_python("pass")):
        assert (result.exit_code, result.oom_killed) == (-9, True)
        assert b"ran out of memory" in result.stderr
    for request in (sandbox.read("go"), sandbox.write("x", b""), sandbox.list(), sandbox.snapshot(), sandbox.usage()):
        with pytest.raises(SandboxExhausted) as raised:
            await request
        assert isinstance(raised.value, ToolError)
    await sandbox.reset()
    assert (await sandbox.exec(["echo", "well"])).stdout == b"well\n"
    await sandbox.close()


async def test_a_guest_that_is_killed_otherwise_is_a_failure(backend, small):
    sandbox = await backend.create(small)
    await sandbox.exec(["true"])
    (guest,) = [pid for pid, first in processes_of_sandboxes().items() if first]
    os.kill(guest, 9)
    with pytest.raises(SandboxDied) as raised:
        await sandbox.exec(["true"])
    assert not isinstance(raised.value, SandboxExhausted)
    await sandbox.close()
