"""A run that is killed within a stage goes on and ends bit for bit as one that was not, whatever the kind of stage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lookup_runs import assert_equal_weights
from staged_runs import BOTH, PLAYERS, finished, forget_episodes, killed_run, pressing, run

from agentgym.evaluation.record import Evaluation
from agentgym.registry import names
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe

BRIEF = {"steps": 3, "save_every": 1}
MEASURED = {"tasks": 16, "group_size": 2}
STAGES = [
    {"kind": "imitate", "name": "start", "options": {"steps": 15}},
    {"kind": "collect", "name": "played", "options": {"tasks": 16, "group_size": 2}},
    *PLAYERS,
    {"kind": "collect", "name": "sought", "options": {"tasks": 4, "search": "mcts(nodes=8, value='log_prob')"}},
    {
        "kind": "imitate",
        "name": "copy",
        "options": BRIEF | {"episodes": ["played", "oracle", "sought"], "select": "weighted"},
    },
    {"kind": "prefer", "options": BRIEF | {"episodes": BOTH, "batch_size": 4}},
    {"kind": "rank", "options": BRIEF | {"episodes": BOTH, "batch_size": 4}},
    {"kind": "step_tasks", "name": "steps", "options": {"max_tasks": 8}},
    {"kind": "reinforce", "name": "practice", "options": BRIEF | {"tasks_of": "steps", "estimator": "grpo"}},
    {"kind": "generate", "name": "new", "options": {"episodes": ["played"], "below": 1.0, "tasks": 6}},
    {"kind": "reinforce", "name": "harder", "options": BRIEF | {"steps": 1, "tasks_of": "new"}},
    {
        "kind": "repeat",
        "options": {
            "times": 2,
            "stages": [
                {"kind": "collect", "name": "again", "options": {"tasks": 4, "group_size": 2}},
                {"kind": "imitate", "name": "learn", "options": BRIEF | {"episodes": ["again"], "select": "weighted"}},
            ],
        },
    },
    {"kind": "evaluate", "name": "measured", "options": MEASURED},
    {"kind": "control", "options": MEASURED | {"control": {"told": 1}}},
]
ORDER = ["start", "copy", "prefer", "rank", "steps", "practice", "new", "harder", "learn_1", "learn_2"]
"""The stages with a folder."""


def recipe() -> Recipe:
    chosen = pressing(*STAGES)
    return chosen.model_copy(update={"episode": chosen.episode.model_copy(update={"concurrency": 4})})


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    run(recipe(), folder)
    return folder


def cut_back(folder: Path, first: str | None, label: str) -> None:
    """Leave a finished run as it was before a stage with a folder, and before the episodes of a label were played."""
    for name in ORDER[ORDER.index(first) :] if first else ():
        shutil.rmtree(folder / "stages" / name)
    shutil.rmtree(folder / "checkpoints")
    for evaluation in (folder / "evaluation").glob("*.json"):
        evaluation.unlink()
    forget_episodes(folder, label)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "first", "label", "steps"),
    [
        ("collect", "copy", "played", None),
        ("imitate", "copy", "none", "warm_start_steps"),
        ("prefer", "prefer", "none", "compared_steps"),
        ("rank", "rank", "none", "compared_steps"),
        ("step_tasks", "steps", "none", None),
        ("generate", "new", "none", None),
        ("reinforce", "practice", "practice", ""),  # by day in test_run.py
        ("repeat", "learn_2", "again_2", None),
    ],
)
def test_a_run_killed_within_a_stage_ends_as_an_unbroken_one(unbroken, tmp_path, kind, first, label, steps):
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    cut_back(folder, first, label)
    left = folder / "stages" / first

    def is_within() -> bool:
        if kind in ("step_tasks", "generate"):
            return (left / "tasks.jsonl").is_file()
        if steps is None:
            return finished(folder, label) > 0
        return bool(latest_checkpoint(left / "checkpoints" / steps))

    killed_run(recipe(), folder, is_within)
    checkpoints = {"warm_start", "compared", "final"}
    assert not checkpoints & {path.name for path in left.glob("checkpoints/*")}, "it was killed within the stage"
    run(recipe(), folder, resume=True)
    assert_equal_weights(unbroken, folder)
    for name in ("copy", "prefer", "rank", "learn_2"):
        manifest = (folder / "stages" / name / "episodes.json").read_text()
        assert manifest == (unbroken / "stages" / name / "episodes.json").read_text()


def test_a_search_that_is_killed_keeps_its_nodes_and_leaves_the_same_episodes(unbroken, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(unbroken, folder)
    cut_back(folder, "copy", "sought")
    killed_run(recipe(), folder, lambda: finished(folder, "nodes-searched-sought") > 0)
    nodes = recorded(folder, "nodes-searched-sought")
    assert nodes
    assert not recorded(folder, "sought"), "it was killed while it searched"
    run(recipe(), folder, resume=True)
    assert_equal_weights(unbroken, folder)
    assert recorded(folder, "sought") == recorded(unbroken, "sought") != {}
    of_unbroken = recorded(unbroken, "nodes-searched-sought")
    assert recorded(folder, "nodes-searched-sought") == of_unbroken
    assert nodes.keys() < of_unbroken.keys()


def recorded(folder: Path, label: str) -> dict[str, tuple]:
    """What the policy wrote in each finished episode of a label, and the values of its turns and of its end."""
    ledger = Ledger(folder / "ledger.sqlite")
    episodes = {
        t.id: ([(turn.token_ids, turn.value) for turn in t.turns], t.end_state)
        for t in ledger.trajectories(label)
        if t.id.partition("/")[0] in (label, f"{label}-end")
    }
    ledger.close()
    return episodes


@pytest.mark.parametrize("name", ["measured", pytest.param("control", marks=pytest.mark.thorough)])
def test_a_measurement_that_is_killed_while_it_plays_measures_what_it_would_have(unbroken, tmp_path, name):
    folder, file = tmp_path / "run", f"evaluation/{name}.json"
    shutil.copytree(unbroken, folder)
    cut_back(folder, None, f"held-out-{name}")
    killed_run(recipe(), folder, lambda: finished(folder, f"held-out-{name}") > 0)
    assert not (folder / file).exists(), "it was killed within the stage"
    run(recipe(), folder, resume=True)
    first, second = (Evaluation.load(path / file).rows for path in (unbroken, folder))
    assert [(row.task, row.observed) for row in first] == [(row.task, row.observed) for row in second]


def test_every_kind_of_stage_is_killed_here_or_beside():
    """`test_offline_stages.py` kills those that learn values, and `prefer` where it plays segments itself."""
    values = {"direct_advantage", "implicit_q", "conservative_q", "outcome_head"}
    beside = values | {"evaluate_guided", "evaluate_reranked"}
    assert {stage["kind"] for stage in STAGES} | beside == {n for n in names("stages") if not n.startswith("test_")}
