"""Weak kinds of tasks: worked examples by hand, and the command on a ledger."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from agentgym import Task, Trajectory, Turn
from agentgym.cli.app import app
from agentgym.errors import EvaluationError
from agentgym.messages import Message, StopReason
from agentgym.methods.weakness.history import TaskHistory, histories, histories_of_run, weak_kinds
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.trajectory import PromptAddition, Provenance

TASKS = [
    Task(f"t{index}", "test/none-v1", "?", tags=("all", "long" if index % 2 else "short"), difficulty=index % 2)
    for index in range(10)
]


def episode(task: Task, batch: int, success: float, sample: int = 0, **changes: object) -> Trajectory:
    turns = [Turn(0, Message("assistant", "x"))]
    name = f"train-{batch:06d}/{task.id}#{sample}"
    answered = Trajectory(
        name, task, sample, turns=turns, outcome={"success": success}, stop_reason=StopReason.ANSWERED
    )
    return replace(answered, **changes)


def two_batches() -> list[Trajectory]:
    """Short rows are always solved in the end; long ones are solved by one of four, and ever less."""
    episodes = []
    for batch in range(2):
        for index, task in enumerate(TASKS):
            for sample in range(4):
                success = 1.0 if index % 2 == 0 and batch else float(index % 2 and batch == 0 and sample == 0)
                episodes.append(episode(task, batch, success, sample))
    return episodes


@pytest.mark.parametrize(
    ("visits", "weak"),
    [
        ([0.0], True),
        ([0.25, 0.25], True),
        ([0.25, 0.0], True),
        ([0.0, 0.25], False),  # it rises
        ([0.5, 0.0], False),  # it reached the half once
        ([0.25, 0.4, 0.0], True),
    ],
)
def test_a_task_is_weak_whose_visits_stay_low_and_do_not_rise(visits, weak):
    history = TaskHistory(TASKS[0], {str(number): [success] for number, success in enumerate(visits)})
    assert history.is_weak() is weak


def test_kinds_are_counted_and_the_least_successful_comes_first():
    total, first, *others = weak_kinds(histories(two_batches()))
    assert (total.name, total.tasks, total.weak, total.episodes) == ("all", 10, 5, 80)
    assert (first.name, first.tasks, first.weak, first.episodes) == ("difficulty 1", 5, 5, 40)
    assert first.success == 5 / 40
    assert first.low < 5 / 40 < first.high
    assert first.change == pytest.approx(-0.25)
    assert [kind.name for kind in others] == ["long", "difficulty 0", "short"]
    assert (others[-1].weak, others[-1].change) == (0, pytest.approx(1.0))
    assert len(weak_kinds(histories(two_batches()), at_least=6)) == 1, "a kind of five tasks"


def test_only_judged_training_episodes_without_help_count():
    task = TASKS[0]
    measured = replace(task, split="held_out")
    others = [
        episode(measured, 0, 0.0),
        episode(task, 0, 0.0, stop_reason=StopReason.INFRA_ERROR),
        episode(task, 0, 0.0, outcome={}),
        episode(task, 0, 0.0, provenance=Provenance(additions=(PromptAddition.training_help("hint", "Left."),))),
    ]
    assert histories(others) == []
    (history,) = histories([*others, episode(task, 0, 1.0)])
    assert history.visits == {"train-000000": [1.0]}


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run").create()
    ledger = Ledger(folder.ledger)

    async def record() -> None:
        for trajectory in two_batches():
            ledger.begin(trajectory)
            await ledger.write_turn(trajectory, trajectory.turns[0])
            await ledger.finish(trajectory)

    asyncio.run(record())
    ledger.close()
    return folder


def test_the_command_prints_a_table_of_80_columns_and_json(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = CliRunner().invoke(app, ["tasks", "weak", str(run.path)]).output
    lines = printed.splitlines()
    assert lines[0].split() == ["Kind", "Tasks", "Weak", "Episodes", "Success", "95", "%", "interval", "Change"]
    assert lines[2].split()[:6] == ["difficulty", "1", "5", "5", "40", "12.5%"]
    assert max(map(len, lines[:-1])) <= 80
    assert "5 of 10 tasks are weak" in lines[-1]
    data = json.loads(CliRunner().invoke(app, ["tasks", "weak", str(run.path), "--json"]).output)
    assert data["weak_tasks"] == ["t1", "t3", "t5", "t7", "t9"]
    assert data["kinds"][1]["success"] == 0.125


def test_a_run_without_such_episodes_is_named(run):
    with pytest.raises(EvaluationError, match="no judged episode of a training task whose id begins with 'other'"):
        histories_of_run(run, "other")
