"""Bifurcation tasks: K turns with two actions each, and exactly one turn whose action decides the outcome.

All values are known in closed form, including the true advantage of every turn: it is 0 for every turn but the decisive
one. Whatever an estimator gives to another turn is error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.group import Group
from agentgym.credit.signals import Array

Ints = NDArray[np.int64]
CONTINUATIONS = 4
TOKENS = 2  # tokens per turn in token signals
MAX_COALITION_TURNS = 6  # up to this many turns all 2^K coalitions; above, only coalitions of 0, K - 1 and K turns


@dataclass(frozen=True, slots=True)
class SampledGroup:
    """A sampled group of one task. `actions` [N, K] of 0 and 1, `outcomes` [N] of 0 and 1, `rewards` [N, K].

    `luck` [N] in [0, 1) decides the outcome of each trajectory, so that its replays share it.
    `forks`: the trajectory and turn that each trajectory was forked from, or None.
    """

    actions: Ints
    outcomes: Array
    rewards: Array
    luck: Array
    forks: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class BifurcationTask:
    """One task.

    Attributes:
        turns: K. `decisive`: index of the turn that decides, from 0.
        good, bad: chance of outcome 1 after action 1, and after action 0, at the decisive turn.
        reward_noise: standard deviation of the turn rewards, which have mean 0 and no information.
        signal_noise: standard deviation, per state, of the error of critics, potentials and the like.
        seed: of these errors: a state always has the same error.
    """

    turns: int
    decisive: int
    good: float = 0.9
    bad: float = 0.1
    reward_noise: float = 0.1
    signal_noise: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.turns >= 1 and 0 <= self.decisive < self.turns):
            raise ValueError(f"The decisive turn is {self.decisive} of {self.turns}: it is one of them, from 0.")
        if not 0 <= self.bad < self.good <= 1:
            raise ValueError(f"good is {self.good} and bad {self.bad}: needed is 0 <= bad < good <= 1.")

    def sample(self, chance: Array, size: int, rng: np.random.Generator, *, tree: bool = False) -> SampledGroup:
        """Sample a group.

        Args:
            chance: [K] probability of action 1 at each turn.
            tree: let the second half of the group branch off the first half, at random turns.
        """
        actions = (rng.random((size, self.turns)) < chance).astype(np.int64)
        luck, rewards = rng.random(size), rng.normal(0.0, self.reward_noise, (size, self.turns))
        forks: list[tuple[int, int] | None] = [None] * size
        for child in range(size // 2, size) if tree else ():
            trunk, turn = child - size // 2, int(rng.integers(0, self.turns))
            if turn:
                actions[child, :turn], rewards[child, :turn] = actions[trunk, :turn], rewards[trunk, :turn]
                forks[child] = (trunk, turn)
        outcomes = (luck < np.where(actions[:, self.decisive] == 1, self.good, self.bad)).astype(np.float64)
        return SampledGroup(actions, outcomes, rewards, luck, tuple(forks))

    def truth(self, actions: Ints, chance: Array) -> Array:
        """Return [N, K] Q(s, a) - V(s): 0 except at the decisive turn."""
        true = np.zeros(actions.shape)
        at = self.decisive
        true[:, at] = (actions[:, at] - chance[at]) * (self.good - self.bad)
        return true

    def values(self, actions: Ints, chance: Array) -> Array:
        """Return [N, K+1] the chance of outcome 1 before each turn, and after the last."""
        at = self.decisive
        before = chance[at] * self.good + (1 - chance[at]) * self.bad
        known = np.where(actions[:, at] == 1, self.good, self.bad)
        return np.where(np.arange(self.turns + 1)[None] <= at, before, known[:, None])

    def group(
        self, sample: SampledGroup, chance: Array, rng: np.random.Generator, signals: tuple[str, ...] = ()
    ) -> Group:
        """Return the sampled trajectories as a Group, with outcomes, turn rewards and the named signals.

        Raises: KeyError for a signal that this task cannot give.
        """
        given: dict[str, Any] = {"outcomes": sample.outcomes, "turn_rewards": sample.rewards}
        size = len(sample.outcomes)
        inputs = _SignalInputs(self, sample, chance, self.values(sample.actions, chance), rng)
        for name in signals:
            if name not in given:
                given[name] = SIGNAL_MAKERS[name](inputs)
        return Group.from_arrays(turns=[self.turns] * size, environment="bifurcation", **given)

    def errors(self) -> Array:
        """Return [K+1, 2] a critic's error before each turn, for either action at the decisive turn."""
        return np.random.default_rng(self.seed).normal(0.0, self.signal_noise, (self.turns + 1, 2))


