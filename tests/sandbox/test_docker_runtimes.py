"""The docker backend under the other runtimes the daemon knows: what a runtime is asked to enforce holds there too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from by_day import cases, some_by_day
from containers import daemon
from specs import checks_about

from agentgym.sandbox.docker.backend import DockerBackend
from agentgym.testing import check_backend

pytestmark = [pytest.mark.needs_docker, pytest.mark.slow, pytest.mark.timeout(1800)]
# runc, the default, is what the tests of every backend run. Not runsc: attacks bring the gVisor that Debian 12 ships
# (2022) to a halt, and the daemon with it.
RUNTIMES = ("crun",)


@pytest.fixture(scope="module", params=RUNTIMES)
def backend(request: pytest.FixtureRequest) -> Iterator[DockerBackend]:
    client = daemon()
    known = client.info()["Runtimes"]
    client.close()
    if request.param not in known:
        pytest.skip(f"the daemon knows no runtime {request.param!r}, only {', '.join(sorted(known))}")
    created = DockerBackend(runtime=request.param)
    capabilities = asyncio.run(created.probe())
    if not capabilities.available:
        asyncio.run(created.close())
        pytest.skip(f"{request.param}: {capabilities.reason}")
    yield created
    asyncio.run(created.close())


@pytest.mark.parametrize(
    "theme", cases(["The kernel", "What a backend promises", "Reaching out"], by_day=("The kernel",))
)
@pytest.mark.thorough
async def test_the_runtime_enforces_what_it_is_asked_to(backend, theme):
    """Namespaces, masks and filters are the runtime's work; commands, files and snapshots are the guest's."""
    await check_backend(backend, only=some_by_day(sorted(checks_about(theme)), 4))
