"""Runs a script as an ordinary user, for tests that root may have started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from agentgym.sandbox.limits import ACCEPT_WEAKER

SANDBOX_TESTS = Path(__file__).parents[1] / "sandbox"


def as_ordinary_user(script: str) -> dict[str, object]:
    """Return the JSON object that a script of tests/sandbox prints when an ordinary user runs it."""
    switch = [str(SANDBOX_TESTS / "as_ordinary_user.py")] if os.geteuid() == 0 else []
    command = [sys.executable, *switch, str(SANDBOX_TESTS / script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), ACCEPT_WEAKER: ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
