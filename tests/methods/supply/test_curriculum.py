"""A curriculum rises when its hardest level is mastered, draws from its window alone, and goes on from a checkpoint."""

from __future__ import annotations

import io
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from agentgym import Task, Trajectory, Turn
from agentgym.errors import TaskError
from agentgym.messages import Message, StopReason
from agentgym.methods.supply.curriculum import Curriculum
from agentgym.training import Recipe
from agentgym.training.samplers import FILE, make_sampler, restore_sampler

TASKS = [Task(f"{level}/{index}", "test/none-v1", "?", difficulty=level) for level in range(6) for index in range(5)]


def groups(level, success, count=8, size=2):
    """Groups of a level, each episode with the same success."""
    task, turn = Task("t", "test/none-v1", "?", difficulty=level), Turn(0, Message("assistant", "x"))

    def episode():
        return Trajectory("e", task, turns=[turn], outcome={"success": success}, stop_reason=StopReason.ANSWERED)

    return [[episode() for _ in range(size)] for _ in range(count)]


def test_it_begins_with_the_easiest_and_rises_level_by_level_to_the_hardest():
    curriculum, caps = Curriculum(TASKS), []
    for _ in range(8):
        caps.append(curriculum.update(groups(curriculum.cap, 1.0))["curriculum/cap"])
    assert caps == [1, 2, 3, 4, 5, 5, 5, 5]
    assert curriculum.open_levels == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("outcomes", "cap"),
    [
        (groups(0, 1.0, count=7), 0),  # 7 of 8 prompts
        (groups(0, 1.0, count=8), 1),
        (groups(0, 0.85, count=50), 0),
        (groups(0, 1.0, count=18) + groups(0, 0.0, count=2), 1),  # 0.9 is enough
        (groups(1, 1.0, count=50), 0),  # another level says nothing of this one
    ],
)
def test_it_rises_after_eight_prompts_at_nine_in_ten(outcomes, cap):
    curriculum = Curriculum(TASKS)
    curriculum.update(outcomes)
    assert curriculum.cap == cap


def test_it_remembers_four_times_the_prompts_that_a_rise_takes():
    """24 groups at a half and 16 at 1: (24 * 0.5 + 16) / 40 = 0.7. The last 16 alone would be enough to rise."""
    curriculum = Curriculum(TASKS)
    curriculum.update(groups(0, 0.5, count=24))
    curriculum.update(groups(0, 1.0, count=8))
    assert curriculum.update(groups(0, 1.0, count=8)) == {"curriculum/cap": 0, "curriculum/cap_success": 0.7}
    assert curriculum.state()["seen"] == [0.5] * 16 + [1.0] * 16
    curriculum.update(groups(0, 1.0, count=80))
    assert curriculum.cap == 1


def test_failed_episodes_are_no_evidence():
    curriculum, outcomes = Curriculum(TASKS), groups(0, 1.0, count=8)
    for group in outcomes:
        for trajectory in group:
            trajectory.stop_reason = StopReason.INFRA_ERROR
    curriculum.update(outcomes)
    assert curriculum.cap == 0


def test_levels_of_the_window_are_drawn_equally_often_whatever_their_number_of_tasks():
    curriculum = Curriculum([*TASKS, *[Task(f"more/{i}", "test/none-v1", "?", difficulty=0) for i in range(500)]])
    curriculum.load({"cap": 2.0, "seen": []})
    drawn = Counter(task.difficulty for step in range(100) for task in curriculum.draw(12, step))
    assert set(drawn) == {0, 1, 2}
    assert all(350 < count < 450 for count in drawn.values())  # 400 expected, standard deviation 16


@given(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), max_size=12))
@settings(max_examples=50, deadline=None)
def test_one_that_went_through_a_checkpoint_goes_on_as_one_that_did_not(step, history):
    uninterrupted, resumed = Curriculum(TASKS, seed=3), Curriculum(TASKS, seed=3)
    for level, success in history:
        uninterrupted.update(groups(level, success))
    resumed.load(json.loads(json.dumps(uninterrupted.state())))
    for _ in range(3):
        assert uninterrupted.draw(8, step) == resumed.draw(8, step)
        assert uninterrupted.update(groups(uninterrupted.cap, 1.0)) == resumed.update(groups(resumed.cap, 1.0))
    assert uninterrupted.state() == resumed.state()


def test_a_checkpoint_of_other_tasks_is_refused(tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"cap": 77.0, "seen": []}))
    with pytest.raises(TaskError, match=r"was at difficulty 77.0, but no task has"):
        restore_sampler(make_sampler("curriculum", TASKS, 0), tmp_path)
    with pytest.raises(TaskError, match="was given no tasks"):
        Curriculum([])


@pytest.mark.slow
def test_a_recipe_with_a_curriculum_trains_in_its_window_and_keeps_it_with_the_checkpoints(tmp_path):
    from agentgym.training import train

    recipe = Recipe.parse(
        {
            "name": "rising",
            "tasks": {"set": "text/number-guess-v1"},
            "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 1, "heads": 2, "kv_heads": 1}},
            "episode": {"max_turns": 2, "max_episode_tokens": 48, "max_turn_tokens": 12},
            "warm_start": {"demonstrations": 8, "steps": 1, "batch_size": 4, "validate_tasks": 1},
            "train": {
                "steps": 2,
                "tasks_per_step": 2,
                "group_size": 2,
                "save_every": 1,
                "validate_tasks": 1,
                "sampler": "curriculum(prompts=2, accuracy=0.0)",
            },
            "evaluate": {"tasks": 1},
            "machine": {"device": "cpu", "threads": 1},
        }
    )
    train(recipe, folder=tmp_path / "run", console=Console(file=io.StringIO()))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["curriculum/cap"] for row in rows if row["phase"] == "train"] == [1.0, 1.0]
    state = json.loads((tmp_path / "run" / "checkpoints" / "checkpoint-2" / FILE).read_text())
    assert state["cap"] == 1.0
