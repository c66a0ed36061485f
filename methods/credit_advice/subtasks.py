"""Chains of sub-tasks: T turns, some of them decisive, to measure an estimator's gradient noise and learning speed.

The chains model the task sets whose tasks vary in horizon. Each turn does its part right or wrong, independently of
others. An episode succeeds if all decisive turns are right. Either one *skill* serves all turns (one logit, as for a
network that treats all turns equally), or each turn has its own skill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentgym import CreditError
from agentgym.credit import Array, Estimator, Group

Bools = NDArray[np.bool_]
Feedback = Literal["outcome", "sparse", "dense", "delayed", "misleading", "last", "even", "wrong"]
Skills = Literal["shared", "own"]
CONTINUATIONS = 4
PAYMENTS = 4  # rewards per episode with feedback "sparse"; with "delayed", 1 / PAYMENTS of the episode is the delay


@dataclass(frozen=True, slots=True)
class SubtaskChain:
    """A task of `turns` turns.

    Attributes:
        turns: T.
        decisive: the number of decisive turns, spread evenly; the others have no effect.
        feedback: how turns are rewarded. "dense": 1 / decisive for each decisive turn that is right, on that turn.
            "sparse": the same, but only at every quarter of the episode. "delayed": a quarter of the episode later.
            "last", "even", "wrong": the same total on the last turn, equally on all turns, or half an episode late.
            "misleading": 1 / turns for each turn, right or wrong. "outcome": nothing.
        noise: standard deviation of a number that is added to each turn's reward.
    """

    turns: int
    decisive: int
    feedback: Feedback = "dense"
    noise: float = 0.0

    @property
    def decides(self) -> Bools:
        """[T] which turns are decisive. If there is only one, it is the first."""
        decides = np.zeros(self.turns, np.bool_)
        decides[np.linspace(0, self.turns, self.decisive, endpoint=False).astype(int)] = True
        return decides

    @property
    def payments(self) -> Array:
        """[T, T] row k, column l: the reward on turn l if turn k is right."""
        turns = np.arange(self.turns)
        quarter = max(1, self.turns // PAYMENTS)
        paid_at = {
            "dense": turns,
            "sparse": np.minimum(turns // quarter * quarter + quarter, self.turns) - 1,
            "delayed": np.minimum(turns + quarter, self.turns - 1),
            "last": np.full(self.turns, self.turns - 1),
            "wrong": (turns + self.turns // 2) % self.turns,
        }
        payments = np.zeros((self.turns, self.turns))
        if self.feedback in paid_at:
            payments[turns, paid_at[self.feedback]] = 1.0
        elif self.feedback == "even":
            payments[:] = 1 / self.turns
        payments *= self.decides[:, None] / self.decisive
        return payments

    def success(self, chance: Array) -> float:
        """Return the chance that all decisive turns are right, given each turn's chance [T]."""
        return float(np.prod(chance[self.decides]))

    def rewards(self, right: Bools, rng: np.random.Generator) -> Array:
        """Return [N, T] the turn rewards, given [N, T] which turns are right; NaN if turns are not rewarded."""
        if self.feedback == "outcome":
            return np.full(right.shape, np.nan)
        base = np.full(right.shape, 1 / self.turns) if self.feedback == "misleading" else right @ self.payments
        return base + self.noise * rng.standard_normal(right.shape) if self.noise else base

    def group(
        self, right: Bools, chance: Array, rng: np.random.Generator, signals: Sequence[str], forks: Sequence[Any] = ()
    ) -> Group:
        """Return the trajectories as a Group with these signals.

        Raises: CreditError for a signal that a chain cannot give.
        """
        given: dict[str, Any] = {
            "outcomes": right[:, self.decides].all(axis=1).astype(np.float64),
            "turn_rewards": self.rewards(right, rng),
        }
        for name in signals:
            if name not in given:
                if name not in SIGNAL_MAKERS:
                    raise CreditError(
                        f"A chain of sub-tasks provides no signal {name}. It provides: {', '.join(SIGNAL_MAKERS)}."
                    )
                given[name] = SIGNAL_MAKERS[name](_Inputs(self, right, chance, rng, forks))
        return Group.from_arrays(turns=[self.turns] * len(right), environment="subtasks", **given)

    def sample(self, chance: Array, size: int, rng: np.random.Generator, *, tree: bool) -> tuple[Bools, list[Any]]:
        """Return [N, T] which turns are right, and the fork of each trajectory: (trajectory, turn) or None.

        With `tree`, trajectory N/2 + i begins like trajectory i, up to a random turn.
        """
        right = rng.random((size, self.turns)) < chance
        forks: list[Any] = [None] * size
        for child in range(size // 2, size) if tree else ():
            turn = int(rng.integers(0, self.turns))
            if turn:
                right[child, :turn] = right[child - size // 2, :turn]
                forks[child] = (child - size // 2, turn)
        return right, forks


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Inputs of the functions in `SIGNAL_MAKERS`."""

    chain: SubtaskChain
    right: Bools
    chance: Array
    rng: np.random.Generator
    forks: Sequence[Any]

    def values(self) -> Array:
        """Return [N, T+1] an ideal critic's values: the expected return from each turn on, given the turns before."""
        chain, turns = self.chain, self.chain.turns
        later_success = np.cumprod(np.where(chain.decides, self.chance, 1.0)[::-1])[::-1]
        values = np.zeros((len(self.right), turns + 1))
        for k in range(turns):
            known = np.where(np.arange(turns) < k, self.right, self.chance)
            alive = (self.right | ~chain.decides)[:, :k].all(axis=1)
            values[:, k] = self._paid_from(known, k) + alive * later_success[k]
        return values

    def continuations(self) -> list[list[list[float]]]:
        """Return the returns of trajectories continued from before each turn, and the outcome after the last turn."""
        chain, shape = self.chain, self.right.shape
        later = self.rng.random((CONTINUATIONS, *shape)) < self.chance
        returns = np.zeros((*shape, CONTINUATIONS))
        for k in range(shape[1]):
            right = np.where(np.arange(shape[1]) < k, self.right, later)
            all_right = right[..., chain.decides].all(axis=-1)
            returns[:, k] = (self._paid_from(right, k) + all_right).T
        ends = np.zeros((len(self.right), 1, CONTINUATIONS))
        ends[self.right[:, chain.decides].all(axis=1)] = 1.0
        return np.concatenate([returns, ends], axis=1).tolist()  # type: ignore[no-any-return]

    def _paid_from(self, right: Array, k: int) -> Array:
        """Return [..., N] the sum of the rewards of turns k to T - 1, given [..., N, T] which turns are right."""
        if self.chain.feedback == "misleading":
            return np.full(right.shape[:-1], (self.chain.turns - k) / self.chain.turns)
        paid: Array = right @ self.chain.payments[:, k:].sum(axis=1)
        return paid


def _state_keys(inputs: _Inputs) -> list[list[str]]:
    counted: NDArray[np.int64] = (inputs.right & inputs.chain.decides).astype(np.int64)
    before: list[list[int]] = (np.cumsum(counted, axis=1) - counted).tolist()
    return [[f"{k}:{count}" for k, count in enumerate(row)] for row in before]


def _potentials(inputs: _Inputs) -> list[list[float]]:
    gained = np.cumsum(inputs.right * inputs.chain.decides, axis=1) / inputs.chain.decisive
    return np.concatenate([np.zeros((len(gained), 1)), gained[:, :-1]], axis=1).tolist()  # type: ignore[no-any-return]


def _branches(inputs: _Inputs) -> list[list[str]]:
    nodes = [[f"{i}:{k}" for k in range(inputs.chain.turns)] for i in range(len(inputs.right))]
    for child, fork in enumerate(inputs.forks):
        if fork is not None:
            trunk, turn = fork
            nodes[child][:turn] = nodes[trunk][:turn]
    return nodes


SIGNAL_MAKERS: Mapping[str, Callable[[_Inputs], Any]] = {
    "state_keys": _state_keys,
    "potentials": _potentials,
    "branches": _branches,
    "values": lambda inputs: inputs.values().tolist(),
    "continuations": _Inputs.continuations,
    "parents": lambda inputs: [None] * len(inputs.right),
}
"""The function that makes each signal of a group. Values come from an ideal critic."""


def gradient(estimate: Estimator, chain: SubtaskChain, chance: Array, size: int, rng: np.random.Generator) -> Array:
    """Return [T] the gradient of one sampled group with respect to each turn's logit."""
    tree = "branches" in estimate.requires
    right, forks = chain.sample(chance, size, rng, tree=tree)
    credit = np.stack(estimate(chain.group(right, chance, rng, estimate.requires, forks)))
    total: Array = (credit * (right - chance)).mean(axis=0)
    return total


def signal_to_noise(
    estimate: Estimator, chain: SubtaskChain, *, chance: float, size: int = 8, groups: int = 400, seed: int = 0
) -> dict[Skills, float]:
    """Return the length of the mean gradient over its standard deviation, for one group, by kind of skill.

    Args:
        chance: the probability that a turn is right.
        size: trajectories per group.
        groups: the number of groups sampled.
    Raises: CreditError for a signal that a chain cannot give.
    """
    rng, chances = np.random.default_rng(seed), np.full(chain.turns, chance)
    gradients = np.array([gradient(estimate, chain, chances, size, rng) for _ in range(groups)])
    shared = gradients.sum(axis=1)
    spread = float(np.sqrt(gradients.var(axis=0, ddof=1).sum()))
    return {
        "shared": _ratio(abs(float(shared.mean())), float(shared.std(ddof=1))),
        "own": _ratio(float(np.linalg.norm(gradients.mean(axis=0))), spread),
    }


def _ratio(mean: float, deviation: float) -> float:
    return mean / deviation if deviation > 0 else 0.0


def steps_to(
    target: float,
    estimate: Estimator,
    chain: SubtaskChain,
    *,
    chance: float,
    skills: Skills = "shared",
    groups: int = 8,
    size: int = 8,
    learning_rate: float = 0.2,
    most: int = 400,
    seed: int = 0,
) -> int:
    """Return the number of Adam steps until the success probability reaches `target`; `most` if it never does.

    Args:
        chance: the initial probability that a turn is right.
        groups, size: groups per step, and trajectories per group.
    Raises: CreditError for a signal that a chain cannot give.
    """
    rng = np.random.default_rng(seed)
    logits = np.full(chain.turns, np.log(chance / (1 - chance)))
    mean, square = np.zeros(chain.turns), np.zeros(chain.turns)
    for step in range(1, most + 1):
        chances = 1 / (1 + np.exp(-logits))
        if chain.success(chances) >= target:
            return step - 1
        total = np.mean([gradient(estimate, chain, chances, size, rng) for _ in range(groups)], axis=0)
        if skills == "shared":
            total = np.full(chain.turns, total.sum())
        mean, square = 0.9 * mean + 0.1 * total, 0.999 * square + 0.001 * total**2
        corrected = np.sqrt(square / (1 - 0.999**step))
        logits += learning_rate * (mean / (1 - 0.9**step)) / np.where(corrected > 0, corrected, 1.0)
    return most
