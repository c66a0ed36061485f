"""What a command says before it has a result: what it loads, and that it is still at work."""

from __future__ import annotations

import io
import subprocess
import sys
import time

from rich.console import Console
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.training.monitoring.heartbeat import heartbeat
from agentgym.training.monitoring.progress import PhaseProgress


def test_until_the_first_episode_ends_lines_say_how_long_it_has_taken():
    output = io.StringIO()
    with PhaseProgress(Console(file=output, width=200)) as progress:
        bar = progress.add_task("episodes", total=3, note="")
        with heartbeat(progress, bar, "episodes: the first is being played", first_s=0.1):
            time.sleep(0.5)
            progress.update(bar, completed=1)
            time.sleep(0.5)
    lines = [line for line in output.getvalue().splitlines() if "is being played" in line]
    assert len(lines) == 2, "after 0.1 and 0.3 s, and none once an episode has ended"


def test_an_evaluation_says_what_it_loads():
    done = CliRunner().invoke(app, ["eval", "text/number-guess-v1", "--policy", "oracle", "--limit", "2"])
    assert done.exit_code == 0
    assert "text/number-guess-v1:held_out: 2 tasks. Loading oracle." in done.stderr


def test_a_folder_that_holds_a_run_is_refused_before_torch_is_imported(tmp_path):
    (tmp_path / "recipe.toml").write_text("name = 'other'")
    code = (
        "import sys; from typer.testing import CliRunner; from agentgym.cli.app import app\n"
        f"done = CliRunner().invoke(app, ['train', 'quickstart', '--out', {str(tmp_path)!r}])\n"
        "print(done.exit_code, 'torch' in sys.modules, 'already holds a run' in done.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "2 False True", done.stderr
