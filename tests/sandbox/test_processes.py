"""What runs on this machine is found, whoever made it; what the dead left is removed, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from counts import groups, guests_below, processes_below

from agentgym.sandbox.namespaces import processes
from agentgym.sandbox.namespaces.backend import NamespacesBackend

pytestmark = pytest.mark.needs_namespaces

OWNER = """
    import asyncio, sys
    from agentgym.sandbox.limits import SandboxSpec
    from agentgym.sandbox.namespaces import NamespacesBackend
    async def main():
        backend = NamespacesBackend()
        sandbox = await backend.create(SandboxSpec(accept_weaker=("all",)))
        await sandbox.run_python("import subprocess; subprocess.Popen(['sleep', '90'])", session="a")
        print("ready", flush=True)
        await asyncio.sleep(90)
    asyncio.run(main())
"""


async def owner() -> asyncio.subprocess.Process:
    """Another process with a sandbox of its own, in which a session and a program run."""
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(OWNER), stdout=asyncio.subprocess.PIPE
    )
    assert started.stdout is not None
    assert await started.stdout.readline() == b"ready\n"
    return started


async def test_a_sandbox_of_another_process_is_listed_with_its_owner():
    other = await owner()
    try:
        (listed,) = [entry for entry in await NamespacesBackend().running() if entry.owner == other.pid]
        assert (listed.orphaned, listed.processes, listed.backend) == (False, 2, "namespaces")
        assert listed.memory_mib > 1
        assert listed.age_s >= 0
    finally:
        other.kill()
        await other.wait()


async def test_a_spawner_that_outlived_its_owner_is_an_orphan_and_clean_ends_it():
    """It ends by itself, unless it stands still: here it and its guest are stopped before its owner is killed."""
    other = await owner()
    spawner = None
    try:
        (listed,) = [entry for entry in await NamespacesBackend().running() if entry.owner == other.pid]
        spawner = parent(int(listed.id))
        for pid in (spawner, int(listed.id)):
            os.kill(pid, signal.SIGSTOP)
        other.kill()
        await other.wait()
        (orphan,) = [entry for entry in await NamespacesBackend().running() if entry.id == listed.id]
        assert (orphan.orphaned, orphan.owner) == (True, 0)
        removed = await NamespacesBackend().clean()
        assert [line for line in removed if line.startswith(f"spawner {spawner}, whose owner {other.pid} has ended")]
        for _ in range(200):
            if not [entry for entry in await NamespacesBackend().running() if entry.id == listed.id]:
                break
            await asyncio.sleep(0.02)
        else:
            raise AssertionError("its sandbox goes on")
        await NamespacesBackend().clean()
        assert not groups(spawner)
    finally:
        if other.returncode is None:
            other.kill()
            await other.wait()
        if spawner is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(spawner, signal.SIGKILL)


async def test_clean_spares_sandboxes_whose_owner_lives(backend, small):
    sandbox = await backend.create(small)
    other = await owner()
    try:
        lines = " ".join(await backend.clean())
        assert str(os.getpid()) not in lines
        assert str(other.pid) not in lines
        assert (await sandbox.run_python("print(1)")).text == "1\n"
        assert (await sandbox.exec(["true"])).ok
        assert len([entry for entry in await backend.running() if entry.owner in (os.getpid(), other.pid)]) == 2
    finally:
        other.kill()
        await other.wait()
        await sandbox.close()


async def test_what_calls_itself_a_spawner_inside_a_sandbox_is_taken_for_none(backend, small):
    """Else an agent could have any process of its choice listed, or ended."""
    sandbox = await backend.create(small)
    code = (
        "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 60; true', 'from guest import spawner', '--owner=1'])"
    )
    await sandbox.run_python(code, session="a")
    before = [entry for entry in await backend.running() if entry.owner == os.getpid()]
    assert len(before) == 1
    inside = processes_below(os.getpid())
    ended = [line for line in await backend.clean() if "spawner" in line]  # other programs' may be among them
    assert not [line for line in ended if any(f"spawner {pid}," in line for pid in inside)]
    assert (await sandbox.usage()).processes == 3
    await sandbox.close()


def test_a_group_of_a_living_process_stays(tmp_path, monkeypatch):
    (tmp_path / f"agentgym-{os.getpid()}").mkdir()
    (tmp_path / "agentgym-4194305" / "1").mkdir(parents=True)  # above every pid there can be
    (tmp_path / "agentgym-notes").mkdir()
    monkeypatch.setattr(processes, "_groups", lambda: sorted(tmp_path.iterdir()))
    lines = [line for line in processes.clean() if str(tmp_path) in line]
    assert lines == [f"control group {tmp_path}/agentgym-4194305"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"agentgym-{os.getpid()}", "agentgym-notes"]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def groups_of_guest() -> str:
    (guest,) = guests_below(os.getpid())
    return Path(f"/proc/{guest}/cgroup").read_text()


async def test_control_groups_use_the_names_of_removed_ones_again(small):
    """The kernel keeps the name of each removed group, as a directory entry, for as long as the spawner lives."""
    backend, names = NamespacesBackend(), set()
    for _ in range(12):
        sandbox = await backend.create(small)
        names.add(groups_of_guest())
        await sandbox.close()
    await backend.close()
    assert len(names) <= 3
