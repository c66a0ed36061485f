"""Control groups belong to the spawner that locked them, whatever the process ids of other namespaces say."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from counts import groups
from processes import spawners
from specs import SMALL

from agentgym.sandbox.guest import cgroups, group_owners
from agentgym.sandbox.namespaces import processes
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandbox.owner import Owner

needs_groups = [
    pytest.mark.needs_namespaces,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make pid namespaces and control groups"),
]

ANOTHER = """
    import asyncio
    from agentgym.sandbox.limits import SandboxSpec
    from agentgym.sandbox.namespaces import NamespacesBackend
    async def main():
        backend = NamespacesBackend()
        {deed}
        await backend.close()
    asyncio.run(main())
"""
CREATE = "await (await backend.create(SandboxSpec(accept_weaker=('all',)))).close()"
CLEAN = "await backend.clean()"


@pytest.fixture
async def own() -> AsyncIterator[tuple[NamespacesBackend, int]]:
    """A backend and its spawner, which has made and removed one sandbox: its groups are empty."""
    before, backend = spawners(), NamespacesBackend()
    await (await backend.create(SMALL)).close()
    (spawner,) = spawners() - before
    yield backend, spawner
    await backend.close()


def _remove_groups(spawner: int) -> None:
    for _ in range(100):  # a group for the next sandbox may be made meanwhile
        for folder in map(Path, sorted(groups(spawner))):
            for child in filter(Path.is_dir, folder.iterdir()):
                child.rmdir()
            folder.rmdir()
        time.sleep(0.002)


async def _works(backend: NamespacesBackend) -> None:
    sandbox = await backend.create(SMALL)
    assert (await sandbox.exec(["true"])).ok
    await sandbox.close()


def forgotten(home: Path, name: str) -> Path:
    """A group as a killed spawner leaves it. This number is above every pid there can be."""
    (home / name / "1").mkdir(parents=True)
    return home / name


REFUSED = """
        try:
            await backend.create(SandboxSpec(accept_weaker=("all",)))
        except Exception as error:
            assert "mount it anew" in str(error), error
        assert not await backend.running()
        await backend.clean()
"""


@pytest.mark.parametrize(
    ("deed", "proc"),
    [(CREATE, ["--mount-proc"]), (CLEAN, ["--mount-proc"]), (REFUSED.strip(), [])],
    ids=["creates", "cleans", "sees the /proc of this one"],
)
class TestAnotherPidNamespace:
    pytestmark = needs_groups

    async def test_an_agentgym_there_leaves_the_groups_of_this_one_alone(self, own, deed, proc):
        backend, spawner = own
        before = groups(spawner)
        assert before
        code = textwrap.dedent(ANOTHER.format(deed=deed))
        command = ["unshare", "--pid", "--fork", *proc, sys.executable, "-c", code]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=60)
        assert groups(spawner) == before
        await _works(backend)


@pytest.mark.needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can remove the groups")
async def test_a_spawner_whose_groups_were_removed_is_replaced(own):
    """By whatever did it: the next sandbox comes from another spawner, and nobody notices."""
    backend, spawner = own
    await asyncio.to_thread(_remove_groups, spawner)
    await _works(backend)
    assert spawner not in spawners()


def test_a_group_is_removed_once_nobody_holds_its_lock(tmp_path):
    home = os.open(tmp_path, os.O_RDONLY)
    name, group = group_owners.claim(home, "agentgym-4194305")
    os.mkdir("1", dir_fd=group)
    cgroups._remove_dead_spawners(home)
    assert os.listdir(home) == [name]
    os.close(group)
    cgroups._remove_dead_spawners(home)
    assert os.listdir(home) == []
    os.close(home)


def test_a_fork_of_the_spawner_keeps_its_lock(tmp_path):
    home = os.open(tmp_path, os.O_RDONLY)
    name, group = group_owners.claim(home, "agentgym-4194305")
    copy = os.dup(group)
    os.close(group)
    cgroups._remove_dead_spawners(home)
    assert os.listdir(home) == [name]
    os.close(copy)
    os.close(home)


def test_two_namespaces_that_count_alike_have_a_group_each(tmp_path):
    home = os.open(tmp_path, os.O_RDONLY)
    claims = [group_owners.claim(home, "agentgym-7") for _ in range(3)]
    assert [name for name, _ in claims] == ["agentgym-7", "agentgym-7-2", "agentgym-7-3"]
    assert all(group_owners.is_spawners(name) for name, _ in claims)
    for name, group in claims:
        assert group_owners.is_named(home, name, group)
        os.close(group)
    os.close(home)


def test_a_group_that_was_swept_up_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    home, lock, swept = os.open(tmp_path, os.O_RDONLY), fcntl.flock, []

    def sweep_first(group: int, operation: int) -> None:
        if not swept:
            swept.append(os.rmdir("agentgym-4194305", dir_fd=home))
        lock(group, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    name, group = group_owners.claim(home, "agentgym-4194305")
    assert group_owners.is_named(home, name, group)
    assert os.listdir(home) == [name]
    os.close(group)
    os.close(home)


def test_clean_removes_what_nobody_owns(tmp_path, monkeypatch):
    home = os.open(tmp_path, os.O_RDONLY)
    owned, group = group_owners.claim(home, "agentgym-4194306")
    abandoned = [forgotten(tmp_path, name) for name in ("agentgym-4194305", "agentgym-4194305-2")]
    others = [forgotten(tmp_path, name).name for name in ("agentgym-host", "agentgym-1-2-3", "other-4194305")]
    monkeypatch.setattr(processes, "_groups", lambda: sorted(tmp_path.iterdir()))
    lines = [line for line in processes.clean() if str(tmp_path) in line]
    assert lines == [f"control group {path}" for path in abandoned]
    assert sorted(os.listdir(home)) == sorted([owned, *others])
    os.close(group)
    os.close(home)


def test_a_process_that_cannot_be_looked_at_counts_as_alive(monkeypatch):
    """No descriptor left, or a /proc that hides: neither is the end of a process."""
    assert group_owners.is_alive(os.getpid())
    assert not group_owners.is_alive(4194305)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    assert group_owners.is_alive(4194305)
    assert Owner(4194305, 1, "here").alive, "else its containers would be removed"
