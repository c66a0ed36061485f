"""Stages that collect episodes and learn from them: what is chosen, what is kept, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.preflight import check_before_start
from agentgym.training.stages.plan import planned_stages

sys.path.insert(0, str(Path(__file__).parent))
from lookup_environment import PRESS
from test_run import weights
from test_stages import run, with_stages

COLLECT = {"kind": "collect", "options": {"tasks": 8, "group_size": 4}}
PLAYERS = [{"kind": "collect", "name": name, "options": {"policy": name}} for name in ("oracle", "imperfect_oracle")]
BOTH = ["oracle", "imperfect_oracle"]
IMITATE = {"kind": "imitate", "name": "start", "options": {"steps": 15, "imperfect_oracle": 0.5}}


def pressing(*stages: dict, start: str | None = None) -> Recipe:
    """A recipe in which there are two buttons; its policy goes on from a run."""
    data = with_stages(*stages).model_dump(exclude_none=True)
    data["tasks"] = {"set": PRESS}
    data["episode"] = data["episode"] | {"max_turns": 1}
    data["warm_start"] = data["warm_start"] | {"demonstrations": 32, "validate_every": 1000}
    data["evaluate"] = data["evaluate"] | {"tasks": 4}
    if start is not None:
        data["policy"] = {"path": start, "call_format": "hermes"}
    return Recipe.parse(data)


@pytest.fixture(scope="module")
def started(tmp_path_factory) -> Path:
    """A run that has begun to learn from both players, and has kept episodes of both: each task won and lost."""
    folder = tmp_path_factory.mktemp("pressing") / "run"
    run(pressing(IMITATE, *PLAYERS), folder)
    return folder


def manifest(folder: Path, stage: str) -> dict:
    return json.loads((folder / "stages" / stage / "episodes.json").read_text())


def test_a_stage_imitates_what_an_earlier_one_collected_and_keeps_what_it_chose(started, tmp_path):
    folder = tmp_path / "run"
    chosen = {"kind": "imitate", "options": {"steps": 2, "episodes": ["collect"], "select": "best_of(n=1)"}}
    output = run(pressing(COLLECT, chosen, start=str(started)), folder)
    assert "collect: success" in output
    kept = manifest(folder, "warm_start")
    assert kept["read"] == 32
    assert len(kept["episodes"]) == len(kept["rows"]) == 8
    assert {row["episode"] for row in kept["rows"]} == {episode["id"] for episode in kept["episodes"]}
    assert all(row["episode"].startswith("collect/") for row in kept["rows"])
    (row,) = RunFolder(folder).metrics("collect")
    assert 0 <= row["success"] <= 1


def test_imitation_of_successes_is_that_of_their_demonstrations(started, tmp_path):
    """Weights of 1 and the selection `success` train as `imitate` does on the same episodes; other weights do not."""

    def imitated(name: str, select: str) -> dict[str, torch.Tensor]:
        options = {"steps": 2, "episodes": [f"{started}:{player}" for player in BOTH], "select": select}
        run(pressing({"kind": "imitate", "options": options}, start=str(started)), tmp_path / name)
        return weights(tmp_path / name)

    successes = imitated("success", "success")
    by_score = imitated("score", "score(minimum=1.0)")
    weighted = imitated("weighted", "weighted(temperature=0.1)")
    assert all(torch.equal(successes[name], by_score[name]) for name in successes)
    assert not all(torch.equal(successes[name], weighted[name]) for name in successes)


def test_a_block_is_repeated_with_the_episodes_of_its_own_round(started, tmp_path):
    block = {
        "kind": "repeat",
        "options": {
            "times": 2,
            "stages": [
                {"kind": "collect", "options": {"tasks": 4, "group_size": 2}},
                {"kind": "imitate", "name": "learn", "options": {"steps": 2, "episodes": ["collect"]}},
            ],
        },
    }
    block["options"]["stages"][1]["options"] |= {"select": "best_of", "earlier_rounds": 0.5}
    chosen, folder = pressing(block, start=str(started)), tmp_path / "run"
    assert [stage.name for stage in planned_stages(chosen)] == ["collect_1", "learn_1", "collect_2", "learn_2"]
    run(chosen, folder)
    assert {source["label"] for source in manifest(folder, "learn_1")["sources"]} == {"collect_1"}
    second = manifest(folder, "learn_2")
    assert [(s["label"], s["is_earlier"]) for s in second["sources"]] == [("collect_1", True), ("collect_2", False)]
    assert second["read"] == 4 + 8  # half of the first round
    assert (folder / "stages" / "learn_2" / "checkpoints" / "warm_start").is_dir()


def test_an_episode_that_has_changed_since_is_an_error(started, tmp_path):
    folder = tmp_path / "run"
    learn = {"kind": "imitate", "options": {"steps": 1, "episodes": [f"{started}:oracle"]}}
    chosen = pressing(learn, start=str(started))
    run(chosen, folder)
    shutil.rmtree(folder / "stages" / "warm_start" / "checkpoints")
    shutil.rmtree(folder / "checkpoints")
    file = folder / "stages" / "warm_start" / "episodes.json"
    file.write_text(file.read_text().replace('"sha256": "', '"sha256": "0'))
    with pytest.raises(RecipeError, match="is not what it was when"):
        run(chosen, folder, resume=True)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"kind": "imitate", "options": {"episodes": ["colect"]}}], "'colect': no stage before it plays those"),
        ([COLLECT, {"kind": "imitate", "options": {"episodes": ["colect"]}}], "Did you mean 'collect'"),
        ([{"kind": "imitate", "options": {"episodes": ["runs/none:train"]}}], "there is no runs/none/ledger.sqlite"),
        ([{"kind": "imitate", "options": {"select": "success"}}], "chooses among stored episodes"),
        (
            [COLLECT, {"kind": "imitate", "options": {"episodes": ["collect"], "select": "best_off"}}],
            "no selection 'best_off'. Did you mean 'best_of'",
        ),
        ([{"kind": "collect", "options": {"group_sise": 2}}], "'collect'.*no key 'group_sise'. Did you mean"),
        ([{"kind": "collect", "options": {"policy": "chat_apo(model='x')"}}], "chat_apo.*Did you mean 'chat_api'"),
        ([{"kind": "collect", "options": {"trees": True}}], "trees = true needs group_size = 3"),
        ([{"kind": "repeat", "options": {"times": 2}}], "'repeat'.*'stages' is missing"),
        ([{"kind": "repeat", "options": {"times": 2, "stages": [{"kind": "colect"}]}}], "stage.kind = 'colect'"),
    ],
)
def test_what_does_not_fit_is_one_line_before_anything_starts(stages, message):
    def check() -> None:
        chosen = pressing(*stages)
        check_before_start(chosen, chosen.tasks.load())

    with pytest.raises(RecipeError, match=message):
        check()
