"""Signals that are had by playing more: other endings from each turn, the episode with turns left out, and trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from agentgym.errors import CreditError
from agentgym.policy.contract import Policy, Sampling
from agentgym.rollout.branch import Fork, tree_labels
from agentgym.training.rollouts import Rollouts
from agentgym.training.signals.provider import Rows
from agentgym.trajectory import Trajectory


class MonteCarloContinuations:
    """`continuations`: returns of episodes played on from before each turn, as VinePPO estimates values.

    Costs `samples` episodes for every turn but the first, whose continuations are the group itself.
    Args:
        policy: plays on; the one being trained. `samples`: episodes from each turn.
    Source: Kazemnejad et al. 2024, arXiv:2410.01679.
    """

    provides: tuple[str, ...] = ("continuations",)

    def __init__(self, policy: Policy, rollouts: Rollouts, sampling: Sampling, samples: int = 4) -> None:
        self._policy, self._rollouts, self._sampling, self._samples = policy, rollouts, sampling, samples
        self._unplayed = 0.0

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        """Turns whose world would not be replayed get the trajectory's own return: no credit is drawn from them.

        How many those are is logged as `continuations/unplayed`.
        """
        forks = [Fork(t, turn) for t in played if t.valid for turn in range(1, len(t.turns))]
        found: dict[tuple[str, int], list[float]] = {}
        for other in self._rollouts.branch(
            self._policy, forks, self._samples, run=f"played-on-{step:06d}", sampling=self._sampling
        ):
            origin = other.provenance["branch"]
            if other.valid:
                found.setdefault((origin["of"], origin["turn"]), []).append(other.return_from(origin["turn"]))
        self._unplayed = 1 - len(found) / len(forks) if forks else 0.0
        starts: dict[str, list[float]] = {}
        for t in played:
            if t.valid:
                starts.setdefault(t.task.id, []).append(t.return_from())
        rows: Rows = []
        for t in played:
            if not t.valid:
                rows.append([[0.0]] * (len(t.turns) + 1))
                continue
            inner = [found.get((t.id, turn)) or [t.return_from(turn)] for turn in range(1, len(t.turns))]
            rows.append([starts[t.task.id], *inner, [t.outcome_reward]])
        return {"continuations": rows}

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learns nothing. Returns: the share of turns of the last batch that no continuation could be played from."""
        return {"continuations/unplayed": self._unplayed}


class LeaveOneOutReplays:
    """`counterfactuals`: the return of the episode with only some of its turns said, by replay without a policy.

    A call whose precondition was left out gets the world's own error, as it would have. Every trajectory gets the
    whole, nothing (an episode without a turn is worth 0), and the whole without each turn; up to `exact` turns,
    every subset there is.
    """

    provides: tuple[str, ...] = ("counterfactuals",)

    def __init__(self, rollouts: Rollouts, exact: int = 0) -> None:
        self._rollouts, self._exact = rollouts, exact

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        """Raises: CreditError when a replay fails: a world without replay has no counterfactuals."""
        asked: list[tuple[Trajectory, frozenset[int]]] = []
        for trajectory in played:
            if trajectory.valid:
                asked += [(trajectory, chosen) for chosen in self._subsets(len(trajectory.turns))]
        replayed = self._rollouts.replay_turns([(t, chosen) for t, chosen in asked if chosen])
        returns: dict[str, dict[frozenset[int], float]] = {}
        others = iter(replayed)
        for trajectory, chosen in asked:
            here = returns.setdefault(trajectory.id, {})
            if not chosen:
                here[chosen] = 0.0
                continue
            other = next(others)
            if not other.valid:
                raise CreditError(
                    f"The replay of {trajectory.id!r} with turns {sorted(chosen)} failed: {other.error}. "
                    "Counterfactual credit needs an environment whose calls can be run again."
                )
            here[chosen] = other.return_from()
        return {"counterfactuals": [returns.get(trajectory.id, {frozenset(): 0.0}) for trajectory in played]}

    def _subsets(self, turns: int) -> list[frozenset[int]]:
        sizes = range(turns + 1) if turns <= self._exact else sorted({0, turns - 1, turns})
        return [frozenset(chosen) for size in sizes for chosen in combinations(range(turns), size)]

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        return {}


class BranchLabels:
    """`branches`: which turns trajectories share, where groups were grown as trees (`agentgym.training.branching`)."""

    provides: tuple[str, ...] = ("branches",)

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        return {"branches": tree_labels(played)}

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        return {}
