"""Select the pairs of episodes, turns or segments to compare, the better one first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from agentgym import Trajectory

from ..selections import RatedTurn, by_state, groups_of, score_of
from .options import PreferSection

Candidate = tuple[float, Trajectory, Trajectory]
"""The gap between two episodes, the better episode, and the worse one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two episodes of a task, and the turns to compare.

    Attributes:
        chosen, rejected: the better and the worse episode.
        chosen_turns, rejected_turns: first turn, and the turn after the last.
        gap: the difference of scores, or of the two turns' credit.
    """

    chosen: Trajectory
    rejected: Trajectory
    chosen_turns: tuple[int, int]
    rejected_turns: tuple[int, int]
    gap: float


def outcome_pairs(trajectories: Sequence[Trajectory], options: PreferSection) -> list[Pair]:
    """Return pairs of whole episodes of a task whose scores differ by more than the margin, widest gaps first.

    Two filters follow DPO-VP: the ratio of lengths is bounded, and a truncated episode cannot be the better one.
    """
    pairs: list[Pair] = []
    for group in groups_of(trajectories):
        scores = {t.id: score_of(t, options.score) for t in group}
        candidates = [
            (scores[better.id] - scores[worse.id], better, worse)
            for better, worse in product(group, group)
            if scores[better.id] - scores[worse.id] > options.margin and _comparable(better, worse, options)
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        pairs += [
            Pair(better, worse, (0, len(better.turns)), (0, len(worse.turns)), gap)
            for gap, better, worse in _spread(candidates, options.max_pairs)
        ]
    return pairs


def turn_pairs(trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray], options: PreferSection) -> list[Pair]:
    """Pair turns that follow the same tokens, by their credit: the i-th best with the i-th worst.

    Args:
        credit: [T] credit of each trajectory's turns.
    Source: SWEET-RL, Zhou et al. 2025, arXiv:2503.15478, which compares the top half of the candidates at a state with
    the bottom half. Pairing the i-th best with the i-th worst is our choice.
    """
    return _ranked_pairs(
        [
            RatedTurn(float(value), trajectory, index)
            for trajectory, values in zip(trajectories, credit, strict=True)
            for index, value in enumerate(values)
        ],
        options,
    )


def node_pairs(nodes: Sequence[Trajectory], options: PreferSection) -> list[Pair]:
    """Pair the last turns of search-tree nodes that follow the same tokens, by the nodes' values.

    Nodes without a value, as after an interrupted search, are left out.
    Source: step-level preferences from the values of a tree search, Xie et al. 2024, arXiv:2405.00451. Pairing the i-th
    best with the i-th worst is our choice, as in `turn_pairs`.
    """
    return _ranked_pairs(
        [
            RatedTurn(node.end_state.value, node, len(node.turns) - 1)
            for node in nodes
            if node.turns and node.end_state is not None and node.end_state.value is not None
        ],
        options,
    )


def _ranked_pairs(turns: Sequence[RatedTurn], options: PreferSection) -> list[Pair]:
    """Pair the rated turns that follow the same tokens."""
    pairs: list[Pair] = []
    taken: dict[str, int] = {}
    for candidates in by_state(turns).values():
        ranked = sorted(candidates, key=lambda candidate: -candidate.value)
        halves = zip(ranked[: len(ranked) // 2], reversed(ranked), strict=False)
        for (high, better, at), (low, worse, other_at) in halves:
            count = taken.get(better.task.id, 0)
            if high - low > options.margin and count < options.max_pairs:
                taken[better.task.id] = count + 1
                pairs.append(Pair(better, worse, (at, at + 1), (other_at, other_at + 1), high - low))
    return pairs


def worst_turns(
    trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray], options: PreferSection
) -> list[tuple[Trajectory, int]]:
    """Return where to replay each unsuccessful episode from: before its first turn with the lowest credit."""
    forks: list[tuple[Trajectory, int]] = []
    taken: dict[str, int] = {}
    for trajectory, values in zip(trajectories, credit, strict=True):
        lost = trajectory.valid and (trajectory.success or 0.0) < 1.0
        if lost and taken.get(trajectory.task.id, 0) < options.max_pairs:
            taken[trajectory.task.id] = taken.get(trajectory.task.id, 0) + 1
            forks.append((trajectory, int(np.argmin(values))))
    return forks


def segment_pairs(
    forks: Sequence[tuple[Trajectory, int]], branches: Sequence[Trajectory], options: PreferSection
) -> list[Pair]:
    """Pair each fork's best branch with the original episode, over the same number of turns from the fork on.

    Source: SDPO, Kong et al. 2025, arXiv:2501.01821: with equally many turns the partition functions cancel.
    """
    by_fork: dict[tuple[str, int], list[Trajectory]] = {}
    for branch in sorted(branches, key=lambda branch: branch.id):  # they end in any order
        if branch.valid and (fork := branch.provenance.branch) is not None:
            by_fork.setdefault((fork.trajectory, fork.turn), []).append(branch)
    pairs: list[Pair] = []
    for trajectory, turn in forks:
        candidates = by_fork.get((trajectory.id, turn), [])
        if not candidates:
            continue
        best = max(candidates, key=lambda branch: score_of(branch, options.score))
        turns = min(options.segment_turns, len(best.turns) - turn, len(trajectory.turns) - turn)
        gap = score_of(best, options.score) - score_of(trajectory, options.score)
        if gap > options.margin and turns > 0:
            pairs.append(Pair(best, trajectory, (turn, turn + turns), (turn, turn + turns), gap))
    return pairs


def _comparable(better: Trajectory, worse: Trajectory, options: PreferSection) -> bool:
    if better.stop_reason is not None and better.stop_reason.truncated and not options.truncated_winners:
        return False
    shorter, longer = sorted(len(trajectory.arrays().ids) for trajectory in (better, worse))
    return options.max_length_ratio is None or longer <= options.max_length_ratio * shorter


def _spread(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Return up to `count` candidates, preferring the least-used episodes, then the earlier candidates."""
    uses: Counter[str] = Counter()
    remaining, chosen = list(candidates), list(candidates[:0])
    while remaining and len(chosen) < count:
        _, index = min((max(uses[better.id], uses[worse.id]), i) for i, (_, better, worse) in enumerate(remaining))
        gap, better, worse = remaining.pop(index)
        chosen.append((gap, better, worse))
        uses.update((better.id, worse.id))
    return chosen