@dataclass(frozen=True, slots=True)
class _SignalInputs:
    """Inputs of the functions in `SIGNAL_MAKERS`."""

    task: BifurcationTask
    sample: SampledGroup
    chance: Array
    values: Array
    rng: np.random.Generator

    @property
    def predicted(self) -> Array:
        """Return [N, K+1] values predicted by a critic, with the same error for the same state."""
        task, turns = self.task, np.arange(self.task.turns + 1)
        side = np.where(turns[None] <= task.decisive, 0, self.sample.actions[:, [task.decisive]])
        predicted: Array = self.values + task.errors()[turns[None], side]
        return predicted


def _state_keys(inputs: _SignalInputs) -> list[list[str]]:
    at = inputs.task.decisive
    return [
        [f"{k}" if k <= at else f"{k}:{row[at]}" for k in range(inputs.task.turns)]
        for row in inputs.sample.actions.tolist()
    ]


def _branches(inputs: _SignalInputs) -> list[list[str]]:
    nodes = [[f"{i}:{k}" for k in range(inputs.task.turns)] for i in range(len(inputs.sample.outcomes))]
    for child, fork in enumerate(inputs.sample.forks):
        if fork is not None:
            trunk, turn = fork
            nodes[child][:turn] = nodes[trunk][:turn]
    return nodes


def _before_and_zero(inputs: _SignalInputs) -> Array:
    """Return values of a critic that knows that the return after the last turn is 0."""
    predicted = inputs.predicted.copy()
    predicted[:, -1] = 0.0
    return predicted


def _hindsight(inputs: _SignalInputs) -> Array:
    task, rows = inputs.task, np.zeros(inputs.sample.actions.shape)
    action = inputs.sample.actions[:, task.decisive]
    win_chance = np.where(action == 1, task.good, task.bad)
    overall = inputs.values[:, 0]
    likely, mean = (np.where(inputs.sample.outcomes == 1, x, 1 - x) for x in (win_chance, overall))
    rows[:, task.decisive] = np.log(likely / mean)
    return rows


def _counterfactuals(inputs: _SignalInputs) -> list[dict[frozenset[int], float]]:
    """Return the returns of replays with some turns only: a left-out turn counts as action 0 and pays no reward."""
    task, sample = inputs.task, inputs.sample
    everything = range(task.turns)
    sizes = range(task.turns + 1) if task.turns <= MAX_COALITION_TURNS else (0, task.turns - 1, task.turns)
    sets = [frozenset(coalition) for size in sizes for coalition in combinations(everything, size)]
    rows = []
    for actions, luck, rewards in zip(sample.actions, sample.luck, sample.rewards, strict=True):
        returns = {}
        for coalition in sets:
            action = actions[task.decisive] if task.decisive in coalition else 0
            paid = sum(float(rewards[k]) for k in coalition)
            returns[coalition] = float(luck < (task.good if action else task.bad)) + paid
        rows.append(returns)
    return rows


def _continuations(inputs: _SignalInputs) -> list[list[list[float]]]:
    chance = np.clip(inputs.values, 0.0, 1.0)
    wins = inputs.rng.random((*chance.shape, CONTINUATIONS)) < chance[..., None]
    wins[:, -1] = inputs.sample.outcomes[:, None] == 1
    return wins.astype(np.float64).tolist()  # type: ignore[no-any-return]


