"""Which tasks and which episodes a step learns from: samplers and gatherers, alone and in a run."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from lookup_runs import assert_equal_weights, execute, recipe
from rich.console import Console

from agentgym import Task
from agentgym.errors import RecipeError
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe, train
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.samplers import Shuffled, sampler_of


def test_a_run_with_a_sampler_and_a_gatherer_trains_and_counts_every_episode(tmp_path):
    chosen = recipe(
        train__steps=2, train__save_every=1, train__sampler="learnable", train__gather=["max_variance(factor=2)"]
    )
    folder = tmp_path / "run"
    train(chosen, folder=folder, console=Console(file=io.StringIO()))
    rows = RunFolder(folder).metrics("train")
    assert len(rows) == 2
    assert all(0 < row["sampler/tried"] <= 1 for row in rows)
    ledger = Ledger(folder / "ledger.sqlite")
    recorded = list(ledger.trajectories("train-"))
    ledger.close()
    assert len(recorded) == 2 * 2 * 8, "two steps of two groups of twice four"
    credited = (folder / "credit.jsonl").read_text().splitlines()
    assert len(credited) == 2 * 2 * 4
    by_step = [[t for t in recorded if t.id.startswith(f"train-{step:06d}")] for step in range(2)]
    for row, episodes in zip(rows, by_step, strict=True):
        assert row["success"] == pytest.approx(np.mean([t.success for t in episodes]))
    assert (folder / "checkpoints" / "checkpoint-2" / "sampler.json").is_file()


def test_a_mixture_is_drawn_by_weight_and_tasks_that_a_stage_has_made_are_shuffled():
    data = recipe().model_dump(exclude_none=True)
    data["tasks"] = {"sources": [{"set": "test/lookup-v1", "weight": 2.0}, {"set": "test/press-v1"}]}
    chosen = Recipe.parse(data)
    tasks = chosen.tasks.load()["train"]
    sampler = sampler_of(None, tasks, 0, chosen.tasks.weights)
    assert {task.source for task in sampler.draw(40, 0)} == {"test/lookup-v1", "test/press-v1"}
    untagged = [replace(task, tags=()) for task in tasks]
    assert isinstance(sampler_of(None, untagged, 0, chosen.tasks.weights), Shuffled)


def test_tasks_come_in_an_order_of_their_own_each_time_around_and_a_step_always_gets_the_same():
    tasks = [Task(f"t{i}", "test/lookup-v1", prompt="?") for i in range(5)]
    sampler = Shuffled("shuffled", tasks, 3)
    ids = [task.id for step in range(5) for task in sampler.draw(2, step)]
    assert sorted(ids[:5]) == sorted(ids[5:]) == [f"t{i}" for i in range(5)]
    assert ids[:5] != ids[5:]
    assert [task.id for task in Shuffled("shuffled", tasks, 3).draw(2, 3)] == ids[6:8]


def test_further_tasks_of_a_step_are_others_than_those_that_it_has_drawn():
    tasks = [Task(f"t{i}", "test/lookup-v1", prompt="?") for i in range(5)]
    sampler = Shuffled("shuffled", tasks, 0)
    own = sampler.draw(2, 7)
    for further in range(1, 5):
        more = sampler.draw(3, 7, further)
        assert sorted(task.id for task in [*own, *more]) == [task.id for task in tasks]
    assert len(sampler.draw(9, 7, 1)) == 9


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"sources": [{"set": "test/lookup-v1", "weight": 0.0}]}, "every weight in `sources` is 0"),
        ({"sources": [{"set": "test/lookup-v1"}] * 2}, "lists 'test/lookup-v1' twice"),
        (
            {"set": "test/lookup-v1", "sources": [{"set": "test/lookup-v1"}]},
            "give either `set`, which names one task set",
        ),
        ({}, "give either `set`, which names one task set"),
        ({"sources": [{"set": "test/lookup-v1"}], "tags": ["a"]}, "cannot stand beside `sources`"),
        ({"sources": [{"set": "test/lokup-v1"}]}, r"tasks.sources\[0\].set = 'test/lokup-v1'.*Did you mean"),
    ],
)
def test_a_mixture_that_cannot_be_drawn_is_one_line(tasks, message):
    data = recipe().model_dump(exclude_none=True)
    data["tasks"] = tasks
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(data)


@pytest.mark.thorough
def test_a_resumed_run_goes_on_with_the_rate_the_threshold_and_the_stored_successes_that_it_had(tmp_path):
    wrappers = ["dynamic(max_rounds=3, max_rate=2)", "spread_threshold", "success_replay(mean=0.6, spread=0.6)"]
    chosen = recipe(
        train__steps=3, train__save_every=1, train__keep_checkpoints=5, train__validate_every=3, train__gather=wrappers
    )
    finished, resumed = tmp_path / "finished", tmp_path / "resumed"
    execute(chosen, finished)
    rows = RunFolder(finished).metrics("train")
    assert max(row["gather/groups"] for row in rows) > 2, "further tasks were played"
    shutil.copytree(finished, resumed)
    for name in ("final", "checkpoint-3", "checkpoint-2"):
        shutil.rmtree(resumed / "checkpoints" / name, ignore_errors=True)
    execute(chosen, resumed, resume=True)
    assert_equal_weights(finished, resumed)
    columns = [name for name in rows[0] if name.startswith("gather/")]
    repeated = RunFolder(resumed).metrics("train")
    assert [[row[name] for name in columns] for row in repeated] == [[row[name] for name in columns] for row in rows]


@pytest.mark.parametrize(
    ("train_section", "message"),
    [
        ({"sampler": "curiculum"}, "train.sampler = 'curiculum'.*Did you mean 'curriculum'"),
        ({"sampler": "curriculum(window=0)"}, "'window' of 'curriculum' is 0: expected"),
        ({"sampler": "curriculum(seed=3)"}, "The sampler 'curriculum' has no option 'seed'"),
        ({"gather": ["oversample"]}, "train.gather = 'oversample'.*agentgym list gatherers"),
        ({"gather": ["max_variance(factor=0.5)"]}, "'factor' of 'max_variance' is 0.5"),
        ({"gather": ["dynamic(max_rate=0)"]}, "'max_rate' of 'dynamic' is 0"),
        ({"gather": ["max_variance"], "estimator": "sibling"}, "sibling compares the branches of whole trees"),
    ],
)
def test_what_does_not_fit_is_one_line_before_anything_starts(train_section, message):
    def check() -> None:
        data = recipe().model_dump(exclude_none=True)
        data["train"] |= train_section
        chosen = Recipe.parse(data)
        check_before_start(chosen, chosen.tasks.load())

    with pytest.raises(RecipeError, match=message):
        check()
