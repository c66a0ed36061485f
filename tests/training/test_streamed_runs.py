"""Whole recipes whose episodes are played in the background: equal at staleness 0, resumable, nothing trained twice."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from lookup_runs import assert_equal_weights, execute, recipe, start_training

from agentgym.errors import RecipeError
from agentgym.registry import load_task_set
from agentgym.storage.checkpoints import latest_checkpoint
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.samplers import sampler_of


def streamed(**changes) -> Recipe:
    """A run in which every episode has some reward, without the stages before."""
    train = {"train__steps": 5, "train__validate_every": 5, **changes}
    data = recipe(**train).model_dump(exclude_none=True)
    del data["warm_start"]
    data["reward"] = {"name": "test_vowels"}
    return Recipe.parse(data)


def trained_episodes(folder: Path) -> list[tuple[int, str]]:
    """Step and id of every episode that was trained on; what a later attempt at a step repeats stands last."""
    rows = [json.loads(line) for line in (folder / "credit.jsonl").read_text().splitlines()]
    return [(row["step"], row["trajectory"]) for row in rows]


def drawn_tasks(folder: Path) -> dict[str, set[str]]:
    """The ids of the tasks that were played, by the label of their step."""
    ledger = Ledger(folder / "ledger.sqlite")
    drawn: dict[str, set[str]] = {}
    for trajectory in ledger.trajectories("train-"):
        drawn.setdefault(trajectory.id.partition("/")[0], set()).add(trajectory.task.id)
    ledger.close()
    return drawn


def shuffled_tasks(chosen: Recipe) -> dict[str, set[str]]:
    """The tasks of a run without a sampler, which its seed decides alone."""
    sampler = sampler_of(None, load_task_set(chosen.tasks.set)["train"], chosen.seed, {})
    section = chosen.train
    batches = {step: sampler.draw(section.tasks_per_step, step) for step in range(section.steps)}
    return {f"train-{step * section.passes:06d}": {task.id for task in tasks} for step, tasks in batches.items()}


@pytest.mark.parametrize("sampler", [{}, {"train__sampler": "learnable"}], ids=["shuffled", "learnable"])
def test_playing_in_the_background_at_staleness_0_is_bit_equal_to_playing_each_step_in_turn(
    tmp_path, monkeypatch, sampler
):
    """The same episodes in the same order, so the same weights; at staleness 1 they are others."""
    execute(streamed(**sampler), tmp_path / "sync")
    monkeypatch.setattr(TrainSection, "is_streamed", True)
    execute(streamed(**sampler), tmp_path / "streamed")
    assert_equal_weights(tmp_path / "sync", tmp_path / "streamed")
    assert trained_episodes(tmp_path / "sync") == trained_episodes(tmp_path / "streamed")
    ledgers = [Ledger(tmp_path / name / "ledger.sqlite") for name in ("sync", "streamed")]
    for sync, other in zip(*(sorted(x.trajectories("train"), key=lambda t: t.id) for x in ledgers), strict=True):
        assert (sync.id, sync.arrays().ids.tolist()) == (other.id, other.arrays().ids.tolist())
        assert sync.arrays().logprobs.tolist() == other.arrays().logprobs.tolist()
        assert sync.arrays().versions.tolist() == other.arrays().versions.tolist()
    for ledger in ledgers:
        ledger.close()
    ages = [row["async/age_max"] for row in RunFolder(tmp_path / "streamed").metrics("train")]
    assert ages == [0.0] * 5
    execute(streamed(train__staleness=1, **sampler), tmp_path / "ahead")
    if not sampler:
        for name in ("sync", "streamed", "ahead"):
            assert drawn_tasks(tmp_path / name) == shuffled_tasks(streamed()), name
    with pytest.raises(AssertionError):
        assert_equal_weights(tmp_path / "sync", tmp_path / "ahead")
    rows = RunFolder(tmp_path / "ahead").metrics("train")
    assert max(row["async/age_max"] for row in rows) == 1.0
    assert all(0 < row["off_policy/effective_sample_size"] <= 1 for row in rows)
    ids = [trajectory for _, trajectory in trained_episodes(tmp_path / "ahead")]
    assert len(ids) == len(set(ids)) == 5 * 8


def test_a_killed_run_goes_on_and_trains_on_no_episode_twice(tmp_path):
    folder = tmp_path / "run"
    chosen = streamed(train__staleness=2, train__steps=6)
    process = start_training(chosen, folder)
    deadline = time.monotonic() + 240
    while not latest_checkpoint(folder / "checkpoints"):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    checkpoint = latest_checkpoint(folder / "checkpoints")
    step = int(checkpoint.name.rpartition("-")[2])
    state = json.loads((checkpoint / "stream.json").read_text())
    assert state["consumed"] == 2 * step
    in_flight = sum(len(entry["tasks"]) - len(entry["consumed"]) for entry in state["steps"])
    assert in_flight == 2 * min(3, 6 - step)  # the batch that comes next, and two ahead of it
    before = trained_episodes(folder)
    execute(chosen, folder, resume=True)
    assert [row["step"] for row in RunFolder(folder).metrics("train")] == list(range(1, 7))
    surviving = [row for row in before if row[0] < step] + trained_episodes(folder)[len(before) :]
    assert [number for number, _ in surviving] == [number for number in range(6) for _ in range(8)]
    assert len({trajectory for _, trajectory in surviving}) == 6 * 8
    assert drawn_tasks(folder) == shuffled_tasks(chosen)


def test_several_passes_over_a_batch_leave_out_no_task(tmp_path):
    for staleness in (0, 2):
        chosen = streamed(train__staleness=staleness, train__iterations=2, train__steps=3)
        execute(chosen, tmp_path / f"{staleness}")
        assert drawn_tasks(tmp_path / f"{staleness}") == shuffled_tasks(chosen)


def test_a_quorum_is_trained_on_and_late_episodes_are_counted(tmp_path):
    execute(streamed(train__group_quorum=2, train__steps=3, train__sampler="learnable"), tmp_path)
    rows = RunFolder(tmp_path).metrics("train")
    assert all("async/late" in row for row in rows)
    assert all(row["failed"] == 0 for row in rows)  # one that is missing has not failed
    ids = [trajectory for _, trajectory in trained_episodes(tmp_path)]
    assert 3 * 2 * 2 <= len(ids) == len(set(ids)) <= 3 * 8


def test_wrappers_that_only_choose_are_trained_with_and_keep_their_state(tmp_path):
    chosen = streamed(
        train__staleness=1,
        train__steps=4,
        train__gather=["success_replay", "spread_threshold", "top_spread(share=0.5)"],
        train__estimator_wrappers=["off_policy"],
        train__sampler="learnable",
    )
    check_before_start(chosen, load_task_set(chosen.tasks.set))
    execute(chosen, tmp_path)
    rows = RunFolder(tmp_path).metrics("train")
    assert [(row["gather/groups"], row["gather/episodes"], row["gather/trained"]) for row in rows] == [(2, 8, 4)] * 4
    assert max(row["async/age_max"] for row in rows) == 1.0
    states = json.loads((latest_checkpoint(tmp_path / "checkpoints") / "gatherers.json").read_text())
    assert states[0] == {}  # nothing was solved
    assert states[1]["mean"] > 0
    assert states[2] is None


OWN_OFF_POLICY = r"earlier steps.* estimator = \"rloo \| off_policy\(mode='tis'\)\""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({"staleness": 2, "gather": ["top_spread", wrapper]}, rf"= 2 .*{wrapper.partition('(')[0]}.* Remove ")
            for wrapper in (
                "dynamic",
                "max_variance(factor=2)",
                "starts(label='x')",
                "refill",
                "guide",
            )
        ),
        ({"staleness": 2, "gather": ["success_replay"], "estimator": "rloo"}, OWN_OFF_POLICY),
        ({"staleness": 1, "gather": ["success_replay"], "objective": "decoupled_ppo"}, r"off_policy\(mode='none'\)"),
        ({"staleness": 2, "generation": "trl"}, r"needs train.generation = 'transformers'"),
        ({"group_quorum": 3, "estimator": "sibling"}, r"group_quorum = 3 .*sibling compares branches"),
    ],
)
def test_what_playing_in_the_background_cannot_do_is_refused_before_the_start(changes, message):
    chosen = streamed(**{f"train__{name}": value for name, value in changes.items()})
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen, load_task_set(chosen.tasks.set))


def test_a_model_in_parts_is_not_played_in_the_background():
    chosen = streamed(train__staleness=1, machine__sharding="fsdp")
    with pytest.raises(RecipeError, match=r"staleness = 1 .* machine.sharding brings the weights together only when"):
        check_before_start(chosen, load_task_set(chosen.tasks.set))


def test_a_quorum_is_no_larger_than_its_group():
    with pytest.raises(RecipeError, match="group_quorum = 5 is larger than group_size = 4"):
        streamed(train__group_quorum=5)


def test_an_estimator_gets_the_off_policy_wrapper_unless_one_is_named():
    def chosen(**options) -> TrainSection:
        return TrainSection(estimator="rloo", staleness=2, **options)

    assert chosen().make_estimator().name == "rloo | off_policy"
    assert {"log_ratios", "versions"} <= set(chosen().make_estimator().requires)
    assert chosen(estimator_wrappers=["off_policy(mode='mis')"]).make_estimator().requires.count("versions") == 0
    assert TrainSection(estimator="rloo").make_estimator().name == "rloo"
