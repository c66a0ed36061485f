"""The credit benchmark: its truth is the truth, its signals fit it, and its figures tell good credit from bad."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from agentgym.credit import Group, define_estimator, estimator
from agentgym.credit.group import SIGNALS
from agentgym.credit.signals import Array
from research.credit_bench import BifurcationTask, measure_credit, measure_learning, run_benchmark
from research.credit_bench.bifurcation import SIGNAL_MAKERS


@define_estimator(requires=("action_values", "values"), bias="unbiased", source="our own", minimum_group=1)
def critic(group: Group) -> Array:
    """Q - V, as a critic says."""
    return group.signal("action_values") - group.signal("values")[:, :-1]


@define_estimator(requires=("outcomes",), bias="heuristic", source="our own", minimum_group=1)
def noise(group: Group) -> Array:
    """Numbers that say nothing."""
    return np.random.default_rng(int(group.outcomes.sum() * 1000)).normal(size=group.turn_mask.shape)  # type: ignore[union-attr]


@define_estimator(requires=("outcomes",), bias="heuristic", source="our own", minimum_group=1)
def nothing(group: Group) -> Array:
    """No credit at all."""
    return np.zeros(group.turn_mask.shape)


def test_the_true_credit_equals_an_exhaustive_sum():
    """Q(s, a) - V(s) by summing over every completion of every prefix of a task of three turns."""
    task, chance = BifurcationTask(3, 1, good=0.8, bad=0.3), np.array([0.6, 0.3, 0.5])

    def value(prefix: tuple[int, ...]) -> float:
        total = 0.0
        for rest in product((0, 1), repeat=3 - len(prefix)):
            actions = (*prefix, *rest)
            probability = np.prod([chance[k] if actions[k] else 1 - chance[k] for k in range(len(prefix), 3)])
            total += probability * (0.8 if actions[1] else 0.3)
        return total

    for actions in product((0, 1), repeat=3):
        row = np.array([actions])
        by_sum = [value(actions[: k + 1]) - value(actions[:k]) for k in range(3)]
        np.testing.assert_allclose(task.truth(row, chance)[0], by_sum, atol=1e-15)
        np.testing.assert_allclose(task.values(row, chance)[0], [value(actions[:k]) for k in range(4)], atol=1e-15)


@pytest.mark.parametrize("name", sorted(set(SIGNALS) & set(SIGNAL_MAKERS)))
def test_every_signal_it_gives_is_one_a_group_accepts(name: str):
    rng = np.random.default_rng(0)
    task, chance = BifurcationTask(5, 2), np.full(5, 0.5)
    group = task.group(task.sample(chance, 6, rng, tree=True), chance, rng, (name,))
    assert getattr(group, name) is not None


def test_it_gives_every_signal_there_is():
    assert set(SIGNALS) == set(SIGNAL_MAKERS)


def test_a_branch_shares_the_actions_of_the_turns_it_shares():
    rng = np.random.default_rng(1)
    task, chance = BifurcationTask(6, 3), np.full(6, 0.5)
    sample = task.sample(chance, 8, rng, tree=True)
    assert any(sample.forks)
    for child, fork in enumerate(sample.forks):
        if fork is not None:
            trunk, turn = fork
            np.testing.assert_array_equal(sample.actions[child, :turn], sample.actions[trunk, :turn])


def test_noise_has_error_of_nearly_1_and_no_credit_has_1():
    assert measure_credit(noise, 8, groups=40).error.value > 0.9
    silent = measure_credit(nothing, 8, groups=40)
    assert (silent.error.value, silent.sign.value, silent.focus.value) == (1.0, 0.5, 0.0)


def test_a_critic_without_error_is_exact(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(BifurcationTask, "errors", lambda self: np.zeros((self.turns + 1, 2)))
    actual = measure_credit(critic, 8, groups=20)
    assert actual.error.value == pytest.approx(0, abs=1e-6)
    assert (actual.sign.value, actual.focus.value) == (1.0, pytest.approx(1.0))


def test_intervals_hold_their_value():
    actual = measure_credit(estimator("rloo"), 4, groups=60)
    for figure in (actual.error, actual.sign, actual.focus, actual.noise):
        assert figure.low <= figure.value <= figure.high


def test_credit_on_the_right_turn_teaches_faster_than_noise():
    good, bad = measure_learning(critic, 8, most=80, seeds=5), measure_learning(noise, 8, most=80, seeds=5)
    assert good.steps.value < bad.steps.value
    assert good.never == 0


def test_a_benchmark_is_reproducible_and_reports_what_it_skips():
    first = run_benchmark(["rloo", "grpo"], turns=(2, 4), groups=10, seeds=2, most=20)
    assert first == run_benchmark(["rloo", "grpo"], turns=(2, 4), groups=10, seeds=2, most=20)
    assert [(row.name, row.turns) for row in first] == [("rloo", 2), ("rloo", 4), ("grpo", 2), ("grpo", 4)]
    assert first[0].to_json()["measures"]["error"]["value"] == first[0].measures.error.value  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wrong", [{"turns": 0, "decisive": 0}, {"turns": 2, "decisive": 2}, {"turns": 2, "decisive": -1}]
)
def test_a_task_has_a_decisive_turn_among_its_turns(wrong: dict[str, int]):
    with pytest.raises(ValueError, match="decisive turn"):
        BifurcationTask(**wrong)
    with pytest.raises(ValueError, match="bad < good"):
        BifurcationTask(2, 0, good=0.1, bad=0.9)
