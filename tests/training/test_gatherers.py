"""Which episodes a step learns from: each gatherer on groups that are made up, and what a checkpoint keeps of it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Budgets, Environment, Reward, RolloutConfig, ScriptedPolicy, Task, Trajectory, Turn
from agentgym.errors import CreditError, JudgeError
from agentgym.messages import Message, StopReason
from agentgym.methods.supply.max_variance import greatest_variance
from agentgym.registry import load, names
from agentgym.storage.ledger import Ledger
from agentgym.training import Rollouts
from agentgym.training.gatherers import GatheredGroup, GathererWrapper, StepRequest, make_gatherer, play_groups

TASKS = [Task(f"t{index}", "test/none-v1", "?") for index in range(40)]
NEED_MORE = {"starts", "prefix_buffer", "entropy_forks", "guide", "refined", "variants", "instructions", "knowledge"}
"""A ledger, an event loop, a tokenizer: each has a test file of its own, or test_assistance.py."""
STATEFUL = ["dynamic(max_rate=4)", "spread_threshold", "success_replay"]


class Question(Environment):
    """Asks, and ends with the answer."""

    async def reset(self, task, *, seed):
        return task.opening()


class Drawn(Reward):
    """The success that is drawn for an episode by its id; None lets the judge fail."""

    def __init__(self, success: Callable[[Trajectory], float | None]) -> None:
        self.success, self.labels = success, []

    def outcome(self, episode):
        if (label := label_of(episode)) not in self.labels:
            self.labels.append(label)
        if (success := self.success(episode)) is None:
            raise JudgeError("none was drawn")
        return {"success": success}


@contextmanager
def drawing(folder: Path, success: Callable[[Trajectory], float | None] = lambda episode: 0.0) -> Iterator[Rollouts]:
    config = RolloutConfig(environment=Question, reward=Drawn(success), budgets=Budgets(infra_retries=0))
    with Rollouts(config, ledger=Ledger(folder / "ledger.sqlite")) as rollouts:
        yield rollouts


def label_of(episode: Trajectory) -> str:
    return episode.id.partition("/")[0]


def episode(task: Task, success: float, label: str = "a", sample: int = 0, *, failed: bool = False) -> Trajectory:
    """An episode of one turn."""
    stop_reason = StopReason.INFRA_ERROR if failed else StopReason.ANSWERED
    turns = [Turn(0, Message("assistant", "x"))]
    name = f"{label}/{task.id}#{sample}"
    return Trajectory(name, task, sample, turns=turns, outcome={"success": success}, stop_reason=stop_reason)


def given_groups(*successes: Sequence[float | None]) -> Callable[[StepRequest], list[GatheredGroup]]:
    """A gatherer that returns these groups; None is an episode that failed."""

    def gather(step: StepRequest) -> list[GatheredGroup]:
        return [
            GatheredGroup([episode(task, s or 0.0, step.label, i, failed=s is None) for i, s in enumerate(row)])
            for task, row in zip(TASKS, successes, strict=False)
        ]

    return gather


def request(
    count: int = 2, group_size: int = 2, label: str = "train-000000", rollouts: Rollouts | None = None, **options
) -> StepRequest:
    """A step; without rollouts for gatherers that only choose among groups."""
    return StepRequest(rollouts, ScriptedPolicy(["x"] * 9), TASKS[:count], label, group_size, **options)


def outcomes(group: GatheredGroup) -> list[float | None]:
    return [t.success if t.valid else None for t in group.trained]


@given(st.lists(st.integers(-3, 3).map(float), max_size=8), st.integers(1, 6))
def test_no_choice_of_returns_has_a_greater_variance(returns, count):
    positions = greatest_variance(returns, count)
    assert len(positions) == len(set(positions)) == min(count, len(returns))
    if len(returns) > count:
        best = max(np.var(choice) for choice in itertools.combinations(returns, count))
        assert np.var([returns[position] for position in positions]) == pytest.approx(best)


def test_the_most_telling_episodes_are_trained_and_the_others_counted():
    requests = []

    def play(step):
        requests.append((step.label, step.group_size, step.progress))
        return given_groups(*[[0.0, 1.0, 0.0, None, 0.0, 0.0]] * 2)(step)

    groups = make_gatherer(play, ["max_variance(factor=3)"])(request(progress=0.5))
    assert requests == [("train-000000", 6, 0.5)]
    for group in groups:
        assert outcomes(group) == [0.0, 1.0]
        assert len(group.episodes) == 6


def test_failed_episodes_fill_a_group_that_has_too_few_others():
    (group,) = make_gatherer(given_groups([1.0, None, None, None]), ["max_variance"])(request(1, 3))
    assert outcomes(group) == [1.0, None, None]
    assert len(group.left_out) == 1


def test_oversampling_relaxes_as_the_training_goes_on():
    sizes = []

    def play(step):
        sizes.append(step.group_size)
        return given_groups([0.0, 1.0, 1.0])(step)

    gather = make_gatherer(play, ["max_variance(factor=4, final_factor=1)"])
    for progress in (0.0, 0.5, 1.0):
        gather(request(1, 2, progress=progress))
    assert sizes == [8, 5, 2]


def draws(step: StepRequest) -> StepRequest:
    """The step with further tasks: the first of TASKS that it does not name."""
    return replace(step, more_tasks=lambda count, further: (TASKS * 9)[len(step.tasks) * further :][:count])


def test_dynamic_sampling_plays_until_all_groups_of_a_step_differ_and_costs_what_the_formula_says():
    """Success 1/16 in groups of 4: a useful group costs 1 / (1 - (15/16)^4 - (1/16)^4) groups."""
    rng = random.Random(3)

    def play(step):
        return given_groups(*[[float(rng.random() < 1 / 16) for _ in range(4)] for _ in step.tasks])(step)

    gather = make_gatherer(play, ["dynamic(max_rounds=500)"])
    total = useful = 0
    for _ in range(120):
        groups = gather(draws(request(4, 4)))
        metrics = GatheredGroup.metrics(groups)
        assert metrics["gather/useful"] == 1.0
        assert sum(len(group.trained) for group in groups) == 16, "the rows of a step stay as many"
        assert metrics["gather/episodes"] == 4 * metrics["gather/groups"]
        total, useful = total + metrics["gather/groups"], useful + 4
    assert total / useful == pytest.approx(1 / (1 - (15 / 16) ** 4 - (1 / 16) ** 4), rel=0.1)


def test_dynamic_sampling_that_finds_too_little_trains_on_what_there_is():
    groups = make_gatherer(given_groups([0.0, 1.0], [0.0, 0.0]), ["dynamic(max_rounds=3)"])(draws(request()))
    assert [outcomes(group) for group in groups if group.trained] == [[0.0, 1.0], [0.0, 1.0]]
    none = make_gatherer(given_groups(*[[1.0, 1.0]] * 2), ["dynamic(max_rounds=3)"])(draws(request()))
    assert [outcomes(group) for group in none if group.trained] == [[1.0, 1.0]] * 2
    assert GatheredGroup.metrics(none) == {
        "gather/episodes": 12,
        "gather/trained": 4,
        "gather/groups": 6,
        "gather/useful": 0.0,
    }
    without_more = make_gatherer(given_groups(*[[1.0, 1.0]] * 2), ["dynamic"])(request())
    assert len(without_more) == 2, "where there are no further tasks nothing more is played"


def test_the_rate_of_dynamic_sampling_follows_the_share_that_was_useful():
    counts = []

    def play(step):
        counts.append(len(step.tasks))
        return given_groups(*[[0.0, float(row % 4 == 0)] for row in range(len(step.tasks))])(step)

    gather = make_gatherer(play, ["dynamic(max_rounds=1, max_rate=6, memory=0.0)"])
    for _ in range(3):
        groups = gather(draws(request(4)))
    assert counts == [4, 16, 16], "one of four was useful"
    assert [bool(group.trained) for group in groups] == [True] * 4 + [False] * 12
    assert GatheredGroup.metrics(groups)["gather/useful"] == 1.0


def test_the_groups_whose_returns_differ_most_are_trained_and_the_rows_of_the_others_are_empty():
    play = given_groups([1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.5])
    groups = make_gatherer(play, ["top_spread(share=0.25)"])(request(4))
    assert [outcomes(group) for group in groups] == [[None, None], [0.0, 1.0], [None, None], [None, None]]
    assert GatheredGroup.metrics(groups) == {
        "gather/episodes": 8,
        "gather/trained": 2,
        "gather/groups": 4,
        "gather/useful": 0.25,
    }


def test_a_threshold_of_spread_follows_the_mean_of_the_steps():
    spreads = iter([([0.0, 1.0], [0.0, 0.2]), ([0.0, 0.4], [0.0, 0.2]), ([0.0, 0.1], [0.0, 0.1])])
    gather = make_gatherer(lambda step: given_groups(*next(spreads))(step), ["spread_threshold(memory=0.5)"])
    chosen = [[any(t.valid for t in group.trained) for group in gather(request())] for _ in range(3)]
    # Means 0.3, then (0.3 + 0.15) / 2 = 0.225 which nobody reaches: the greatest stays; then all are the greatest.
    assert chosen == [[True, False], [True, False], [True, True]]


def test_a_group_that_fails_whole_gets_an_earlier_success_of_its_task_in_place_of_its_worst_episode(tmp_path):
    gather = make_gatherer(play_groups, ["success_replay"])
    with drawing(tmp_path, lambda episode: float(episode.id == "train-000000/t0#1")) as rollouts:
        first, second = (gather(request(label=f"train-{step:06d}", rollouts=rollouts)) for step in range(2))
    assert [outcomes(group) for group in first] == [[0.0, 1.0], [0.0, 0.0]], "there is nothing to put in yet"
    assert sorted(outcomes(second[0])) == [0.0, 1.0]
    assert outcomes(second[1]) == [0.0, 0.0], "its task was never solved"
    (stored,) = [t for t in second[0].trained if t.id in second[0].replayed]
    assert stored.id == "train-000000/t0#1"
    assert len(second[0].episodes) == 2
    assert stored.id not in {t.id for t in second[0].episodes}, "it was not played in this step"


def test_a_store_keeps_the_newest_successes_and_reads_them_back_after_a_resume(tmp_path):
    gather, resumed = (make_gatherer(play_groups, ["success_replay(per_task=3)"]) for _ in range(2))
    with drawing(tmp_path, lambda episode: float(label_of(episode) < "train-000004")) as rollouts:
        for step in range(4):
            gather(request(1, label=f"train-{step:06d}", rollouts=rollouts))
        gather.save(tmp_path)
        resumed.restore(tmp_path)
        (group,) = resumed(request(1, label="train-000004", rollouts=rollouts))
    assert sorted(outcomes(group)) == [0.0, 1.0]
    assert group.replayed < {"train-000002/t0#1", "train-000003/t0#0", "train-000003/t0#1"}


def test_failed_episodes_are_played_again_and_what_agents_cause_is_not(tmp_path):
    play = given_groups([None, 0.0], [0.5, 0.5])
    with drawing(tmp_path, lambda episode: 1.0) as rollouts:
        groups = make_gatherer(play, ["refill"])(request(rollouts=rollouts))
    assert [outcomes(group) for group in groups] == [[1.0, 0.0], [0.5, 0.5]]
    assert rollouts.reward.labels == ["train-000000-again1"]
    assert [t.valid for t in groups[0].left_out] == [False]


def test_an_infrastructure_that_stays_down_leaves_the_group_as_it_is(tmp_path):
    gather = make_gatherer(given_groups([None, 0.0], [1.0, 1.0]), ["refill(times=2)"])
    with drawing(tmp_path, lambda episode: None) as rollouts:
        (group, _) = gather(request(rollouts=rollouts))
    assert outcomes(group) == [None, 0.0]
    assert rollouts.reward.labels == ["train-000000-again1", "train-000000-again2"]


@pytest.mark.parametrize("name", sorted(set(names("gatherers")) - NEED_MORE))
def test_a_gatherer_keeps_the_rows_of_a_step_and_loses_no_episode(name, tmp_path):
    def success(episode):
        return random.Random(f"{name} {episode.id}").choice([0.0, 1.0, None] if episode.sample == 1 else [0.0, 1.0])

    gather = make_gatherer(play_groups, [name])
    with drawing(tmp_path, success) as rollouts:
        for number in range(30):
            groups = gather(draws(request(4, 3, f"train-{number:06d}", rollouts)))
            rows = [len(group.trained) for group in groups if group.trained]
            assert rows == [3] * 4
            for group in groups:
                ids = [t.id for t in (*group.trained, *group.left_out)]
                assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", sorted(names("gatherers")))
def test_a_gatherer_says_whether_it_only_chooses_among_the_groups_of_another(name):
    """Those that do can wrap a GroupStream; preflight refuses the others there."""
    chooses = name in ("success_replay", "spread_threshold", "top_spread")
    written = {"instructions": "instructions(population=['a', 'b'])"}.get(name, name)
    *_, wrapper = make_gatherer(given_groups(), ["top_spread", written]).wrappers
    assert (GathererWrapper.background_play in wrapper.excludes) != chooses


@pytest.mark.parametrize("name", sorted(names("gatherers")))
def test_a_gatherer_says_whether_the_bias_class_of_an_estimator_holds(name):
    assert "bias class" in " ".join((load("gatherers", name).__doc__ or "").split())


@pytest.mark.parametrize("name", STATEFUL)
def test_a_gatherer_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(name, tmp_path):
    def success(episode):
        rng = random.Random(f"b {episode.id}")
        return rng.random() * (rng.random() < 0.3)

    def shape(groups):
        return [(outcomes(group), sorted(group.replayed), len(group.left_out)) for group in groups]

    unbroken, resumed, forgetful = (make_gatherer(play_groups, [name]) for _ in range(3))
    with drawing(tmp_path, success) as rollouts:
        steps = [draws(request(3, label=f"train-{number:06d}", rollouts=rollouts)) for number in range(12)]
        for step in steps[:6]:
            unbroken(step)
        unbroken.save(tmp_path)
        resumed.restore(tmp_path)
        expected = [shape(unbroken(step)) for step in steps[6:]]
        assert [shape(resumed(step)) for step in steps[6:]] == expected
        assert [shape(forgetful(step)) for step in steps[6:]] != expected, "the state matters here"


def test_two_gatherers_of_one_kind_keep_their_own_states(tmp_path):
    spreads = ([0.0, 1.0], [0.0, 0.5])
    chain = ["spread_threshold(memory=0.1)", "spread_threshold(memory=0.9)"]
    gather, resumed = (make_gatherer(given_groups(*spreads), chain) for _ in range(2))
    gather(request())
    gather(request(label="train-000001"))
    gather.save(tmp_path)
    resumed.restore(tmp_path)
    assert [wrapper.state() for wrapper in resumed.wrappers] == [wrapper.state() for wrapper in gather.wrappers]
    assert gather.wrappers[0].state() != gather.wrappers[1].state()


class Remembering:
    """A gatherer with a state that no checkpoint would keep."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, step):
        return self.inner(step)

    def state(self):
        return {}


def test_a_gatherer_whose_state_would_be_lost_is_refused(monkeypatch):
    monkeypatch.setattr("agentgym.training.gatherers.contract.load_part", lambda *_: Remembering)
    with pytest.raises(CreditError, match=r"'remembering' defines state, .* Derive its class from .*GathererWrapper"):
        make_gatherer(given_groups([1.0]), ["remembering"])