def _entropies(inputs: _SignalInputs) -> list[list[float]]:
    p = np.clip(inputs.chance, 1e-12, 1 - 1e-12)
    return np.tile(-(p * np.log(p) + (1 - p) * np.log(1 - p)), (len(inputs.sample.outcomes), 1)).tolist()  # type: ignore[no-any-return]


def _certainties(inputs: _SignalInputs) -> list[list[float]]:
    p = np.clip(inputs.chance, 1e-12, 1 - 1e-12)
    divergence = -np.log(2) - 0.5 * (np.log(p) + np.log(1 - p))  # of pi from uniform, of two actions
    return np.tile(divergence, (len(inputs.sample.outcomes), 1)).tolist()  # type: ignore[no-any-return]


def _score_norms(inputs: _SignalInputs) -> list[list[float]]:
    coalition = np.where(inputs.sample.actions == 1, inputs.chance, 1 - inputs.chance)
    return (2 * (1 - coalition) ** 2).tolist()  # type: ignore[no-any-return]  # 1 - 2 pi + sum of squares, of two actions


def _rows(value: Any) -> Callable[[_SignalInputs], Any]:
    return lambda inputs: [[value] * inputs.task.turns for _ in inputs.sample.outcomes]


SIGNAL_MAKERS: Mapping[str, Callable[[_SignalInputs], Any]] = {
    "outcomes": lambda inputs: inputs.sample.outcomes,
    "turn_rewards": lambda inputs: inputs.sample.rewards,
    "components": lambda inputs: {"noise": inputs.sample.rewards.tolist()},
    "outcome_components": lambda inputs: {"success": inputs.sample.outcomes.tolist()},
    "tool_turn": _rows(True),
    "stop_reasons": lambda inputs: ["answered"] * len(inputs.sample.outcomes),
    "action_keys": lambda inputs: inputs.sample.actions.tolist(),
    "policies": _rows("agent"),
    "state_keys": _state_keys,
    "branches": _branches,
    "parents": lambda inputs: [None] * len(inputs.sample.outcomes),
    "values": lambda inputs: _before_and_zero(inputs).tolist(),
    "action_values": lambda inputs: inputs.predicted[:, 1:].tolist(),
    "token_values": lambda inputs: np.repeat(inputs.predicted[:, :-1, None], TOKENS, axis=2).tolist(),
    "potentials": lambda inputs: inputs.predicted[:, :-1].tolist(),
    "gold_logprobs": lambda inputs: np.log(np.clip(inputs.predicted, 1e-3, 1.0)).tolist(),
    "contributions": lambda inputs: np.diff(inputs.predicted, axis=1).tolist(),
    "hindsight": lambda inputs: _hindsight(inputs).tolist(),
    "counterfactuals": _counterfactuals,
    "continuations": _continuations,
    "lengths": lambda inputs: inputs.rng.integers(5, 40, inputs.sample.actions.shape).tolist(),
    "entropies": _entropies,
    "token_entropies": lambda inputs: [[[h] * TOKENS for h in row] for row in _entropies(inputs)],
    "token_certainties": lambda inputs: [[[c] * TOKENS for c in row] for row in _certainties(inputs)],
    "span_values": _rows([]),
    "flow_deviations": _rows([]),
    "rank_deviations": lambda inputs: [0.0] * len(inputs.sample.outcomes),
    "rank_velocity_deviations": lambda inputs: [0.0] * len(inputs.sample.outcomes),
    "rank_acceleration_deviations": lambda inputs: [0.0] * len(inputs.sample.outcomes),
    "rank_scales": lambda inputs: [1.0 - float(inputs.sample.outcomes.mean())] * len(inputs.sample.outcomes),
    "score_norms": _score_norms,
    "versions": _rows(0),
    "log_ratios": _rows([0.0] * TOKENS),
}
"""How each signal of a group is made: the truth, with errors as such a signal has in practice."""
