"""What a command says before it has a result: what it loads, and that it is still at work."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
import time

import pytest
from rich.console import Console
from scripted_episodes import say, task
from typer.testing import CliRunner

from agentgym import Budgets, EpisodeManager, Policy, RolloutConfig
from agentgym.cli.app import app
from agentgym.policy import Reply
from agentgym.rollout.progress import PhaseProgress
from agentgym.rollout.rollouts import Rollouts
from agentgym.testing import Counter, TargetReached


def test_a_phase_without_episodes_says_how_long_it_has_taken():
    output = io.StringIO()
    with PhaseProgress(Console(file=output, width=200), first_s=0.1) as progress:
        bar = progress.add_task("warm start", total=3)
        time.sleep(0.6)
        progress.update(bar, completed=3)
        time.sleep(0.3)
    lines = [line for line in output.getvalue().splitlines() if "so far" in line]
    assert len(lines) == 2, "after 0.1 and 0.3 s, and none once the phase has ended"
    assert re.fullmatch(r"warm start 0/3; \d s so far", lines[0])


class Slow(Policy):
    """Adds one after a while."""

    async def generate(self, request):
        await asyncio.sleep(0.2)
        return Reply(say("add"), completion_tokens=7)


TASKS = [task(f"t{n}", target=1000) for n in range(3)]
CONFIG = RolloutConfig(environment=Counter, reward=TargetReached(), budgets=Budgets(max_turns=5))


@pytest.mark.parametrize("plays", ["a manager", "a run"])
def test_before_the_first_episode_ends_a_phase_says_its_turns_and_tokens(plays):
    """Counted anew in each phase: the second has no more turns than the first."""
    output, policy = io.StringIO(), Slow()
    with Rollouts(CONFIG) as rollouts, PhaseProgress(Console(file=output, width=200), first_s=0.1) as progress:
        for phase in ("first", "second"):
            bar = progress.add_task(phase, total=3)
            if plays == "a run":
                rollouts.play(policy, TASKS, label=phase, on_trajectory=lambda _, bar=bar: progress.advance(bar))
            else:
                asyncio.run(EpisodeManager(policy, CONFIG).collect(TASKS, label=phase))
                progress.update(bar, completed=3)
    for phase in ("first", "second"):
        counts = re.findall(
            rf"{phase} 0/3; 3 episodes running, (\d+) turns, (\d+) tokens, \d+ a second, \d s so far", output.getvalue()
        )
        assert counts, output.getvalue()
        assert all(0 < int(turns) <= 15 and int(tokens) == 7 * int(turns) for turns, tokens in counts)


def test_a_terminal_shows_turns_and_tokens_below_the_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with PhaseProgress(console, first_s=0.05) as progress:
        progress.add_task("episodes", total=1)
        asyncio.run(EpisodeManager(Slow(), CONFIG).collect(TASKS[:1]))
        time.sleep(0.1)
        for renderable in progress.get_renderables():
            console.print(renderable)
    assert "5 turns, 35 tokens" in console.file.getvalue()


def test_an_evaluation_says_what_it_loads():
    done = CliRunner().invoke(app, ["eval", "text/number-guess-v1", "--policy", "oracle", "--limit", "2"])
    assert done.exit_code == 0
    assert "text/number-guess-v1:held_out: 2 tasks. Loading oracle." in done.stderr


def test_a_second_call_says_how_much_is_there_already(tmp_path):
    words = ["text/number-guess-v1:validation", "--policy", "oracle", "--out", str(tmp_path)]
    for command in ("eval", "rollout"):
        first = CliRunner().invoke(app, [command, *words, "--limit", "2"])
        assert "already" not in first.stderr
        more = CliRunner().invoke(app, [command, *words, "--limit", "3"])
        assert f"2 of 3 episodes are in {tmp_path} already; the others are played now." in more.stderr
        same = CliRunner().invoke(app, [command, *words, "--limit", "3"])
        assert f"3 of 3 episodes are in {tmp_path} already; nothing is left to play." in same.stderr


def test_a_folder_that_holds_a_run_is_refused_before_torch_is_imported(tmp_path):
    (tmp_path / "recipe.toml").write_text("name = 'other'")
    code = (
        "import sys; from typer.testing import CliRunner; from agentgym.cli.app import app\n"
        f"done = CliRunner().invoke(app, ['train', 'quickstart', '--out', {str(tmp_path)!r}])\n"
        "print(done.exit_code, 'torch' in sys.modules, 'already holds a run' in done.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "2 False True", done.stderr
