"""The figures of a training that plays ahead: which are shown, and in which words."""

from __future__ import annotations

import math

import pytest

from agentgym.evaluation.report.contents import read
from agentgym.evaluation.report.pace_data import FIGURES, in_words, pace_rows
from agentgym.evaluation.report.run_data import run_data
from agentgym.storage.run_folder import RunFolder


def test_a_figure_is_its_last_finite_value_and_others_are_left_out():
    log = [{"async/age_mean": 1.0, "async/queued": 3.0}, {"async/age_mean": 1.5, "async/queued": math.nan}]
    assert [(row["name"], row["value"]) for row in pace_rows(log)] == [
        ("groups queued", 3.0),
        ("age of tokens, mean", 1.5),
    ]
    assert pace_rows([]) == []


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("count", 12.0, "12"),
        ("share", 0.254, "25 %"),
        ("seconds", 0.0007, "0.7 ms"),
        ("seconds", 2.0, "2.0 s"),
        ("rate", 1234.5, "1,234.5 a second"),
        ("steps", 1.75, "1.8 steps"),
    ],
)
def test_figures_have_their_units(unit, value, words):
    assert in_words(unit, value) == words
    assert {figure.unit for figure in FIGURES} == {"count", "share", "seconds", "rate", "steps"}


def test_the_data_of_a_run_holds_the_figures_of_its_last_step(tmp_path):
    folder = RunFolder(tmp_path / "run").create()
    folder.recipe.write_text('name = "run"\n', encoding="utf-8")
    assert run_data(read(folder.path))["pace"] == []
    folder.log(1, "train", success=0.5, **{"cluster/nodes": 2.0, "async/publish_s": 0.001})
    assert run_data(read(folder.path))["pace"] == [
        {"name": "nodes", "metric": "cluster/nodes", "unit": "count", "value": 2.0},
        {"name": "publish lag of weights", "metric": "async/publish_s", "unit": "seconds", "value": 0.001},
    ]
