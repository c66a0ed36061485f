"""Bifurcation tasks: K turns of two actions each, and exactly one turn whose action decides how it ends.

All values are known in closed form, so the true advantage of every turn is too: it is that of the decisive
turn there, and 0 everywhere else. Whatever an estimator gives to another turn is error.
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
TOKENS = 2  # of each turn, where a signal is per token
MAX_COALITION_TURNS = 6  # turns: 2^K coalitions are played up to here, and those of K - 1 turns beyond


@dataclass(frozen=True, slots=True)
class SampledGroup:
    """A group played on one task. `actions` [N, K] of 0 and 1, `outcomes` [N] of 0 and 1, `rewards` [N, K].

    `luck` [N] in [0, 1) decides the outcome of each trajectory, so that a replay of it meets the same luck.
    `forks`: the trajectory and turn that each one left as a branch, or None.
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
        turns: K. `decisive`: which of them decides, from 0.
        good, bad: chance of outcome 1 after action 1, and after action 0, at the decisive turn.
        reward_noise: standard deviation of the turn rewards, which have mean 0 and say nothing.
        signal_noise: standard deviation, per state, of the error of critics, potentials and the like.
        seed: of those errors: the same state has the same error every time.
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

    def play(self, chance: Array, size: int, rng: np.random.Generator, *, tree: bool = False) -> SampledGroup:
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
        """[N, K] Q(s, a) - V(s): nothing but at the decisive turn."""
        true = np.zeros(actions.shape)
        at = self.decisive
        true[:, at] = (actions[:, at] - chance[at]) * (self.good - self.bad)
        return true

    def values(self, actions: Ints, chance: Array) -> Array:
        """[N, K+1] chance of outcome 1 before each turn, and after the last."""
        at = self.decisive
        before = chance[at] * self.good + (1 - chance[at]) * self.bad
        known = np.where(actions[:, at] == 1, self.good, self.bad)
        return np.where(np.arange(self.turns + 1)[None] <= at, before, known[:, None])

    def group(self, play: SampledGroup, chance: Array, rng: np.random.Generator, wanted: tuple[str, ...] = ()) -> Group:
        """The play as a group, with outcomes, turn rewards, and the signals that are `wanted`.

        Raises: KeyError for a signal that this task cannot give.
        """
        given: dict[str, Any] = {"outcomes": play.outcomes, "turn_rewards": play.rewards}
        size = len(play.outcomes)
        view = _View(self, play, chance, self.values(play.actions, chance), rng)
        for name in wanted:
            if name not in given:
                given[name] = SIGNAL_MAKERS[name](view)
        return Group.from_arrays(turns=[self.turns] * size, environment="bifurcation", **given)

    def errors(self) -> Array:
        """[K+1, 2] what a critic gets wrong before each turn, on either side of the decision."""
        return np.random.default_rng(self.seed).normal(0.0, self.signal_noise, (self.turns + 1, 2))


@dataclass(frozen=True, slots=True)
class _View:
    """What the signals of a play are made of."""

    task: BifurcationTask
    play: SampledGroup
    chance: Array
    values: Array
    rng: np.random.Generator

    @property
    def guessed(self) -> Array:
        """[N, K+1] values as a critic sees them: wrong by the same amount in the same state."""
        task, turns = self.task, np.arange(self.task.turns + 1)
        side = np.where(turns[None] <= task.decisive, 0, self.play.actions[:, [task.decisive]])
        guessed: Array = self.values + task.errors()[turns[None], side]
        return guessed


def _state_keys(view: _View) -> list[list[str]]:
    at = view.task.decisive
    return [
        [f"{k}" if k <= at else f"{k}:{row[at]}" for k in range(view.task.turns)] for row in view.play.actions.tolist()
    ]


def _branches(view: _View) -> list[list[str]]:
    nodes = [[f"{i}:{k}" for k in range(view.task.turns)] for i in range(len(view.play.outcomes))]
    for child, fork in enumerate(view.play.forks):
        if fork is not None:
            trunk, turn = fork
            nodes[child][:turn] = nodes[trunk][:turn]
    return nodes


def _before_and_zero(view: _View) -> Array:
    """A critic knows that nothing comes after the last turn."""
    guessed = view.guessed.copy()
    guessed[:, -1] = 0.0
    return guessed


