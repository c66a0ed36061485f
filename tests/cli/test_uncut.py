"""At 80 columns, in a terminal and in a pipe, no command cuts a line, and names and figures stay whole."""

from __future__ import annotations

import asyncio
import io
import re
import sys
from pathlib import Path

import pytest
import sample_run
from typer.testing import CliRunner

from agentgym import Trajectory, Turn
from agentgym.cli.app import app
from agentgym.evaluation.record import Evaluation
from agentgym.messages import Message, Result, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.text import percent

WIDTH = 80
CUT = "…"
LINE = ", ".join(f"column_number_{i}" for i in range(40))
AGENTS = {
    "qwen3-0.6b-instruct-after-warm-start": "before",
    "qwen3-0.6b-instruct-after-reinforcement": "after",
}


class Screen(io.StringIO):
    """A terminal of 80 columns."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder with one episode of long lines."""
    folder = sample_run.make(tmp_path_factory.mktemp("runs") / "quickstart-of-the-seventh-of-november")
    ledger = Ledger(folder.ledger)
    turn = Turn(0, Message("assistant", LINE), results=(Result(LINE),), replies=(Message("user", LINE),))
    task = sample_run.task_set()["held_out"][0]
    trajectory = Trajectory("long/episode#0", task, opening=(Message("user", LINE),), turns=[turn])
    trajectory.stop_reason, trajectory.outcome = StopReason.ANSWERED, {"success": 1.0}
    ledger.begin(trajectory)
    asyncio.run(ledger.finish(trajectory))
    ledger.close()
    return folder.path


def commands(run):
    arms = [f"{name}={run}/evaluation/{label}.json" for name, label in AGENTS.items()]
    return {
        "compare": ["compare", *arms],
        "compare seeds": ["compare", *(f"{arm},{arm.partition('=')[2]}" for arm in arms)],
        "compare turns": ["compare", *arms, "--turns", "2,4,8"],
        "show": ["show", run],
        "show list": ["show", run, "--list", "held-out"],
        "show episode": ["show", run, "--episode", "long/episode#0"],
        "power": ["power", "--from", run / "evaluation/before.json"],
        "rollout": ["rollout", "sql/store-v1:train", "--policy", "oracle", "--limit", "2"],
        "eval": ["eval", "sql/store-v1:held_out", "--policy", "oracle", "--limit", "2", "--group-size", "4"],
        "play": ["play", "agentgym/sql-v1"],
        "list": ["list", "rewards"],
        "doctor": ["sandbox", "doctor"],
    }


NAMES = list(commands(Path("run")))


def in_pipe(words, stdin=None) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], input=stdin, env={"COLUMNS": str(WIDTH)})
    assert done.exit_code == 0, done.output
    return done.stdout


def on_screen(words, monkeypatch, stdin=None) -> str:
    terminal = Screen()
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin or ""))
    monkeypatch.setattr(sys, "stdout", terminal)
    app([str(word) for word in words], standalone_mode=False)
    return terminal.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_at_80_columns(run, name, monkeypatch):
    words, stdin = commands(run)[name], f"query(sql=\"SELECT '{LINE}'\")\n" if name == "play" else None
    piped = in_pipe(words, stdin)
    assert name != "play" or LINE in piped
    screen = on_screen(words, monkeypatch, stdin)
    assert CUT not in piped + screen
    assert [line for line in piped.splitlines() if line != line.rstrip()] == [], "no line is padded"
    assert words_of(piped) - words_of(screen) - {"Took"} == set(), "a column without a cell is left out"


def words_of(text: str) -> set[str]:
    """Every word that fits into a line, but for figures, times and sizes, which differ from run to run."""
    text = re.sub(r"[\d.]+ (?:µs|ms|s|min|h|B|[KMG]iB)\b,?", "", text)
    words = {word.strip(":") for word in text.split() if len(word) < WIDTH // 2}
    return {word for word in words if not re.fullmatch(r"[\d.]+", word)}


def test_a_time_is_compared_by_neither_its_figure_nor_its_unit():
    assert words_of("took CPU 998 ms, wall 1.02 s, peak 6.83 MiB") == words_of(
        "took CPU 1.2 s, wall 998 ms, peak 7 KiB"
    )


def test_a_comparison_names_both_agents_and_their_figures_whole(run, monkeypatch):
    piped, screen = in_pipe(commands(run)["compare"]), on_screen(commands(run)["compare"], monkeypatch)
    for label in AGENTS.values():
        success = Evaluation.load(run / "evaluation" / f"{label}.json").success()
        for text in (piped, screen):
            assert percent(success.value, 1) in text
            assert f"{100 * success.low:.1f} to {100 * success.high:.1f}" in text
    for text in (piped, screen):
        assert all(name in text for name in AGENTS)
        assert " -> ".join(AGENTS) in " ".join(text.split())


def test_each_line_of_an_episode_is_one_line_in_a_pipe(run):
    lines = in_pipe(["show", run, "--episode", "long/episode#0"]).splitlines()
    assert sum(LINE in line for line in lines) == 4
