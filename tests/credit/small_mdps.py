"""Small decision problems whose every trajectory can be written down, so that expectations are exact sums.

A problem is a list of all its trajectories with their probabilities under a fixed softmax policy. The
expectation over groups of N is the sum over multisets of N trajectories with multinomial weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement

import numpy as np

from agentgym.credit import Estimator, Group

NO_REWARD = math.nan


@dataclass(frozen=True)
class Path:
    """One possible trajectory: probability, outcome, turn rewards, and d log pi / d theta [K, P] of its turns."""

    probability: float
    outcome: float
    rewards: tuple[float, ...]
    score: np.ndarray
    valid: bool = True


@dataclass(frozen=True, eq=False)
class Problem:
    """All trajectories of a decision problem."""

    paths: tuple[Path, ...]

    def true_gradient(self) -> np.ndarray:
        """[P] d/d theta of the expected sum of outcome and turn rewards, by the definition of the expectation."""
        return sum(p.probability * (p.outcome + np.nansum(p.rewards)) * p.score.sum(axis=0) for p in self.paths)

    @cache  # noqa: B019 - a handful of problems live as long as the tests
    def groups(self, size: int) -> list[tuple[float, Group, tuple[Path, ...]]]:
        """Every group of `size` with its probability."""
        found = []
        for members in combinations_with_replacement(range(len(self.paths)), size):
            ways = math.factorial(size)
            for count in Counter(members).values():
                ways //= math.factorial(count)
            paths = tuple(self.paths[m] for m in members)
            group = Group.from_arrays(
                outcomes=[p.outcome for p in paths],
                turn_rewards=[p.rewards for p in paths],
                valid=[p.valid for p in paths],
            )
            found.append((ways * math.prod(p.probability for p in paths), group, paths))
        return found

    def estimated_gradient(self, estimator: Estimator, size: int) -> np.ndarray:
        """[P] E[(1/N) sum_ik A_ik grad log pi], N the valid trajectories, given that there are two or more."""
        total, weight = np.zeros(self.paths[0].score.shape[1]), 0.0
        for probability, group, paths in self.groups(size):
            valid = int(group.valid.sum())
            if valid < 2:
                continue
            weight += probability
            for path, advantages in zip(paths, estimator(group), strict=True):
                total += probability / valid * (advantages @ path.score)
        return total / weight

    def with_failures(self, rate: float) -> Problem:
        """The same problem where the machine breaks an episode with this probability, whatever the agent does."""
        kept = [Path(p.probability * (1 - rate), p.outcome, p.rewards, p.score) for p in self.paths]
        broken = Path(rate, math.nan, (), np.zeros((0, self.paths[0].score.shape[1])), valid=False)
        return Problem((*kept, broken))


def go_score(p_go: float, went: bool, parameter: int, parameters: int) -> np.ndarray:
    """d log pi / d (logit of going on), at its place among all parameters."""
    row = np.zeros(parameters)
    row[parameter] = (1 - p_go) if went else -p_go
    return row


def flip() -> Problem:
    """Answer or search, twice, both with probability 0.5; theta is the logit of "search" at turns 1 and 2.

    Answering at turn 1 succeeds with 0.5, later with 0.4. A search at turn 2 pays the turn reward 0.5
    and is followed by a forced answer.

    Q(search at 1) = 0.5 * 0.4 + 0.5 * (0.5 + 0.4) = 0.65, Q(answer at 1) = 0.5, so
    dJ/d theta_1 = 0.5 * 0.5 * (0.65 - 0.5) = 0.0375.
    """
    answer, search = (go_score(0.5, False, k, 2) for k in (0, 1)), (go_score(0.5, True, k, 2) for k in (0, 1))
    (a1, a2), (s1, s2) = answer, search
    forced = np.zeros(2)
    paths = []
    for solved in (1.0, 0.0):
        early, late = (0.5, 0.4) if solved else (0.5, 0.6)
        paths.append(Path(0.5 * early, solved, (NO_REWARD,), np.stack([a1])))
        paths.append(Path(0.25 * late, solved, (0.0, NO_REWARD), np.stack([s1, a2])))
        paths.append(Path(0.25 * late, solved, (0.0, 0.5, NO_REWARD), np.stack([s1, s2, forced])))
    return Problem(tuple(paths))


def stop_or_go(go: Sequence[float] = (0.7, 0.4, 0.6), solved: Sequence[float] = (0.1, 0.5, 0.3, 0.9)) -> Problem:
    """Up to three turns, each stop or go with its own probability; going pays 0.2, -0.3, then nothing said.

    `solved[g]` is the chance of outcome 1 after g times going on. Uneven policy, lengths 1 to 3, both
    signs of reward, a missing one, and an outcome that is not monotone in length.
    """
    pays = (0.2, -0.3, NO_REWARD)
    paths = []
    for times in range(4):
        chance, rewards, scores = 1.0, [], []
        for k in range(min(times + 1, 3)):
            went = k < times
            chance *= go[k] if went else 1 - go[k]
            rewards.append(pays[k] if went else NO_REWARD)
            scores.append(go_score(go[k], went, k, 3))
        for outcome, p in ((1.0, solved[times]), (0.0, 1 - solved[times])):
            paths.append(Path(chance * p, outcome, tuple(rewards), np.stack(scores)))
    return Problem(tuple(paths))


def lucky_tool(go: Sequence[float] = (0.6, 0.3)) -> Problem:
    """Up to two calls of a tool that pays 1 with probability 0.3 and else -0.2; the outcome is 1 if it paid once.

    The second choice has a logit of its own for either result of the first: stochastic tools, and two
    states at the same turn index.
    """
    paths = [Path(1 - go[0], 0.0, (0.1,), np.stack([go_score(go[0], False, 0, 3)]))]
    for paid, p_paid in ((True, 0.3), (False, 0.7)):
        state = 1 if paid else 2
        first = go_score(go[0], True, 0, 3)
        reward = 1.0 if paid else -0.2
        p_second = go[1] if paid else 0.8
        stop = go_score(p_second, False, state, 3)
        paths.append(Path(go[0] * p_paid * (1 - p_second), float(paid), (reward, 0.0), np.stack([first, stop])))
        for again, p_again in ((True, 0.3), (False, 0.7)):
            path = Path(
                go[0] * p_paid * p_second * p_again, float(paid or again), (reward, 1.0 if again else -0.2),
                np.stack([first, go_score(p_second, True, state, 3)]),
            )  # fmt: skip
            paths.append(path)
    return Problem(tuple(paths))
