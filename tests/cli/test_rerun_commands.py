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
SETTING = {**os.environ, "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}


def agentgym(*words, stdin=None, code=None):
    modules = ["--import", CODE] + (["--import", code] if code else [])
    return CliRunner().invoke(app, [str(word) for word in (*words, *modules)], input=stdin, env=SETTING)


@pytest.fixture
def played(tmp_path):
    """An evaluation by the oracle, whose fork below starts over with other numbers."""
    done = agentgym("eval", "--tasks", "acme/counts-v1", "--policy", "oracle", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    return tmp_path / "run"


def test_an_evaluation_is_judged_again(played):
    code = played.parent / "strict_judge.py"
    code.write_text(
        "from agentgym import register\nfrom agentgym.testing.counter import TargetReached\n"
        "class Even(TargetReached):\n"
        '    """Only even targets count."""\n'
        "    def outcome(self, episode):\n"
        "        return {'success': float(episode.task.truth % 2 == 0)}\n"
        'register("acme_even", Even, kind="rewards")\n'
    )
    done = agentgym("episodes", "rescore", played, "held_out", "--reward", "acme_even", code=code)
    assert done.exit_code == 0, done.output
    assert "5 verdicts differ" in done.stdout
    assert "held_out-21#0: 1 -> 0" in done.stdout
    record = json.loads((played / "evaluation" / "held_out-acme_even.json").read_text())
    assert sum(row["success"][0] for row in record["rows"]) == 5
    wrong = agentgym("episodes", "rescore", played, "before", "--reward", "acme_even", code=code)
    assert wrong.exit_code == 2
    assert "Cannot read the evaluation" in wrong.stderr


def test_a_replay_says_that_all_is_as_it_was_or_where_it_is_not(played):
    done = agentgym("episodes", "replay", played)
    assert done.exit_code == 0, done.output
    assert "10 of 10 episodes came out as recorded" in done.stdout
    code = played.parent / "changed_world.py"
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
        str(played),
        "--import",
        str(code),
    ]
    done = subprocess.run(run, capture_output=True, text=True, env=SETTING)
    assert done.returncode == 1, done.stderr
    assert "9 of 10 episodes came out as recorded" in done.stdout
    assert "held_out-22#0: Turn 0 differs in its result: recorded ['tool: 22'], replayed ['tool: 23']" in done.stdout
    assert agentgym("episodes", "replay", played, "--list", "nothing").exit_code == 2


def test_an_episode_is_played_on_by_hand_and_by_a_policy(played):
    episode = "evaluation/held_out/held_out-20#0"
    done = agentgym(
        "episodes",
        "fork",
        played,
        "--episode",
        episode,
        "--turn",
        2,
        "--out",
        played.parent / "forks",
        stdin="add(3)\nsubmit()\n",
    )
    assert done.exit_code == 0, done.output
    assert "submitted 23" in done.stdout
    assert "success +0" in done.stdout
    kept = CliRunner().invoke(app, ["show", str(played.parent / "forks"), "--list", "fork"], env=SETTING).stdout
    assert f"fork/{episode}@1#0  success 0  turns 3" in kept
    code = played.parent / "eager_policy.py"
    code.write_text(
        "from agentgym import Call, Message, register\nfrom agentgym.policy.scripted import ScriptedPolicy\n"
        "register('acme_eager', lambda: ScriptedPolicy(lambda m: Message('assistant', '', (Call('submit'),))), "
        "kind='policies')\n"
    )
    words = ["episodes", "fork", played, "--episode", episode, "--turn", 2]
    done = agentgym(*words, "--policy", "acme_eager", "--group-size", 2, code=code)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("submitted 20") == 2
    late = agentgym("episodes", "fork", played, "--episode", episode, "--turn", 9)
    assert late.exit_code == 2
    assert "has 2 turns" in late.stderr
