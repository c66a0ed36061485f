"""The arithmetic of benchmarks/horizon.py: its cells, their recipes, ratios over paired seeds, and predictions."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import horizon_predictions
import pytest
from by_day import cases
from horizon import NIGHT
from horizon_cells import ARMS, ENVIRONMENTS, PRETRAINED, Cell, episodes_per_step, grid, recipe_of, start_recipe
from horizon_compare import agreements, compared_text
from horizon_ratios import by_cell, cpu_s_of, ratio
from horizon_report import rank_correlations, table, write_report
from rich.console import Console

from agentgym.errors import EvaluationError
from agentgym.registry import load_reward


def row(arm: str, seed: int, reached: int | None, *, feedback: str = "dense", beside: float = 0.0) -> dict[str, Any]:
    return Cell("doors", 8, feedback, arm, seed).to_json() | {
        "steps": [4, 8],
        "success": [0.1, 0.9],
        "episodes_to_target": reached,
        "episodes": reached or 5120,
        "episodes_beside": beside,
        "held_out": 0.8,
        "cpu_s": 30.0,
    }


def test_a_ratio_is_the_geometric_mean_over_the_seeds_that_both_have():
    """1/2 and 1/8: the mean is 1/4."""
    those = [row("outcome", 0, 1024), row("outcome", 1, 4096), row("outcome", 7, 64)]
    these = [row("return_to_go", 0, 512), row("return_to_go", 1, 512)]
    compared = ratio(these, those)
    assert compared is not None
    assert compared.value == pytest.approx(0.25)
    assert compared.low < 0.25 < compared.high
    assert (compared.seeds, compared.bound) == (2, "")
    assert ratio(these[:1], [row("outcome", 1, 64)]) is None
    single = ratio(these[:1], those)
    assert single is not None
    assert math.isnan(single.p)


def test_equal_runs_are_equal_up_to_how_often_success_is_looked_at():
    compared = ratio([row("rloo", s, 1024) for s in range(5)], [row("outcome", s, 1024) for s in range(5)])
    assert compared is not None
    assert compared.value == 1.0
    assert compared.low < 0.95
    assert compared.p == 1.0


@pytest.mark.parametrize(
    ("these", "those", "bound"), [(None, 64, ">"), (64, None, "<"), (None, None, "?"), (64, 64, "")]
)
def test_a_run_that_ended_before_80_percent_makes_the_ratio_a_bound(these, those, bound):
    compared = ratio([row("a", 0, these)], [row("b", 0, those)])
    assert compared is not None
    assert compared.bound == bound


def test_episodes_that_an_estimator_plays_beside_count():
    compared = ratio([row("vine", 0, 512, beside=1536.0)], [row("outcome", 0, 512)])
    assert compared is not None
    assert compared.value == pytest.approx(4.0)


def test_processor_time_is_compared_beside_episodes_and_forks_have_a_column():
    """As many episodes of training, three times as many beside, in twice the time."""
    forks = row("vine", 0, 512, beside=1536.0) | {"cpu_s": 60.0}
    compared = ratio([forks], [row("outcome", 0, 512)], cpu_s_of)
    assert compared is not None
    assert compared.value == pytest.approx(2.0)
    line = next(line for line in table([forks, row("outcome", 0, 512)], {}) if line[3] == "vine")
    assert line[5:7] == ["512", "1,536"]
    assert line[-1] == "2.00"


def _runs(factor: float, arm_factor: float = 1.0, held_out: float = 0.8) -> list[dict[str, Any]]:
    """Four seeds of two arms whose seeds differ by up to a factor of two, times what the machine does to them."""
    rows = []
    for arm, own in (("return_to_go", 1.0), ("flattened", arm_factor)):
        for seed, reached in enumerate((1024, 1280, 1536, 2048)):
            rows.append(row(arm, seed, round(reached * factor * own)) | {"held_out": held_out + 0.02 * seed})
    return rows


def test_a_machine_whose_runs_are_like_the_stored_ones_agrees_with_them():
    text, agree = compared_text(_runs(1.1), _runs(1.0))
    assert agree
    assert "4 of 4 means lie within" in text


@pytest.mark.parametrize(
    ("new", "cell", "measure"),
    [
        (_runs(1.0, arm_factor=4.0), "doors, 8 turns, dense, flattened", "episodes"),
        (_runs(1.0, arm_factor=0.25), "doors, 8 turns, dense, flattened", "episodes"),
        (_runs(1.0, held_out=0.2), "doors, 8 turns, dense, return_to_go", "held out"),
    ],
)
def test_a_machine_on_which_a_cell_comes_out_otherwise_does_not(new, cell, measure):
    outside = [(a.cell, a.measure) for a in agreements(new, _runs(1.0)) if not a.inside]
    assert (cell, measure) in outside
    assert all(m == measure for _, m in outside)
    text, agree = compared_text(new, _runs(1.0))
    assert not agree
    assert "OUTSIDE" in text


def test_what_a_short_run_could_not_reach_is_not_held_against_it():
    """New runs end after 1,280 episodes; stored ones that needed more count as that."""
    new = [r if r["episodes"] <= 1280 else r | {"episodes_to_target": None, "episodes": 1280} for r in _runs(1.0)]
    stored = [r if r["episodes"] <= 1280 else r | {"episodes_to_target": 5120, "episodes": 5120} for r in _runs(1.0)]
    assert all(a.inside for a in agreements(new, stored))


def test_nothing_to_compare_with_is_an_error():
    with pytest.raises(EvaluationError, match="nothing to compare with"):
        agreements(_runs(1.0), [])


def test_success_at_unseen_horizons_is_the_mean_over_the_runs_that_measured_it():
    old = row("return_to_go", 0, 512)
    rows = [
        old,
        *(old | {"seed": s, "unseen_horizons": {"3": s / 2, "6": 0.5, "12": 0.0, "24": 0.0}} for s in (1, 2)),
    ]
    (line,) = table(rows, {})
    assert "0.75 0.50 0.00 0.00" in line


def test_the_arm_of_the_outcome_stands_once_and_is_compared_with_under_every_feedback():
    cells = grid(["doors"], [8, 16], ["outcome", "dense"], None, range(2))
    assert len(set(cells)) == len(cells)
    assert {cell.feedback for cell in cells if cell.arm == "outcome"} == {"outcome"}
    assert {cell.horizon for cell in cells if cell.arm == "vine"} == {8}
    rows = [row("outcome", 0, 1024, feedback="outcome"), row("return_to_go", 0, 512)]
    assert (("doors", 8, "dense"), "outcome") in by_cell(rows)
    line = next(line for line in table(rows, {}) if line[3] == "return_to_go")
    assert "0.50" in line[-3]


FEEDBACKS = ["outcome", "sparse", "delayed", "noisy", "wrong", "misleading"]


@pytest.mark.parametrize(
    "chosen",
    cases(
        [*product(ENVIRONMENTS, FEEDBACKS)],
        by_day=[(name, FEEDBACKS[number % len(FEEDBACKS)]) for number, name in enumerate(ENVIRONMENTS)],
    ),
)
def test_every_environment_has_a_recipe_with_tasks_of_each_horizon(chosen, tmp_path):
    environment, feedback = chosen
    start_recipe(environment, seed=3)
    for horizon in (2, 32):
        cell = Cell(environment, horizon, feedback, "turn_gae", 3)
        recipe = recipe_of(cell, tmp_path, steps=5)
        tasks = recipe.tasks.load()
        assert {task.parameters["horizon"] for task in tasks["train"]} == {horizon}
        assert len(tasks["validation"]) >= 40
        assert recipe.episode.max_turns >= horizon
        assert recipe.train.make_estimator().name == ARMS["turn_gae"].partition("(")[0]
        for name, options in recipe.reward.options.items():
            load_reward(name, **options)


def test_a_pretrained_model_plays_fewer_episodes_and_only_on_request(tmp_path):
    cell = Cell("doors_smollm2", 8, "dense", "return_to_go", 0)
    train = recipe_of(cell, tmp_path, steps=5).train
    assert train.tasks_per_step * train.group_size == episodes_per_step("doors_smollm2") == 16
    assert episodes_per_step("doors") == 64
    assert not set(PRETRAINED) & set(NIGHT["environments"])


def test_predictions_are_made_once_and_correlate_with_what_follows_them(tmp_path, monkeypatch):
    monkeypatch.setattr(horizon_predictions, "chance_of_right", lambda cell, start: 0.6)
    cells = grid(["doors"], [2], ["outcome", "dense"], ["outcome", "return_to_go", "flattened"], range(1))
    starts = {("doors", 0): tmp_path}
    horizon_predictions.predict(cells, starts, tmp_path, Console(quiet=True))
    first = (tmp_path / "predictions.json").read_text()
    monkeypatch.setattr(horizon_predictions, "prediction", lambda cell, chance: {})
    horizon_predictions.predict(cells, starts, tmp_path, Console(quiet=True))
    assert (tmp_path / "predictions.json").read_text() == first
    known = {"doors-8": {"cells": {"dense-vine": _of(64), "dense-rloo": _of(128), "dense-gtpo": _of(512)}}}
    rows = [row("vine", 0, 640), row("rloo", 0, 1280), row("gtpo", 0, 2560)]
    assert rank_correlations(rows, known)["shared"][0] == pytest.approx(1.0)


def _of(episodes: int) -> dict[str, Any]:
    return {skills: {"episodes": episodes, "signal_to_noise": 1.0} for skills in ("shared", "own")}


def test_the_report_shows_every_cell_and_needs_nothing_from_outside(tmp_path):
    rows = [row("outcome", 0, None, feedback="outcome"), row("return_to_go", 0, 512)]
    (tmp_path / "predictions.json").write_text(json.dumps({}))
    assert "2 runs" in write_report(rows, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons", ""
    )
    assert "return_to_go" in (tmp_path / "table.md").read_text()
    assert "Nothing has been run" in write_report([], tmp_path)
