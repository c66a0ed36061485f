"""`agentgym view` as it is typed: it says where to look, serves, ends quietly, and names the extra that it needs."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import httpx
import pytest
from typer.testing import CliRunner

from agentgym import install_command
from agentgym.cli.app import app

START = [sys.executable, "-c", "from agentgym.cli import main; main()", "view"]


def test_it_serves_until_it_is_interrupted(runs):
    command = [*START, str(runs), "--port", "0", "--no-open"]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = viewer.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        assert line.startswith("1 run.")
        assert httpx.get(f"{address}api/runs", trust_env=False, timeout=60).json()[0]["key"] == "watched"
        viewer.send_signal(signal.SIGINT)
        rest = viewer.communicate(timeout=30)
    finally:
        viewer.kill()
        viewer.wait()
    assert (viewer.returncode, rest) == (0, ("", ""))


def test_a_path_that_is_no_folder_is_an_error(tmp_path):
    done = CliRunner().invoke(app, ["view", str(tmp_path / "nowhere"), "--no-open"])
    assert done.exit_code == 2
    assert "There is no folder" in done.output


@pytest.mark.parametrize("missing", ["uvicorn", "fastapi"])
def test_without_its_extra_it_says_what_to_install(runs, missing):
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom agentgym.cli import main; main()"
    command = [sys.executable, "-c", code, "view", str(runs), "--port", "0", "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{missing}, which is not installed. Run: {install_command('view')}" in " ".join(done.stderr.split())
    assert done.stdout == ""  # nothing to open was promised before
