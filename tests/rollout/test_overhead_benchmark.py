"""The overhead benchmark runs and judges its targets; what it measures is no matter for a test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def overhead():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "overhead.py"
    spec = importlib.util.spec_from_file_location("overhead", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["overhead"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["overhead"]


def test_each_part_of_it_plays_whole_episodes(overhead):
    assert overhead.environment_calls(200) > 0
    assert overhead.episodes_played(20) > 0
    assert overhead.episodes_kept(20, tokens=True) > 0
    assert overhead.turn_cost(10, 20) > 0


def test_a_figure_holds_or_misses_its_target_in_its_direction(overhead):
    assert overhead.Row("rate", 10, "x", 9).holds
    assert not overhead.Row("rate", 8, "x", 9).holds
    assert overhead.Row("cost", 8, "x", 9, more_is_better=False).holds
    assert not overhead.Row("cost", 10, "x", 9, more_is_better=False).holds
    assert overhead.Row("no target", 0, "x").holds
