"""The docker backend under the other runtimes the daemon knows: the same contract, the same attacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from containers import daemon

from agentgym.sandbox.docker import DockerBackend
from agentgym.testing.backends import check_backend

pytestmark = [pytest.mark.needs_docker, pytest.mark.slow]
RUNTIMES = ("crun", "runsc")  # runc, the default, is what the tests of every backend run


@pytest.fixture(scope="module", params=RUNTIMES)
def backend(request: pytest.FixtureRequest) -> Iterator[DockerBackend]:
    client = daemon()
    known = client.info()["Runtimes"]
    client.close()
    if request.param not in known:
        pytest.skip(f"the daemon knows no runtime {request.param!r}, only {', '.join(sorted(known))}")
    made = DockerBackend(runtime=request.param)
    found = asyncio.run(made.probe())
    if not found.available:
        asyncio.run(made.close())
        pytest.skip(f"{request.param}: {found.reason}")
    yield made
    asyncio.run(made.close())


# gVisor as Debian 12 ships it (2022) is too slow and too incomplete for every attack; what it is used for works.
ON_GVISOR = {
    "a_command_ends_in_a_result", "a_command_gets_its_input_directory_and_environment", "a_session_keeps_its_variables",
    "files_are_read_written_and_listed", "a_channel_answers_line_by_line", "reset_starts_afresh", "sandboxes_are_apart",
    "output_is_capped_at_the_source", "network", "secrets_of_the_host", "writing_outside", "kernel_interfaces",
    "disk_filler", "forged_replies",
}  # fmt: skip


async def test_the_backend_passes_its_checks(backend):
    await check_backend(backend, only=ON_GVISOR if backend.runtime == "runsc" else None)
