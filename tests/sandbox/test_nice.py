"""A host that steps back for others has sandboxes that do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_namespaces
SHARES = "/sys/fs/cgroup/**/agentgym-{spawner}/cpu.shares"
NICENESS = """
import asyncio, os, sys
from glob import glob
from pathlib import Path
from agentgym.registry import load
from agentgym.sandbox.contract import SandboxSpec

async def main():
    backend = load("backends", "namespaces")()
    sandbox = await backend.create(SandboxSpec())
    for spawner in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        for file in glob(sys.argv[1].format(spawner=spawner), recursive=True):
            print(Path(file).read_text(), end="")
    await sandbox.close()
    await backend.close()

asyncio.run(main())
"""


@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpu/cpu.shares").exists(), reason="the cpu controller is not of version 1")
def test_sandboxes_are_as_nice_as_their_host():
    """By 1.25 a step, which is what a step of niceness is worth to the scheduler (sched(7), nice(7))."""
    command = ["nice", "-n", "5", sys.executable, "-c", NICENESS, SHARES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert set(done.stdout.splitlines()) == {str(round(1024 / 1.25 ** (os.nice(0) + 5)))}
