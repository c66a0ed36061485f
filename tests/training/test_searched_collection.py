"""A stage `collect` that searches: what it keeps for later stages, with values as labels."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agentgym.errors import RecipeError
from agentgym.storage.ledger import Ledger

sys.path.insert(0, str(Path(__file__).parent))
from test_learning_stages import IMITATE, pressing
from test_stages import run

from agentgym.training.stages.plan import planned_stages

SEARCH = "mcts(nodes=8, candidates=8, value='log_prob')"
COLLECT = {"kind": "collect", "name": "sought", "options": {"tasks": 6, "search": SEARCH}}
LEARN = {"kind": "imitate", "name": "learn", "options": {"steps": 2, "episodes": ["sought"], "select": "weighted"}}


def recorded(folder: Path, label: str) -> dict[str, tuple]:
    ledger = Ledger(folder / "ledger.sqlite")
    episodes = {t.id: (t.outcome, [turn.value for turn in t.turns], t.prompt_ids) for t in ledger.trajectories(label)}
    ledger.close()
    return episodes


def test_later_stages_learn_from_the_ends_of_the_trees_with_values_and_a_second_run_keeps_the_same(tmp_path):
    folder = tmp_path / "run"
    run(pressing(IMITATE, COLLECT, LEARN), folder)
    episodes = recorded(folder, "sought")
    assert len(episodes) >= 6
    assert all("success" in outcome for outcome, _, _ in episodes.values())
    ends = {name: values for name, (_, values, _) in episodes.items() if name.startswith("sought-end/")}
    assert ends
    assert all(value < 0 for values in ends.values() for value in values)
    manifest = json.loads(next(folder.glob("stages/learn/episodes.json")).read_text())
    assert {entry["id"] for entry in manifest["episodes"]} <= episodes.keys()
    run(pressing(IMITATE, COLLECT, LEARN), folder, resume=True)
    assert recorded(folder, "sought") == episodes


def test_a_search_by_the_oracle_or_in_trees_is_refused():
    for options in ({"policy": "oracle"}, {"trees": True, "group_size": 4}, {"search": "msct"}):
        with pytest.raises(RecipeError, match="search"):
            planned_stages(pressing({"kind": "collect", "options": COLLECT["options"] | options}))
