"""Stages that collect episodes and learn from them: what is chosen, what is kept, and what is refused."""

from __future__ import annotations

import json
import shutil
from math import log
from pathlib import Path

import pytest
import torch
from lookup_runs import weights
from safetensors.torch import load_file
from staged_runs import BOTH, IMITATE, PLAYERS, pressing, run

from agentgym.errors import RecipeError
from agentgym.evaluation.report.contents import read
from agentgym.evaluation.report.run_data import run_data
from agentgym.policy import Hermes, TemplateRenderer
from agentgym.policy.checkpoint import load_checkpoint
from agentgym.policy.silence import silence_libraries
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.demonstrate import tokenise
from agentgym.training.imitation import Example, ImitationOptions, imitate
from agentgym.training.stages.plan import planned_stages

COLLECT = {"kind": "collect", "options": {"tasks": 8, "group_size": 4}}


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
    chosen = manifest(folder, "warm_start")
    assert chosen["read"] == 32
    assert len(chosen["episodes"]) == len(chosen["rows"]) == 8
    assert {row["episode"] for row in chosen["rows"]} == {episode["id"] for episode in chosen["episodes"]}
    assert all(row["episode"].startswith("collect/") for row in chosen["rows"])
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
    improved = imitated("improved", "improved")  # of the two players' first and only turns the better one
    assert all(torch.equal(successes[name], by_score[name]) for name in successes)
    assert all(torch.equal(successes[name], improved[name]) for name in successes)
    assert all(row["turn"] == 0 for row in manifest(tmp_path / "improved", "warm_start")["rows"])
    assert not all(torch.equal(successes[name], weighted[name]) for name in successes)


def test_a_stage_that_imitates_stored_successes_ends_as_imitation_of_them(started, tmp_path):
    """One episode of each task by each player, of which the imperfect one's all lost: as `imitate` on the others."""
    options = {"steps": 2, "episodes": [f"{started}:{player}" for player in BOTH], "select": "success"}
    chosen = pressing({"kind": "imitate", "options": options}, start=str(started))
    run(chosen, tmp_path / "run")
    ledger = Ledger(started / "ledger.sqlite")
    successes = [
        ledger.load(row["episode"].rpartition(":")[2]) for row in manifest(tmp_path / "run", "warm_start")["rows"]
    ]
    ledger.close()
    assert len(successes) == 64
    assert {episode.success for episode in successes} == {1.0}
    model, tokenizer = load_checkpoint(started / "checkpoints" / "final", device="cpu")
    model.train()
    renderer = TemplateRenderer(tokenizer, Hermes())
    successes = [Example(tokenise(episode, renderer)) for episode in successes]
    section = planned_stages(chosen)[0].recipe.warm_start
    names = ("steps", "batch_size", "learning_rate", "optimizer")
    options = ImitationOptions(
        folder=tmp_path / "steps", seed=chosen.seed, **{name: getattr(section, name) for name in names}
    )
    with silence_libraries():
        imitate(model, tokenizer, successes, options)
    trained = weights(tmp_path / "run")
    assert all(torch.equal(value, trained[name]) for name, value in model.state_dict().items() if name in trained)


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
    drawn = [stage["phase"] for stage in run_data(read(folder))["imitation"]]
    assert drawn == ["learn_1", "learn_2"], "the report draws every round"


def test_an_episode_that_has_changed_since_is_an_error(started, tmp_path):
    folder = tmp_path / "run"
    learn = {"kind": "imitate", "options": {"steps": 1, "episodes": [f"{started}:oracle"]}}
    chosen = pressing(learn, start=str(started))
    run(chosen, folder)
    shutil.rmtree(folder / "stages" / "warm_start" / "checkpoints")
    shutil.rmtree(folder / "checkpoints")
    file = folder / "stages" / "warm_start" / "episodes.json"
    written = json.loads(file.read_text().replace('"sha256": "', '"sha256": "0'))
    del written["file_digest"]
    file.write_text(json.dumps(written))
    with pytest.raises(RecipeError, match="has changed since"):
        run(chosen, folder, resume=True)


LEARN = {"steps": 2, "batch_size": 4, "learning_rate": 1e-3}
HALF = log(2)


