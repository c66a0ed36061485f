"""Every registered backend keeps its contract and withstands every attack; and the checks can fail."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from agentgym import registry
from agentgym.errors import ConformanceError
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces import NamespacesBackend
from agentgym.testing.backends import SPEC, check_backend, checks

pytestmark = pytest.mark.needs_namespaces


async def test_the_backend_passes_its_check(backend, check):
    """One contract suite over every registered backend that works on this machine."""
    await check(backend)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "check" not in metafunc.fixturenames:
        return
    cases = []
    for name in registry.names("backends"):
        made = registry.load("backends", name)()

        async def probe(made=made):
            try:
                return await made.probe()
            finally:
                await made.close()

        capabilities = asyncio.run(probe())
        if capabilities.available:
            cases += [pytest.param(name, check, id=f"{name}-{word}") for word, check in checks(capabilities).items()]
    metafunc.parametrize(("backend", "check"), cases, indirect=["backend"])


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
            await check_backend(backend, only=("fork_bomb", "disk_filler", "inode_filler", "open_files_filler",
                                               "snapshots_restore_every_file", "network"))  # fmt: skip
    finally:
        await backend.close()
    found = " ".join(caught.value.findings)
    for word in ("fork bomb", "disk filler", "inode filler", "open files filler", "snapshots restore"):
        assert word in found
    assert "network" not in found, "what it does keep is no finding"


async def test_a_backend_that_is_not_available_is_one_finding():
    class Absent(NamespacesBackend):
        async def probe(self):
            from agentgym.sandbox.contract import Capabilities

            return Capabilities(False, reason="no kernel; install one")

    with pytest.raises(ConformanceError, match="install one"):
        await check_backend(Absent())


def test_the_small_spec_of_the_checks_is_smaller_than_the_default():
    assert all(
        getattr(SPEC, name) <= getattr(SandboxSpec(), name)
        for name in ("memory_mib", "disk_mib", "inodes", "processes", "open_files")
    )
