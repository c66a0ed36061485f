"""`code/chores-v1`: horizons, what is held out, dependence between requests, and how scripted players score."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, StopReason, load_task_set
from agentgym.tasks.chores.task_set import FILES, ChoresWriter, is_reserved
from agentgym.tasks.chores.words import NAMES, REQUESTS, WORDS
from agentgym.tasks.horizon import HORIZONS, UNSEEN_HORIZONS


@pytest.fixture(scope="module")
def task_set():
    return load_task_set("code/chores-v1")


def test_every_horizon_has_as_many_tasks(task_set):
    for split, count in (("train", 400), ("validation", 40)):
        assert Counter(task.parameters["horizon"] for task in task_set[split]) == dict.fromkeys(HORIZONS, count)
    for task in task_set["train"]:
        assert len(task.parameters["requests"]) == len(task.parameters["goals"]) == task.parameters["horizon"]
        assert task.prompt == task.parameters["requests"][0]
    strata = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert strata == {"unseen_instances": 200, "unseen_horizons": 160}
    unseen = {task.parameters["horizon"] for task in task_set["held_out"] if "unseen_horizons" in task.tags}
    assert unseen == set(UNSEEN_HORIZONS)


def test_no_other_stratum_asks_about_the_pairs_of_unseen_instances(task_set):
    for task in [*task_set["train"], *task_set["validation"], *task_set["held_out"]]:
        for request in task.parameters["requests"]:
            _, parts = REQUESTS.parsed(request)
            if (other := parts.get("word") or parts.get("target")) is not None:
                assert is_reserved(other, parts["name"]) is ("unseen_instances" in task.tags), task.id


def written(seed, horizon):
    rng = random.Random(seed)
    writer = ChoresWriter(rng, {name: rng.choice(WORDS) for name in rng.sample(NAMES, FILES)}, reserved=False)
    return writer, [writer.write() for _ in range(horizon)]


def test_a_third_of_the_requests_depends_on_an_earlier_one():
    shares = {n: sum(written(seed, n)[0].dependent for seed in range(200)) / 200 / n for n in HORIZONS}
    assert shares == pytest.approx({2: 0.20, 4: 0.29, 8: 0.36, 16: 0.40, 32: 0.42}, abs=0.03)


def test_the_kinds_of_requests_are_the_same_at_every_horizon():
    for horizon in HORIZONS:
        kinds = Counter(
            REQUESTS.parsed(request)[0] for seed in range(200) for request, _, _ in written(seed, horizon)[1]
        )
        assert all(0.14 < kinds[kind] / kinds.total() < 0.30 for kind in ("put", "append", "copy", "rename", "delete"))


@pytest.mark.needs_namespaces
async def test_the_oracle_does_everything_and_the_imperfect_oracle_a_part(task_set):
    tasks = [task for task in task_set["validation"] if task.parameters["horizon"] <= 8][:36:2]
    tasks += [task for task in task_set["held_out"] if task.parameters["horizon"] <= 8][::24]
    config = RolloutConfig(budgets=Budgets(max_turns=40), state_keys=False)
    for episode in await EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), config).collect(tasks):
        assert episode.outcome == {"success": 1.0, "progress": 1.0}
        assert len(episode.turns) == episode.task.parameters["horizon"]
        assert episode.stop_reason is StopReason.ENVIRONMENT
    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.imperfect_oracle(task)), config)
    episodes = await manager.collect(tasks)
    assert all(len(episode.turns) == episode.task.parameters["horizon"] for episode in episodes)
    assert np.mean([episode.outcome["progress"] for episode in episodes]) == pytest.approx(0.42, abs=0.1)
