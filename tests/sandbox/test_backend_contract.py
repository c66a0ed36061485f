"""Every registered backend keeps its contract and withstands every attack; and the checks can fail."""

from __future__ import annotations

import dataclasses
import subprocess
from itertools import product
from typing import Any

import pytest
from by_day import some_by_day

from agentgym import registry
from agentgym.errors import ConformanceError
from agentgym.sandbox.contract import Capabilities
from agentgym.sandbox.guest import landlock
from agentgym.sandbox.landlock.backend import LandlockBackend
from agentgym.sandbox.limits import LIMITS, SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.sandbox.pool.pool import Pool
from agentgym.testing import check_backend
from agentgym.testing.backends.runs import ATTACKS, CONTRACT, run_checks
from agentgym.testing.backends.testbed import SPEC

ELSEWHERE = {
    "kubernetes": "tests/cluster/test_kubernetes_backend.py",
    "ray": "tests/cluster/test_ray_backend.py",
}
"""Backends that need a cluster, and where they are tested."""
THEMES = tuple(dict.fromkeys(check.theme for check in (*CONTRACT, *ATTACKS)))
SHARED_BY_BACKENDS = (
    "A guest that was taken over",
    "A channel's process",
    "Commands",
    "Python",
    "Files",
    "Channels",
    "Its own episode",
    "What comes later",
    "Snapshots and their forks",
    "The guest",
)
"""Themes about code of the host and of the guest that all share: on docker and landlock they play at night.

Of the others, `make test` plays every fourth check on these, and `make test-all` plays all.
"""
THROUGH = {"landlock": {"files_of_the_host", "processes_of_the_host", "signals_to_everybody"}}
"""Checks that a backend does not pass: names of files and numbers of processes are in sight (docs/security.md)."""
pytestmark = pytest.mark.needs_namespaces


def cases() -> list[Any]:
    """Return a case for each theme on each backend."""
    params = []
    for name, theme in product(registry.names("backends"), THEMES):
        if name in ELSEWHERE:
            continue
        marks = [pytest.mark.needs_docker] if name == "docker" else []
        if name == "landlock" and not landlock.version():
            marks.append(pytest.mark.skip(reason="this kernel has no Landlock"))
        if name in ("docker", "landlock") and theme in SHARED_BY_BACKENDS:
            marks.append(pytest.mark.thorough)
        params.append(pytest.param(name, theme, id=f"{name}-{theme}", marks=marks))
    return params


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "theme"), cases(), indirect=["backend"])
async def test_the_backend_passes_its_checks(backend, theme):
    """One contract suite over every registered backend that works on this machine."""
    known = THROUGH.get(backend.name, set())
    names = [check.name for check in (*CONTRACT, *ATTACKS) if check.theme == theme and check.name not in known]
    by_day = some_by_day(names, -(-len(names) // 4)) if backend.name in ("docker", "landlock") else names
    await check_backend(backend, only=by_day)


@pytest.mark.needs_namespaces
@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
async def test_what_gets_through_is_no_more_than_the_page_says():
    """A check that would pass now must leave the list."""
    backend = LandlockBackend()
    outcomes = {verdict.name: verdict.outcome async for verdict in run_checks(backend, only=THROUGH["landlock"])}
    await backend.close()
    assert outcomes == dict.fromkeys(THROUGH["landlock"], "failed")


class Lax(NamespacesBackend):
    """Promises limits, and gives a sandbox with others."""

    name = "lax"

    async def create(self, spec, *, snapshot=None):
        lax = dataclasses.replace(spec, processes=200, inodes=9000, disk_mib=80, open_files=900)
        return await super().create(lax, snapshot=None)


async def test_a_backend_that_does_not_keep_its_limits_is_found_out():
    backend = Lax()
    try:
        with pytest.raises(ConformanceError) as caught:
            await check_backend(
                backend,
                only=(
                    "fork_bomb",
                    "disk_filler",
                    "inode_filler",
                    "open_files_filler",
                    "snapshots_restore_every_file",
                    "network",
                ),
            )
    finally:
        await backend.close()
    findings = " ".join(caught.value.findings)
    for word in ("fork bomb", "disk filler", "inode filler", "open files filler", "snapshots restore"):
        assert word in findings
    assert "network" not in findings, "what it does keep is no finding"


async def test_a_backend_that_is_not_available_is_one_finding():
    class Absent(NamespacesBackend):
        async def probe(self):
            return Capabilities(False, reason="no kernel; install one")

    with pytest.raises(ConformanceError, match="install one"):
        await check_backend(Absent())


@pytest.mark.slow
async def test_a_pool_keeps_the_contract_of_the_backend_it_holds():
    """What it keeps ready is its own affair, and no leak."""
    pool = Pool(NamespacesBackend(), ready=3)
    try:
        await check_backend(pool, attacks=False)
        await check_backend(pool, only=("fork_bomb", "signals_to_everybody", "hard_links"))
    finally:
        await pool.close()


async def test_every_check_gets_a_verdict_and_those_that_make_no_sense_say_why():
    class Weak(NamespacesBackend):
        async def probe(self):
            enforced = ("wall", "processes", "disk", "inodes", "open_files", "output", "network")
            return Capabilities(True, "ns", enforced, (("memory", "no group: run as root"), ("cpu", "likewise")))

    backend = Weak()
    try:
        only = ("cpu_hog", "snapshots_restore_every_file", "hard_links", "a_command_ends_in_a_result")
        verdicts = {verdict.name: verdict async for verdict in run_checks(backend, only=only)}
    finally:
        await backend.close()
    assert {name: verdict.outcome for name, verdict in verdicts.items()} == {
        "cpu_hog": "left out",
        "snapshots_restore_every_file": "left out",
        "hard_links": "passed",
        "a_command_ends_in_a_result": "passed",
    }
    assert "likewise" in verdicts["cpu_hog"].finding
    assert verdicts["hard_links"].sentence.startswith("Hard links to programs")


class Careless(NamespacesBackend):
    """Leaves a process and a descriptor behind for every sandbox it makes."""

    name = "careless"

    def __init__(self) -> None:
        super().__init__()
        self.left: list[subprocess.Popen[bytes]] = []

    async def create(self, spec, *, snapshot=None):
        self.leave()
        return await super().create(spec, snapshot=snapshot)

    def leave(self) -> None:
        self.left.append(subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE))


async def test_a_backend_that_leaves_things_behind_is_found_out():
    backend = Careless()
    try:
        with pytest.raises(ConformanceError, match=r"left behind on the host: \d+ processes"):
            await check_backend(backend, only=("hard_links",))
    finally:
        await backend.close()
        for leftover in backend.left:
            leftover.kill()
            leftover.communicate()


def test_there_are_as_many_checks_as_promised_each_with_a_sentence_of_its_own():
    assert len(CONTRACT) >= 40
    assert len(ATTACKS) >= 30
    cases = [*CONTRACT, *ATTACKS]
    assert len({case.name for case in cases}) == len({case.sentence for case in cases}) == len(cases)
    assert all(20 < len(case.sentence) <= 120 for case in cases)
    assert {case.needs for case in cases} <= {"", "snapshots", *LIMITS}


def test_the_small_spec_of_the_checks_is_smaller_than_the_default():
    assert all(
        getattr(SPEC, name) <= getattr(SandboxSpec(), name)
        for name in ("memory_mib", "disk_mib", "inodes", "processes", "open_files")
    )
