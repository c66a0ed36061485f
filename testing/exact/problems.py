"""Small decision problems with so few trajectories that expectations are exact sums.

A problem is a list of all its trajectories with their probabilities under a fixed softmax policy. The
expectation over groups of N is the sum over multisets of N trajectories with multinomial weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from agentgym.credit import Estimator, Group

NO_REWARD = math.nan


@dataclass(frozen=True)
class ProblemPath:
    """One possible trajectory: probability, outcome, turn rewards, and d log pi / d theta [K, P] of its turns.

    `steps`: state and action of each turn. `signals`: the trajectory's row of every other signal of `Group`, by name.
    """

    probability: float
    outcome: float
    rewards: tuple[float, ...]
    score: np.ndarray
    valid: bool = True
    steps: tuple[tuple[str, str], ...] = ()
    signals: Mapping[str, Any] = field(default_factory=dict)

    def return_from(self, k: int) -> float:
        """Return the return from turn k on: its turn rewards and the outcome."""
        return float(np.nansum(self.rewards[k:])) + self.outcome


@dataclass(frozen=True, eq=False)
class Problem:
    """All trajectories of a decision problem."""

    paths: tuple[ProblemPath, ...]

    def true_gradient(self, outcome_weight: float = 1.0, turn_weight: float = 1.0) -> np.ndarray:
        """Return [P] d/d theta of the expected weighted sum of outcome and turn rewards, by definition."""
        total = np.zeros(self.paths[0].score.shape[1])
        for path in self.paths:
            episode_return = outcome_weight * path.outcome + turn_weight * float(np.nansum(path.rewards))
            total += path.probability * episode_return * path.score.sum(axis=0)
        return total

    @cache  # noqa: B019 - there are only a few problems, and they are never freed
    def groups(self, size: int) -> list[tuple[float, Group, tuple[ProblemPath, ...]]]:
        """Return every group of `size` trajectories with its probability."""
        groups = []
        for members in combinations_with_replacement(range(len(self.paths)), size):
            ways = math.factorial(size)
            for count in Counter(members).values():
                ways //= math.factorial(count)
            paths = tuple(self.paths[m] for m in members)
            group = Group.from_arrays(
                outcomes=[p.outcome for p in paths],
                turn_rewards=[p.rewards for p in paths],
                valid=[p.valid for p in paths],
                **_joined([p.signals for p in paths]),
            )
            groups.append((ways * math.prod(p.probability for p in paths), group, paths))
        return groups

    def estimated_gradient(self, estimator: Estimator, size: int) -> np.ndarray:
        """Return [P] E[(1/N) sum_ik A_ik grad log pi], given N >= 2 valid trajectories."""
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
        """Return the same problem where the infrastructure fails with this probability, independently of the agent."""
        working = [replace(p, probability=p.probability * (1 - rate)) for p in self.paths]
        no_signals = _nothing(self.paths[0].signals)
        broken = ProblemPath(
            rate, math.nan, (), np.zeros((0, self.paths[0].score.shape[1])), valid=False, signals=no_signals
        )
        return Problem((*working, broken))

    def with_signals(self, **signals: Callable[[ProblemPath], Any]) -> Problem:
        """Return the same problem with more signals per trajectory, each a function of the path."""
        return Problem(
            tuple(replace(p, signals={**p.signals, **{n: f(p) for n, f in signals.items()}}) for p in self.paths)
        )


def _joined(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the signals of a group's trajectories; components are joined by name."""
    return {
        name: _joined([row[name] for row in rows]) if name.endswith("components") else [row[name] for row in rows]
        for name in rows[0]
    }


def _nothing(signals: Mapping[str, Any]) -> dict[str, Any]:
    """Return the signals of a trajectory without a turn."""
    no_signals: dict[str, Any] = {}
    for name, row in signals.items():
        if name.endswith("components"):
            no_signals[name] = _nothing(row)
        else:
            no_signals[name] = {} if isinstance(row, Mapping) else [] if isinstance(row, (list, tuple)) else None
    return no_signals


def go_score(p_go: float, go_on: bool, parameter: int, parameters: int) -> np.ndarray:
    """Return d log pi / d (logit of going on), as a row with one entry per parameter."""
    row = np.zeros(parameters)
    row[parameter] = (1 - p_go) if go_on else -p_go
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
        start, searched, end = (("start", "answer"),), (("start", "search"),), ("found", "answer")
        paths.append(ProblemPath(0.5 * early, solved, (NO_REWARD,), np.stack([a1]), steps=start))
        second = (*searched, ("searched", "answer"))
        paths.append(ProblemPath(0.25 * late, solved, (0.0, NO_REWARD), np.stack([s1, a2]), steps=second))
        third = (*searched, ("searched", "search"), end)
        paths.append(ProblemPath(0.25 * late, solved, (0.0, 0.5, NO_REWARD), np.stack([s1, s2, forced]), steps=third))
    return Problem(tuple(paths))


