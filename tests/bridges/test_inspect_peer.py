"""Inspect with our sandboxes and our tasks, in an environment of its own where the wheel is installed too, as in CI."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

PEER = Path(__file__).with_name("inspect_peer.py")
NEEDS_ROOT = {"test_exec_as_user"}  # adds a user; our sandboxes have one, and say that they support no other


def peer(what, logs):
    if not (python := os.environ.get("AGENTGYM_INSPECT_PYTHON")):
        pytest.skip("AGENTGYM_INSPECT_PYTHON names no interpreter that has inspect_ai and agentgym")
    run = subprocess.run(
        [python, PEER, what, logs], capture_output=True, text=True, check=False, cwd=logs, timeout=240, env=os.environ
    )
    assert run.returncode == 0, run.stderr + run.stdout[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_our_sandbox_passes_the_checks_of_inspect(tmp_path):
    """Two of the checks sleep for seven seconds."""
    outcomes = peer("self_check", tmp_path)
    assert len(outcomes) >= 44
    failed = {name: error for name, error in outcomes.items() if error}
    assert failed.keys() == NEEDS_ROOT, failed
    assert all(error.startswith("SandboxUserUnsupportedError") for error in failed.values())


def test_inspect_plays_in_our_sandboxes_and_our_tasks(tmp_path):
    seen = peer("tasks", tmp_path)
    assert seen["edges"] == {
        "flood": "OutputLimitExceededError",
        "exit 126": 126,  # of the command, which was run
        "missing": 127,
        "agent": 0,
        "root": "SandboxUserUnsupportedError",
        "memory": True,
        "disk": "OSError",
        "closed": "SandboxUnavailableError",
        "unknown key": "SandboxError",
    }
    assert seen["sandboxed"] == ["success", "forty-two agent"]
    for what, samples in {"locks": 20, "sql": 4, "generate": 4, "by name": 2}.items():
        expected = {"status": "success", "samples": samples, "differing": [], "success": {"1.0": samples}}
        assert seen[what] == expected, what
    assert seen["failed"] == ["error", {}]
