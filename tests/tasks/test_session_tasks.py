"""`sql/session-v1`: horizons, what is held out, dependence between requests, and how scripted players score."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, StopReason, load_task_set
from agentgym.tasks.horizon import HORIZONS, UNSEEN_HORIZONS
from agentgym.tasks.session.task_set import CELLS, StockWriter, is_reserved
from agentgym.tasks.session.words import CITIES, FORMS, ITEMS, REQUESTS

NAME = "sql/session-inprocess-v1"


@pytest.fixture(scope="module")
def task_set():
    return load_task_set(NAME)


def of_horizon(tasks, horizon):
    return [task for task in tasks if f"horizon_{horizon}" in task.tags]


async def play(tasks, player):
    config = RolloutConfig(budgets=Budgets(max_turns=40), state_keys=False)
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), config).collect(tasks)


def random_player(task):
    """Statements of the four forms with words drawn blindly, as by an agent that does not read."""
    rng = random.Random(task.id)

    def act(request, turn):
        words = {"item": rng.choice(ITEMS), "city": rng.choice(CITIES), "number": str(rng.randint(10, 99))}
        return REQUESTS.done(rng.choice(list(FORMS)), words)

    return REQUESTS.player(act)


def test_every_horizon_has_as_many_tasks_and_nothing_else_tells_them_apart(task_set):
    for split, count in (("train", 400), ("validation", 40)):
        assert Counter(task.parameters["horizon"] for task in task_set[split]) == dict.fromkeys(HORIZONS, count)
    for task in task_set["train"]:
        horizon = task.parameters["horizon"]
        assert len(task.parameters["requests"]) == len(task.parameters["goals"]) == horizon
        assert task.prompt == task.parameters["requests"][0]
        assert task.tags == (f"horizon_{horizon}",)
    prompts = [" ".join(task.prompt for task in of_horizon(task_set["train"], n)) for n in (2, 32)]
    assert set(re.findall("[A-Za-z]+", prompts[0])) == set(re.findall("[A-Za-z]+", prompts[1]))


def test_held_out_strata_are_pairs_and_horizons_that_training_never_has(task_set):
    strata = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert strata == {"unseen_instances": 200, "unseen_horizons": 160}
    pairs = {True: set(), False: set()}
    for task in [*task_set["train"], *task_set["validation"], *task_set["held_out"]]:
        for request in task.parameters["requests"]:
            kind, words = REQUESTS.parsed(request)
            if kind != "which":  # asks for the city
                pairs["unseen_instances" in task.tags].add((words["item"], words["city"]))
    assert len(pairs[True]) == 16
    assert len(pairs[False]) == 48
    assert not pairs[True] & pairs[False]
    unseen = {task.parameters["horizon"] for task in task_set["held_out"] if "unseen_horizons" in task.tags}
    assert unseen == set(UNSEEN_HORIZONS)
    assert Counter(cell % 8 for cell in range(64) if is_reserved(cell)) == dict.fromkeys(range(8), 2)


def test_both_environments_have_the_same_sessions(task_set):
    sandboxed = load_task_set("sql/session-v1")
    for split in task_set:
        assert [task.parameters for task in task_set[split]] == [task.parameters for task in sandboxed[split]]


def test_a_third_of_the_requests_depends_on_an_earlier_one():
    shares = {}
    for horizon in HORIZONS:
        dependent = 0
        for seed in range(200):
            rng = random.Random(seed)
            writer = StockWriter(rng, rng.sample(range(10, 100), 64), CELLS[False])
            for _ in range(horizon):
                writer.write()
            dependent += writer.dependent
        shares[horizon] = dependent / 200 / horizon
    assert shares == pytest.approx({2: 0.10, 4: 0.22, 8: 0.32, 16: 0.37, 32: 0.38}, abs=0.03)


def test_the_numbers_of_a_reference_session_differ_from_each_other():
    rng = random.Random(1)
    writer = StockWriter(rng, rng.sample(range(10, 100), 64), CELLS[True])
    for _ in range(200):
        writer.write()
        assert len(set(writer._numbers)) == 64


async def test_the_oracle_does_everything_in_as_many_turns_as_there_are_requests(task_set):
    tasks = [*task_set["validation"][:25], *task_set["held_out"][::15]]
    for episode in await play(tasks, task_set.oracle):
        assert episode.outcome == {"success": 1.0, "progress": 1.0}
        assert len(episode.turns) == episode.task.parameters["horizon"]
        assert episode.stop_reason is StopReason.ENVIRONMENT


async def test_the_imperfect_oracle_is_wrong_half_of_the_time_and_takes_as_many_turns(task_set):
    episodes = await play(task_set["validation"], task_set.imperfect_oracle)
    assert all(len(episode.turns) == episode.task.parameters["horizon"] for episode in episodes)
    first = [turn.potential > 0 for episode in episodes for turn in episode.turns[1:2]]
    assert np.mean(first) == pytest.approx(0.5, abs=0.1), "the first request depends on nothing"
    progress = [episode.outcome["progress"] for episode in episodes if len(episode.turns) >= 8]
    assert np.mean(progress) == pytest.approx(0.38, abs=0.04)
    assert all(not episode.success for episode in episodes if len(episode.turns) >= 8)


async def test_a_player_that_does_not_read_gets_nearly_nothing(task_set):
    episodes = await play(task_set["validation"], random_player)
    assert not any(episode.success for episode in episodes)
    assert np.mean([episode.outcome["progress"] for episode in episodes]) < 0.03