def _hindsight(view: _View) -> Array:
    task, found = view.task, np.zeros(view.play.actions.shape)
    took = view.play.actions[:, task.decisive]
    won = np.where(took == 1, task.good, task.bad)
    overall = view.values[:, 0]
    likely, mean = (np.where(view.play.outcomes == 1, x, 1 - x) for x in (won, overall))
    found[:, task.decisive] = np.log(likely / mean)
    return found


def _counterfactuals(view: _View) -> list[dict[frozenset[int], float]]:
    """Returns with only some turns played: a turn left out counts as action 0, and pays no reward."""
    task, play = view.task, view.play
    everything = range(task.turns)
    sizes = range(task.turns + 1) if task.turns <= MAX_COALITION_TURNS else (0, task.turns - 1, task.turns)
    sets = [frozenset(chosen) for size in sizes for chosen in combinations(everything, size)]
    found = []
    for actions, luck, rewards in zip(play.actions, play.luck, play.rewards, strict=True):
        returns = {}
        for chosen in sets:
            took = actions[task.decisive] if task.decisive in chosen else 0
            paid = sum(float(rewards[k]) for k in chosen)
            returns[chosen] = float(luck < (task.good if took else task.bad)) + paid
        found.append(returns)
    return found


def _continuations(view: _View) -> list[list[list[float]]]:
    chance = np.clip(view.values, 0.0, 1.0)
    wins = view.rng.random((*chance.shape, CONTINUATIONS)) < chance[..., None]
    wins[:, -1] = view.play.outcomes[:, None] == 1
    return wins.astype(np.float64).tolist()  # type: ignore[no-any-return]


def _entropies(view: _View) -> list[list[float]]:
    p = np.clip(view.chance, 1e-12, 1 - 1e-12)
    return np.tile(-(p * np.log(p) + (1 - p) * np.log(1 - p)), (len(view.play.outcomes), 1)).tolist()  # type: ignore[no-any-return]


def _score_norms(view: _View) -> list[list[float]]:
    chosen = np.where(view.play.actions == 1, view.chance, 1 - view.chance)
    return (2 * (1 - chosen) ** 2).tolist()  # type: ignore[no-any-return]  # 1 - 2 pi + sum of squares, of two actions


def _rows(value: Any) -> Callable[[_View], Any]:
    return lambda view: [[value] * view.task.turns for _ in view.play.outcomes]


SIGNAL_MAKERS: Mapping[str, Callable[[_View], Any]] = {
    "outcomes": lambda view: view.play.outcomes,
    "turn_rewards": lambda view: view.play.rewards,
    "components": lambda view: {"noise": view.play.rewards.tolist()},
    "outcome_components": lambda view: {"success": view.play.outcomes.tolist()},
    "tool_turn": _rows(True),
    "stop_reasons": lambda view: ["answered"] * len(view.play.outcomes),
    "action_keys": lambda view: view.play.actions.tolist(),
    "policies": _rows("agent"),
    "state_keys": _state_keys,
    "branches": _branches,
    "parents": lambda view: [None] * len(view.play.outcomes),
    "values": lambda view: _before_and_zero(view).tolist(),
    "action_values": lambda view: view.guessed[:, 1:].tolist(),
    "token_values": lambda view: np.repeat(view.guessed[:, :-1, None], TOKENS, axis=2).tolist(),
    "potentials": lambda view: view.guessed[:, :-1].tolist(),
    "gold_logprobs": lambda view: np.log(np.clip(view.guessed, 1e-3, 1.0)).tolist(),
    "contributions": lambda view: np.diff(view.guessed, axis=1).tolist(),
    "hindsight": lambda view: _hindsight(view).tolist(),
    "counterfactuals": _counterfactuals,
    "continuations": _continuations,
    "lengths": lambda view: view.rng.integers(5, 40, view.play.actions.shape).tolist(),
    "entropies": _entropies,
    "score_norms": _score_norms,
    "versions": _rows(0),
    "log_ratios": _rows([0.0] * TOKENS),
}
"""What this task gives for each signal of a group: the truth, with the errors that such a signal has in practice."""
