"""Scripts that use sandboxes in processes of their own, and waiting for what they do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time


async def until(condition, what: str, within_s: float = 10.0) -> None:
    """Wait for something another process does; a test that waits in vain says for what."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.01)


SCRIPT = """
    import asyncio, os, sys, time
    from agentgym.errors import SandboxDied, SandboxUnavailable
    from agentgym.sandbox.limits import SandboxSpec
    from agentgym.sandbox.namespaces import NamespacesBackend
    spec = SandboxSpec(accept_weaker=("all",))
"""


def run_script(body: str, **options) -> subprocess.CompletedProcess[str]:
    code = textwrap.dedent(SCRIPT) + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options)
