"""Saved episodes through the commands: judged again, run again, played on by a policy and by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app

CODE = Path(__file__).with_name("acme_counter.py")
ENVIRONMENT_VARIABLES = {**os.environ, "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}


def agentgym(*words, stdin=None, code=None):
    modules = ["--import", CODE] + (["--import", code] if code else [])
    return CliRunner().invoke(app, [str(word) for word in (*words, *modules)], input=stdin, env=ENVIRONMENT_VARIABLES)


@pytest.fixture
def evaluated_run(tmp_path):
    """An evaluation by the oracle, whose fork below starts over with other numbers."""
    done = agentgym("eval", "--tasks", "acme/counts-v1", "--policy", "oracle", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


def test_an_evaluation_is_judged_again(evaluated_run):
    code = evaluated_run.parent / "strict_judge.py"
    code.write_text(
        "from agentgym import register\nfrom agentgym.testing.counter import TargetReached\n"
        "class Even(TargetReached):\n"
        '    """Only even targets count."""\n'
        "    def outcome(self, episode):\n"
        "        return {'success': float(episode.task.truth % 2 == 0)}\n"
        'register("acme_even", Even, kind="rewards")\n'
    )
    done = agentgym("episodes", "rescore", evaluated_run, "held_out", "--reward", "acme_even", code=code)
    assert done.exit_code == 0, done.output
    assert "5 verdicts differ" in done.stdout
    assert "held_out-21#0: 1 -> 0" in done.stdout
    record = json.loads((evaluated_run / "evaluation" / "held_out-acme_even.json").read_text())
    assert sum(row["success"][0] for row in record["rows"]) == 5
    wrong = agentgym("episodes", "rescore", evaluated_run, "before", "--reward", "acme_even", code=code)
    assert wrong.exit_code == 2
    assert "Cannot read the evaluation" in wrong.stderr


def test_a_replay_says_that_all_is_as_it_was_or_where_it_is_not(evaluated_run):
    done = agentgym("episodes", "replay", evaluated_run)
    assert done.exit_code == 0, done.output
    assert "10 of 10 episodes came out as recorded" in done.stdout
    code = evaluated_run.parent / "changed_world.py"
    code.write_text(
        CODE.read_text().replace(
            '    reward = "acme_target"',
            '    reward = "acme_target"\n\n    async def reset(self, task, *, seed):\n'
            "        opening = await super().reset(task, seed=seed)\n"
            "        self.value = int(task.id == 'held_out-22')\n        return opening\n",
        )
    )
    run = [
        sys.executable,
        "-c",
        "from agentgym.cli import main; main()",
        "episodes",
        "replay",
        str(evaluated_run),
        "--import",
        str(code),
    ]
    done = subprocess.run(run, capture_output=True, text=True, env=ENVIRONMENT_VARIABLES)
    assert done.returncode == 1, done.stderr
    assert "9 of 10 episodes came out as recorded" in done.stdout
    assert "held_out-22#0: Turn 0 differs in its result: recorded ['tool: 22'], replayed ['tool: 23']" in done.stdout
    assert agentgym("episodes", "replay", evaluated_run, "--list", "nothing").exit_code == 2


def test_an_episode_is_played_on_by_hand_and_by_a_policy(evaluated_run):
    episode = "evaluation/held_out/held_out-20#0"
    done = agentgym(
        "episodes",
        "fork",
        evaluated_run,
        "--episode",
        episode,
        "--turn",
        2,
        "--out",
        evaluated_run.parent / "forks",
        stdin="add(3)\nsubmit()\n",
    )
    assert done.exit_code == 0, done.output
    assert "submitted 23" in done.stdout
    assert "success +0" in done.stdout
    listed = (
        CliRunner()
        .invoke(app, ["show", str(evaluated_run.parent / "forks"), "--list", "fork"], env=ENVIRONMENT_VARIABLES)
        .stdout
    )
    assert f"fork/{episode}@1#0  success 0  turns 3" in listed
    code = evaluated_run.parent / "eager_policy.py"
    code.write_text(
        "from agentgym import Call, Message, register\nfrom agentgym.policy.scripted import ScriptedPolicy\n"
        "register('acme_eager', lambda: ScriptedPolicy(lambda m: Message('assistant', '', (Call('submit'),))), "
        "kind='policies')\n"
    )
    words = ["episodes", "fork", evaluated_run, "--episode", episode, "--turn", 2]
    done = agentgym(*words, "--policy", "acme_eager", "--group-size", 2, code=code)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("submitted 20") == 2
    late = agentgym("episodes", "fork", evaluated_run, "--episode", episode, "--turn", 9)
    assert late.exit_code == 2
    assert "has 2 turns" in late.stderr