@pytest.mark.parametrize(
    ("kind", "options", "rows", "first_loss"),
    [
        ("prefer", {}, 64, HALF),
        ("prefer", {"loss": "dmpo", "max_pairs": 1}, 64, HALF),
        ("prefer", {"loss": "kto"}, 128, 0.5),
        ("prefer", {"pairs": "turn", "reference": "start"}, 64, HALF),
        ("prefer", {"pairs": "turn", "ranking": "turn_gae", "critic_epochs": 1}, None, HALF),
        ("rank", {"score": "success"}, 64, None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_stage_learns_from_which_episode_is_better(started, tmp_path, kind, options, rows, first_loss):
    """Of each of 64 tasks there is one that won and one that lost. The reference is where the stage begins."""
    learn = {"kind": kind, "options": LEARN | {"episodes": [f"{started}:{player}" for player in BOTH]} | options}
    start = {"kind": "imitate", "name": "start", "options": {"steps": 1, "demonstrations": 8}}
    folder = tmp_path / "run"
    run(pressing(start, learn, start=str(started)), folder)
    chosen = manifest(folder, kind)
    assert len(chosen["rows"]) == rows if rows else 0 < len(chosen["rows"]) <= 64
    logged = RunFolder(folder).metrics(kind)
    assert [row["step"] for row in logged] == [1, 2]
    if first_loss is not None:
        assert logged[0]["loss"] == pytest.approx(first_loss, abs=1e-5), "equal policies"
        assert logged[1]["loss"] != logged[0]["loss"]
    before = load_file(folder / "stages" / "start" / "checkpoints" / "warm_start" / "model.safetensors")
    assert not all(torch.equal(value, before[name]) for name, value in weights(folder).items())


@pytest.mark.parametrize(("pairs", "gap"), [("outcome", 1.0), ("turn", 2.0)])
def test_the_manifest_says_which_pairs_were_compared_and_by_how_much(started, tmp_path, pairs, gap):
    """The oracle earns 1 and the other nothing; the credit of their one turn is 1 and -1 deviations of the two."""
    options = LEARN | {"pairs": pairs, "episodes": [f"{started}:{player}" for player in BOTH]}
    run(pressing({"kind": "prefer", "options": options}, start=str(started)), tmp_path / "run")
    record = manifest(tmp_path / "run", "prefer")
    assert len(record["rows"]) == 64
    for row in record["rows"]:
        sides = [row[side].removeprefix(f"{started}:").partition("/") for side in ("chosen", "rejected")]
        assert [player for player, *_ in sides] == BOTH
        assert sides[0][2] == sides[1][2], "of the same task"
        assert row["chosen_turns"] == row["rejected_turns"] == [0, 1]
        assert row["gap"] == gap
    assert {row[side] for row in record["rows"] for side in ("chosen", "rejected")} == {
        episode["id"] for episode in record["episodes"]
    }
    assert record["options"]["pairs"] == pairs
    assert record["options"]["max_length_ratio"] is None


def test_the_manifest_says_which_episodes_were_good_ones(started, tmp_path):
    options = LEARN | {"loss": "kto", "episodes": [f"{started}:{player}" for player in BOTH]}
    run(pressing({"kind": "prefer", "options": options}, start=str(started)), tmp_path / "run")
    record = manifest(tmp_path / "run", "prefer")
    assert record["options"] == {"loss": "kto", "score": "", "desirable_from": 1.0}
    assert {(row["good"], row["score"]) for row in record["rows"]} == {(True, 1.0), (False, 0.0)}
    assert all(row["good"] == (":oracle/" in row["episode"]) for row in record["rows"])


@pytest.mark.parametrize(
    ("kind", "options", "metric", "value"),
    [("prefer", {"beta": 0.5}, "accuracy", 1.0), ("rank", {"imitation_weight": 0.0}, "misordered", 0.0)],
)
def test_steps_raise_what_won_above_what_lost(started, tmp_path, kind, options, metric, value):
    learn = {"kind": kind, "options": LEARN | options | {"steps": 12, "learning_rate": 3e-3}}
    learn["options"]["episodes"] = [f"{started}:{player}" for player in reversed(BOTH)]
    run(pressing(learn, start=str(started)), tmp_path / "run")
    rows = RunFolder(tmp_path / "run").metrics(kind)
    assert rows[-1][metric] == value


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("prefer", {}, "found no pair among 64 episodes"),
        ("prefer", {"pairs": "segment", "branches": 1}, "64 branches from the worst turns .* none was better"),
        ("prefer", {"loss": "kto"}, "labels all 64 episodes as bad"),
        ("rank", {}, "nothing to rank: no two of 64 episodes"),
        ("imitate", {}, "select = 'success' keeps none of 64 episodes"),
        ("step_tasks", {}, "found no successful episode of an expert"),
    ],
)
def test_episodes_without_anything_to_learn_from_are_an_error_that_says_so(started, tmp_path, kind, options, message):
    """All of them lost. Only a stage that plays on from them has to begin before it can know."""
    options = options | {"episodes": [f"{started}:imperfect_oracle"]} | ({} if kind == "step_tasks" else {"steps": 1})
    folder = tmp_path / "run"
    with pytest.raises(RecipeError, match=message):
        run(pressing({"kind": kind, "options": options}, start=str(started)), folder)
    assert folder.exists() == (options.get("pairs") == "segment"), "it is an error before anything starts"


def test_own_episodes_without_a_pair_are_an_error_of_the_stage(started, tmp_path):
    lost = {"kind": "collect", "name": "lost", "options": {"policy": "imperfect_oracle", "group_size": 2}}
    stages = [lost, {"kind": "prefer", "options": {"steps": 1}}]
    with pytest.raises(RecipeError, match="'prefer' found no pair among 128 episodes"):
        run(pressing(*stages, start=str(started)), tmp_path / "run")


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"kind": "imitate", "options": {"episodes": ["colect"]}}], "'colect', but no earlier stage plays them"),
        ([COLLECT, {"kind": "imitate", "options": {"episodes": ["colect"]}}], "Did you mean 'collect'"),
        ([{"kind": "imitate", "options": {"episodes": ["runs/none:train"]}}], "runs/none/ledger.sqlite does not exist"),
        (
            [{"kind": "imitate", "options": {"select": "success"}}],
            "chooses among recorded episodes, and none are named",
        ),
        (
            [COLLECT, {"kind": "imitate", "options": {"episodes": ["collect"], "select": "best_off"}}],
            "Nothing in selections is named 'best_off'. Did you mean 'best_of'",
        ),
        ([{"kind": "collect", "options": {"group_sise": 2}}], "'collect'.*no key 'group_sise'. Did you mean"),
        ([{"kind": "collect", "options": {"policy": "chat_apo(model='x')"}}], "chat_apo.*Did you mean 'chat_api'"),
        ([{"kind": "collect", "options": {"trees": True}}], "trees = true needs a group_size of at least"),
        ([{"kind": "repeat", "options": {"times": 2}}], "'repeat'.*'stages' is missing"),
        ([IMITATE, {"kind": "prefer"}], "'prefer' has no episodes to learn from. Put a stage `collect` before it"),
        ([IMITATE, {"kind": "rank"}], "'rank' has no episodes"),
        ([{"kind": "collect"}, {"kind": "prefer"}], "'collect' plays only one of each. Give that stage a group_size"),
        ([{"kind": "collect"}, {"kind": "rank"}], "'collect' plays only one of each"),
        (
            [COLLECT, {"kind": "prefer", "options": {"pairs": "turn", "ranking": "turn_gae"}}],
            "'turn_gae' requires a critic .values., but the stage trains none. Set critic_epochs",
        ),
        (
            [COLLECT, {"kind": "prefer", "options": {"pairs": "turn", "critic_epochs": 1}}],
            "ranking = 'return_to_go' uses no critic",
        ),
        ([COLLECT, {"kind": "prefer", "options": {"loss": "dmpo", "pairs": "turn"}}], "compares whole episodes"),
        ([COLLECT, {"kind": "prefer", "options": {"reference": "start"}}], "reference = 'start' is neither"),
        ([{"kind": "repeat", "options": {"times": 2, "stages": [{"kind": "colect"}]}}], "stage.kind = 'colect'"),
    ],
)
def test_what_does_not_fit_is_one_line_before_anything_starts(stages, message):
    def check() -> None:
        chosen = pressing(*stages)
        check_before_start(chosen, chosen.tasks.load())

    with pytest.raises(RecipeError, match=message):
        check()


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([IMITATE, {"kind": "rank"}], "'rank' has no episodes to learn from"),
        ([{"kind": "reinforce", "options": {"objective": "ppo", "estimator": "rloo"}}], "the estimator rloo has none"),
        ([COLLECT, {"kind": "prefer", "options": {"pairs": "turn", "ranking": "turn_gae"}}], "requires a critic"),
        ([{"kind": "reinforce", "options": {"objective": "apo"}}], "needs a reference model"),
        ([{"kind": "reinforce", "options": {"terms": {"reference_kl": {}}}}], "needs a reference model"),
    ],
)
def test_a_run_that_lacks_data_a_critic_or_a_reference_writes_nothing(tmp_path, stages, message):
    with pytest.raises(RecipeError, match=message):
        run(pressing(*stages), tmp_path / "run")
    assert not (tmp_path / "run").exists()