def stop_or_go(go: Sequence[float] = (0.7, 0.4, 0.6), solved: Sequence[float] = (0.1, 0.5, 0.3, 0.9)) -> Problem:
    """Up to three turns, each stop or go with its own probability; going pays 0.2, -0.3, then no reward.

    `solved[g]` is the probability of outcome 1 after going on g times. The policy is uneven, lengths are 1 to 3,
    rewards have both signs or are missing, and the outcome is not monotone in length.
    """
    pays = (0.2, -0.3, NO_REWARD)
    paths = []
    for times in range(4):
        chance, rewards, scores, steps = 1.0, [], [], []
        for k in range(min(times + 1, 3)):
            go_on = k < times
            chance *= go[k] if go_on else 1 - go[k]
            rewards.append(pays[k] if go_on else NO_REWARD)
            scores.append(go_score(go[k], go_on, k, 3))
            steps.append((f"after {k}", "go" if go_on else "stop"))
        for outcome, p in ((1.0, solved[times]), (0.0, 1 - solved[times])):
            paths.append(ProblemPath(chance * p, outcome, tuple(rewards), np.stack(scores), steps=tuple(steps)))
    return Problem(tuple(paths))


def lucky_tool(go: Sequence[float] = (0.6, 0.3)) -> Problem:
    """Up to two calls of a tool that pays 1 with probability 0.3, else -0.2; the outcome is 1 if any call paid 1.

    The second choice has a separate logit for each result of the first. The problem covers stochastic tools, and two
    states at the same turn index.
    """
    paths = [ProblemPath(1 - go[0], 0.0, (0.1,), np.stack([go_score(go[0], False, 0, 3)]), steps=(("start", "stop"),))]
    for paid, p_paid in ((True, 0.3), (False, 0.7)):
        state = 1 if paid else 2
        first = go_score(go[0], True, 0, 3)
        reward = 1.0 if paid else -0.2
        p_second = go[1] if paid else 0.8
        stop = go_score(p_second, False, state, 3)
        before, now = ("start", "go"), "lucky" if paid else "unlucky"
        chance = go[0] * p_paid * (1 - p_second)
        steps = (before, (now, "stop"))
        paths.append(ProblemPath(chance, float(paid), (reward, 0.0), np.stack([first, stop]), steps=steps))
        for second_paid, p_again in ((True, 0.3), (False, 0.7)):
            path = ProblemPath(
                go[0] * p_paid * p_second * p_again,
                float(paid or second_paid),
                (reward, 1.0 if second_paid else -0.2),
                np.stack([first, go_score(p_second, True, state, 3)]),
                steps=(before, (now, "go")),
            )
            paths.append(path)
    return Problem(tuple(paths))


def back_and_forth(go: Sequence[float] = (0.6, 0.3)) -> Problem:
    """Up to three turns in two rooms: a trajectory can visit a room twice, and at any turn.

    In "hall" going on leads to "vault" with 0.5 (paying 0.25), else back to "hall" (-0.125); stopping gives
    the outcome 0.25 for sure. In "vault" stopping is solved with 0.8; going on leads back to "hall" (no
    reward). A trajectory that never stops gets outcome 0. One logit per room.
    """
    paths: list[ProblemPath] = []

    def play_on(
        room: int,
        chance: float,
        rewards: tuple[float, ...],
        scores: tuple[np.ndarray, ...],
        steps: tuple[tuple[str, str], ...],
    ) -> None:
        name = ("hall", "vault")[room]
        stopped = (*scores, go_score(go[room], False, room, 2)), (*steps, (name, "stop"))
        for outcome, p in ((0.25, 1.0),) if room == 0 else ((1.0, 0.8), (0.0, 0.2)):
            paths.append(
                ProblemPath(
                    chance * (1 - go[room]) * p, outcome, (*rewards, NO_REWARD), np.stack(stopped[0]), steps=stopped[1]
                )
            )
        go_on = (*scores, go_score(go[room], True, room, 2)), (*steps, (name, "go"))
        for following, pays, p in ((1, 0.25, 0.5), (0, -0.125, 0.5)) if room == 0 else ((0, NO_REWARD, 1.0),):
            after = chance * go[room] * p
            if len(steps) == 2:
                paths.append(ProblemPath(after, 0.0, (*rewards, pays), np.stack(go_on[0]), steps=go_on[1]))
            else:
                play_on(following, after, (*rewards, pays), *go_on)

    play_on(0, 1.0, (), (), ())
    return Problem(tuple(paths))
