"""What commands do on macOS, in a process that finds nothing of Linux alone (tests/support/macos)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MACOS = Path(__file__).parents[1] / "support/macos"


def rollout(tasks: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "agentgym", "rollout", tasks, "--policy", "oracle", "--limit", "2"]
    environment = {**os.environ, "PYTHONPATH": str(MACOS)}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_a_set_of_text_plays(tmp_path):
    process = rollout("text/number-guess-v1:train", tmp_path)
    assert process.returncode == 0, process.stderr
    assert "success   100 %" in process.stdout + process.stderr


def test_a_set_with_sandboxes_says_once_what_is_missing(tmp_path):
    process = rollout("sql/store-v1:train", tmp_path)
    assert process.returncode == 2
    assert process.stderr.count("sandboxes need Linux") == 1
    assert "docker/Dockerfile" in process.stderr
    assert "Traceback" not in process.stderr
