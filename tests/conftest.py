"""What every test shares: offline settings, real sandboxes where the machine allows them, and nothing left running."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path

import pytest

# Before anything imports torch, tokenizers or a hub client: all of them read these once.
for name, value in {
    "OMP_NUM_THREADS": "1",  # tests, episodes and sandboxes run beside each other
    "TOKENIZERS_PARALLELISM": "false",  # a tokenizer with threads warns after every fork
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "MPLBACKEND": "Agg",
    "CUDA_VISIBLE_DEVICES": "",  # the tests' figures are of the CPU; GPU work is in benchmarks/
}.items():
    os.environ.setdefault(name, value)


@cache
def namespaces_reason() -> str:
    """Why the namespaces backend cannot work here, or nothing if it can."""
    from agentgym.sandbox.namespaces import NamespacesBackend

    async def probe() -> str:
        backend = NamespacesBackend()
        try:
            capabilities = await backend.probe()
        finally:
            await backend.close()
        return "" if capabilities.available else capabilities.reason or "the backend gave no reason"

    return asyncio.run(probe())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `needs_namespaces` where the kernel allows no sandbox; in CI that is a failure."""
    if item.get_closest_marker("needs_namespaces") is None or not namespaces_reason():
        return
    message = f"no sandbox can be made here: {namespaces_reason()}"
    if os.environ.get("CI"):
        pytest.fail(f"{message} (CI must run these tests)", pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running():
    """Close the shared backends when the last test is done, and see that no sandbox outlives them."""
    yield
    from agentgym.registry import close_backends

    asyncio.run(close_backends())
    left = [line for line in children_of(os.getpid()) if "agentgym" in line]
    assert left == [], f"still running after every backend was closed: {left}"


def children_of(pid: int) -> list[str]:
    """Command lines of the processes a process started and has not seen end (Linux only; elsewhere none)."""
    lines = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                lines.append(status.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended while we looked
    return lines
