"""The guard speaks before a run is dead, keeps quiet over one that is well, and keeps what was healthy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lookup_environment import PRESS
from lookup_runs import execute, recipe
from safetensors.torch import load_file
from scipy import stats
from typer.testing import CliRunner

from agentgym import Task, Trajectory, Turn
from agentgym.cli.app import app
from agentgym.errors import RecipeError
from agentgym.evaluation.collapse_guard import CollapseGuard, GuardSection
from agentgym.evaluation.diagnostics import diagnose, zero_gradient_forecast
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.storage.checkpoints import BEST, best_validation, healthy_step, keep_healthy
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

WELL = {
    "success": 0.5,
    "entropy": 0.4,
    "grad_norm": 0.3,
    "guard/zero_gradient": 0.3,
    "guard/no_tool": 0.0,
    "guard/ended_on_tool": 0.1,
    "guard/turn_tokens": 20.0,
    "guard/diversity": 0.6,
    "guard/drift": 0.001,
    "moved_by/success": 0.6,
    "moved_by/form": 0.4,
}
DYING = {
    "zero_gradient": {"guard/zero_gradient": 1.0},
    "no_tool": {"guard/no_tool": 0.9},
    "ended_on_tool": {"guard/ended_on_tool": 0.8},
    "length": {"guard/turn_tokens": 120.0},
    "entropy_low": {"entropy": 0.001},
    "entropy_high": {"entropy": 3.0},
    "diversity": {"guard/diversity": 0.0},
    "gradient": {"grad_norm": 40.0},
    "drift": {"guard/drift": 0.5},
    "success_share": {"moved_by/success": 0.1, "moved_by/form": 0.9},
    "success_drop": {"success": 0.0},
}


FINAL, LAST = "final", "checkpoint-2"
FORM_ALONE = DYING["success_share"]


def after_a_good_start(**settings) -> CollapseGuard:
    guard = CollapseGuard(GuardSection(**settings))
    for step in range(1, 13):
        assert guard.observe(step, WELL) == []
    return guard


@pytest.mark.parametrize("rule", DYING)
def test_each_rule_speaks_when_it_is_broken_long_enough_and_only_once(rule):
    guard = after_a_good_start()
    raised = [guard.observe(step, WELL | DYING[rule]) for step in range(13, 30)]
    assert [alarm.rule for alarms in raised for alarm in alarms] == [rule]
    first = next(i for i, alarms in enumerate(raised) if alarms)
    assert first >= 2
    assert not guard.healthy
    for step in range(30, 40):
        guard.observe(step, WELL)
    assert guard.healthy


def test_every_rule_has_a_case_here():
    assert set(DYING) == {*CollapseGuard()._rules, "success_drop"}


def test_a_short_slip_is_no_alarm():
    guard = after_a_good_start()
    for step in range(13, 40):
        assert guard.observe(step, WELL | (DYING["no_tool"] if step % 3 else {})) == []


def test_a_number_that_is_none_is_an_alarm_at_once():
    guard = after_a_good_start()
    assert [a.rule for a in guard.observe(13, WELL | {"grad_norm": float("nan")})] == ["gradient"]
    assert [a.rule for a in CollapseGuard().observe(1, {"grad_norm": float("inf")})] == ["gradient"]


def test_a_run_that_has_learnt_everything_has_not_collapsed():
    guard = after_a_good_start()
    solved = {"success": 1.0, "guard/zero_gradient": 1.0, "entropy": 0.001, "guard/diversity": 0.0, **FORM_ALONE}
    for step in range(13, 30):
        assert guard.observe(step, WELL | solved) == []


def test_a_validation_far_below_the_best_is_an_alarm_at_once_and_only_once():
    guard = CollapseGuard()
    fall = [0.16, 0.51, 0.47, 0.42, 0.29, 0.50, 0.2]  # the alarm is raised below 0.85 x 0.51
    raised = [guard.observe_validation(5 * i, success) for i, success in enumerate(fall)]
    assert [alarm.step for alarms in raised for alarm in alarms] == [15, 30]
    assert "0.42, and was 0.51 at best" in raised[3][0].reason
    assert guard.observe_validation(40, float("nan")) == []


def test_a_guard_that_is_off_says_nothing():
    guard = CollapseGuard(GuardSection(on_alarm="off"))
    assert [guard.observe_validation(step, 1.0 / (1 + step)) for step in range(3)] == [[], [], []]
    assert all(guard.observe(step, {"grad_norm": float("nan")}) == [] for step in range(5))


@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 16), data=st.data(), size=st.integers(1, 16))
def test_the_forecast_is_the_posterior_mean_of_the_textbook_formula(n, data, size):
    """Against the integral of (1-p)^N + p^N over Beta(s + 1/2, n - s + 1/2), by scipy."""
    s = data.draw(st.integers(0, n))
    weight = stats.beta(s + 0.5, n - s + 0.5)
    grid = weight.ppf((np.arange(2000) + 0.5) / 2000)
    want = float(np.mean((1 - grid) ** size + grid**size))
    assert zero_gradient_forecast(s, n, size) == pytest.approx(want, abs=2e-3)


def episode(group: int, sample: int, *, text: str, success: float, stop=StopReason.ANSWERED, call=True) -> Trajectory:
    calls = (Call("look", {"at": text}),) if call else ()
    turn = Turn(0, Message("assistant", text, calls), calls, tuple(Result("x") for _ in calls), token_ids=[1] * 10)
    return Trajectory(
        f"t{group}#{sample}",
        Task(f"t{group}", "e"),
        sample,
        turns=[turn],
        outcome={"success": success},
        stop_reason=stop,
    )


def test_a_batch_is_diagnosed_by_hand():
    """Two groups of two: one alike and without gradient; in the other an episode ends at work, and one has no tool."""
    trajectories = [
        episode(0, 0, text="all the same", success=1.0),
        episode(0, 1, text="all the same", success=1.0),
        episode(1, 0, text="one thing", success=1.0, stop=StopReason.MAX_TURNS),
        episode(1, 1, text="another matter", success=0.0, call=False),
    ]
    credit = [np.zeros(1), np.zeros(1), np.ones(1), -np.ones(1)]
    got = diagnose(trajectories, credit, 2)
    assert got["guard/zero_gradient"] == 0.5
    assert got["guard/no_tool"] == 0.25
    assert got["guard/ended_on_tool"] == 0.25
    assert got["guard/turn_tokens"] == 10.0
    assert got["guard/diversity"] == pytest.approx((0.0 + 1.0) / 2, abs=0.01)
    want = (zero_gradient_forecast(2, 2, 2) + zero_gradient_forecast(1, 2, 2)) / 2
    assert got["guard/zero_forecast"] == pytest.approx(want)


def test_a_batch_of_failed_episodes_says_nothing():
    assert diagnose([episode(0, 0, text="x", success=0.0, stop=StopReason.INFRA_ERROR)], [np.zeros(1)], 1) == {}


def test_a_healthy_checkpoint_outlives_the_one_it_was_made_from(tmp_path):
    for step, content in ((4, "four"), (8, "eight")):
        source = tmp_path / f"checkpoint-{step}"
        source.mkdir()
        (source / "model").write_text(content)
        keep_healthy(source, tmp_path / "healthy")
        (source / "model").unlink()
        source.rmdir()
        assert (tmp_path / "healthy" / "model").read_text() == content
        assert healthy_step(tmp_path / "healthy") == step


def test_a_guard_section_with_a_wrong_key_is_named():
    data = {"name": "x", "tasks": {"set": "sql/store-v1"}, "policy": {"tiny": {}}, "guard": {"patiense": 2}}
    with pytest.raises(RecipeError, match=r"guard\.patiense.*Did you mean 'patience'"):
        Recipe.parse(data)


def going_on_from(run: Path) -> dict[str, Any]:
    """A recipe without a warm start."""
    data = recipe().model_dump(exclude_none=True)
    del data["warm_start"]
    return data | {"tasks": {"set": PRESS}, "policy": {"path": str(run), "call_format": "hermes"}}


@pytest.mark.slow
@pytest.mark.together("users of the even policy")
@pytest.mark.thorough
def test_a_real_run_that_collapses_stops_at_its_last_healthy_checkpoint_and_says_why(even, tmp_path):
    """A learning rate far too high: the policy forgets how to call its tools within a few steps."""
    data = going_on_from(even)
    data["train"] |= {"steps": 16, "save_every": 1, "keep_checkpoints": 1}
    data["train"]["optimiser"] = {"learning_rate": 0.5, "warmup_steps": 12}
    data["train"] |= {"tasks_per_step": 4, "group_size": 8}
    data["guard"] = {"on_alarm": "stop", "patience": 2, "baseline_steps": 2}
    folder = execute(Recipe.parse(data), tmp_path / "run").path
    report = json.loads((folder / "guard.json").read_text())
    assert report["stopped"]
    assert report["alarms"][0]["reason"]
    rows = RunFolder.existing(folder).metrics("train")
    assert rows[-1]["step"] < 16
    assert {"guard/zero_gradient", "guard/zero_forecast", "guard/drift", "guard/diversity"} <= set(rows[0])
    assert rows[0]["guard/drift"] < 1e-3  # what is trained on is what was sampled
    step = healthy_step(folder / "checkpoints" / "healthy")
    assert step is not None
    assert step < report["alarms"][0]["step"]
    final = folder / "checkpoints" / "final" / "model.safetensors"
    healthy = folder / "checkpoints" / "healthy" / "model.safetensors"
    output = CliRunner().invoke(app, ["show", str(folder)], env={"COLUMNS": "300"}).stdout
    assert f"guard, step {report['alarms'][0]['step']}: " in output
    ours, theirs = load_file(final), load_file(healthy)
    assert all((ours[name] == theirs[name]).all() for name in theirs)


@pytest.mark.slow
@pytest.mark.together("users of the even policy")
def test_a_run_can_end_with_the_weights_of_its_best_validation(even, tmp_path):
    """The second step's learning rate is far too high, the first one's is 0."""
    data = going_on_from(even)
    data["train"] |= {"tasks_per_step": 4, "group_size": 8, "steps": 2, "save_every": 2}
    data["train"] |= {"validate_every": 1, "validate_tasks": 4, "ends_with": "best"}
    data["train"]["optimiser"] = {"learning_rate": 0.5, "warmup_steps": 1}
    folder = RunFolder.existing(execute(Recipe.parse(data), tmp_path / "run").path)
    first, second = folder.metrics("validation")
    assert first["success"] > second["success"]
    assert best_validation(folder.checkpoints) == (1, first["success"])
    final, best, last = (load_file(folder.checkpoints / name / "model.safetensors") for name in (FINAL, BEST, LAST))
    assert all((final[name] == best[name]).all() for name in best)
    assert not all((final[name] == last[name]).all() for name in last)
    shares = [{k: v for k, v in row.items() if k.startswith("moved_by/")} for row in folder.metrics("train")]
    assert any(shares)
    assert all(sum(row.values()) == pytest.approx(1.0) for row in shares if row)
