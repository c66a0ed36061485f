"""What agent code leaves behind may take the kernel long to remove: that is the agent's doing, and holds up nobody."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.errors import SandboxExhausted
from agentgym.sandbox.guest import teardown
from agentgym.sandbox.host import guest_handle
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces import spawner
from agentgym.sandbox.namespaces.backend import NamespacesBackend

JOIN = """
import os, socket, struct, time
for child in range(30):
    if os.fork() == 0:
        held = []
        for number in range(200):
            held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for place in range(20):
                group = struct.pack("4s4s", bytes((239, child, number, place + 1)), bytes((127, 0, 0, 1)))
                held[-1].setsockopt(0, 35, group)
        time.sleep(60)
time.sleep({sleep})
"""


@pytest.fixture
def unfiltered(tmp_path, monkeypatch) -> Iterator[NamespacesBackend]:
    """A backend whose filter lets sockets join groups: one thing by which a sandbox's end takes long."""
    guest = Path(spawner.__file__).parents[1] / "guest"
    shutil.copytree(guest, tmp_path / "guest", ignore=shutil.ignore_patterns("__pycache__"))
    for name, change in (("seccomp.py", "SOCKET_OPTIONS = {}"), ("teardown.py", "PATIENCE_S = 0.3")):
        changed = tmp_path / "guest" / name
        changed.write_text(f"{changed.read_text()}\n{change}\n")
    monkeypatch.setattr(spawner, "__file__", str(tmp_path / "namespaces" / "spawner.py"))
    monkeypatch.setattr(guest_handle, "_CLOSE_S", 0.05)
    backend = NamespacesBackend()
    yield backend
    for process in backend._spawners.values():
        process._kill()
    asyncio.run(backend.close())


@pytest.mark.needs_namespaces
@pytest.mark.thorough  # beside other tests the kernel is busy for so long that the guest does not answer in time
async def test_an_end_that_takes_the_kernel_long_is_the_agents_and_close_does_not_fail(unfiltered, caplog):
    sandbox = await unfiltered.create(SandboxSpec(open_files=256, processes=64, accept_weaker=("all",)))
    began = time.monotonic()
    result = await sandbox.run_python(JOIN.format(sleep=60), timeout_s=4)
    assert (result.timed_out, result.oom_killed, result.exit_code) == (True, False, -9)
    assert b"too long to remove" in result.stderr
    with pytest.raises(SandboxExhausted, match="too long to remove"):
        await sandbox.read("anything")
    assert (await sandbox.exec(["true"])).timed_out
    await sandbox.close()
    assert time.monotonic() - began < 15
    assert "but the kernel has not yet removed all of" in caplog.text


def test_a_process_that_ends_slowly_without_using_the_processor_is_waited_for(monkeypatch):
    """It waits for somebody else, or the machine is overloaded."""
    monkeypatch.setattr(teardown, "PATIENCE_S", 0.05)
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.6)"])
    time.sleep(0.3)  # it has started up
    monkeypatch.setattr(teardown, "processor_s", lambda: used(sleeper.pid))
    status, _ = teardown.wait_for(sleeper.pid)
    assert os.waitstatus_to_exitcode(status) == 0
    sleeper.returncode = 0


def test_a_process_that_is_busy_to_no_end_is_given_up(monkeypatch):
    monkeypatch.setattr(teardown, "PATIENCE_S", 0.05)
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    time.sleep(0.3)
    monkeypatch.setattr(teardown, "processor_s", lambda: used(spinner.pid))
    with pytest.raises(teardown.TeardownStalled):
        teardown.wait_for(spinner.pid)
    spinner.kill()
    spinner.wait()


def used(pid: int) -> float:
    """Processor time of one process: on the host, /proc shows those of everybody."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
