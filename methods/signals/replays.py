"""Signals from further episodes: continuations from each turn, replays with turns left out, and labels of shared
turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

from typing_extensions import override

from agentgym import CreditError, Policy, Trajectory
from agentgym.rollout import Fork
from agentgym.training import Rollouts
from agentgym.training.gatherers import Gatherer
from agentgym.training.signals import SignalProvider, SignalSources

from .branching import Branching


class MonteCarloContinuations(SignalProvider):
    """Compute `continuations`: returns of episodes continued from before each turn, as VinePPO estimates values.

    This costs `samples` episodes for every turn but the first, whose continuations are the group itself.

    Args:
        policy: the trained policy, which continues the episodes.
        samples: number of episodes from each turn.
    Source: Kazemnejad et al. 2024, arXiv:2410.01679.
    """

    provides: ClassVar[tuple[str, ...]] = ("continuations",)

    def __init__(self, policy: Policy, rollouts: Rollouts, samples: int = 4) -> None:
        self._policy, self._rollouts, self._samples = policy, rollouts, samples
        self._share_without, self._episode_count = 0.0, 0

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> MonteCarloContinuations:
        return cls(sources.policy, sources.rollouts, sources.options.continuations)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        """Return the continuations of every turn.

        If the environment before a turn could not be restored, the trajectory's own return is taken there. The fraction
        of such turns is logged as `continuations/unplayed`.
        """
        forks = [Fork(t, turn) for t in trajectories if t.valid for turn in range(1, len(t.turns))]
        returns: dict[tuple[str, int], list[float]] = {}
        rollouts, label = self._rollouts.at_step(step), f"played-on-{step:06d}"
        continuations = rollouts.branch(self._policy, forks, self._samples, label=label)
        self._episode_count = len(continuations)
        for continuation in continuations:
            fork = continuation.provenance.branch
            if continuation.valid and fork is not None:
                returns.setdefault((fork.trajectory, fork.turn), []).append(continuation.return_from(fork.turn))
        self._share_without = 1 - len(returns) / len(forks) if forks else 0.0
        group_returns: dict[str, list[float]] = {}
        for t in trajectories:
            if t.valid:
                group_returns.setdefault(t.task.id, []).append(t.return_from())
        rows: list[Any] = []
        for t in trajectories:
            if not t.valid:
                rows.append([[0.0]] * (len(t.turns) + 1))
                continue
            inner = [returns.get((t.id, turn)) or [t.return_from(turn)] for turn in range(1, len(t.turns))]
            rows.append([group_returns[t.task.id], *inner, [t.outcome_reward]])
        return {"continuations": rows}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Return the last batch's fraction of turns that were not continued, and its number of continuations."""
        return {"continuations/unplayed": self._share_without, "continuations/episodes": float(self._episode_count)}


class LeaveOneOutReplays(SignalProvider):
    """Compute `counterfactuals`: returns of the episode with a subset of its turns, by replay without a policy.

    A call that depends on a left-out turn gets the environment's real error. Every trajectory gets the return with all
    its turns, with none (0), and with all but one, for each turn; if it has at most `exact` turns, with every subset.
    """

    provides: ClassVar[tuple[str, ...]] = ("counterfactuals",)

    def __init__(self, rollouts: Rollouts, exact: int = 0) -> None:
        self._rollouts, self._exact = rollouts, exact

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> LeaveOneOutReplays:
        return cls(sources.rollouts, sources.options.exact_turns)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        """Replay each episode without some of its turns. Raises: CreditError if a replay fails."""
        selections: list[tuple[Trajectory, frozenset[int]]] = []
        for trajectory in trajectories:
            if trajectory.valid:
                selections += [(trajectory, turns) for turns in self._subsets(len(trajectory.turns))]
        replays = iter(self._rollouts.at_step(step).replay_turns([(t, turns) for t, turns in selections if turns]))
        returns: dict[str, dict[frozenset[int], float]] = {}
        for trajectory, turns in selections:
            own_returns = returns.setdefault(trajectory.id, {})
            if not turns:
                own_returns[turns] = 0.0
                continue
            replay = next(replays)
            if not replay.valid:
                raise CreditError(
                    f"The replay of {trajectory.id!r} with only the turns {sorted(turns)} failed: {replay.error}. "
                    "Counterfactual credit needs an environment whose calls can be run again."
                )
            own_returns[turns] = replay.return_from()
        return {"counterfactuals": [returns.get(trajectory.id, {frozenset(): 0.0}) for trajectory in trajectories]}

    def _subsets(self, turn_count: int) -> list[frozenset[int]]:
        sizes = range(turn_count + 1) if turn_count <= self._exact else sorted({0, turn_count - 1, turn_count})
        return [frozenset(turns) for size in sizes for turns in combinations(range(turn_count), size)]


class BranchLabels(SignalProvider):
    """Compute `branches`: the turns that trajectories of a tree share (see branching.py)."""

    provides: ClassVar[tuple[str, ...]] = ("branches",)

    @classmethod
    @override
    def gatherer(cls, options: Any, seed: int) -> Gatherer:
        return Branching(options.root_episodes, options.branch_before, seed).grow

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        return {"branches": Fork.tree_labels(trajectories)}
