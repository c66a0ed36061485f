"""Figures of a batch of episodes that tell whether training is still alive: what the collapse guard watches."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from agentgym.messages import ResultStatus
from agentgym.storage.failures import turn_failures
from agentgym.trajectory import Trajectory, Turn


def diagnose(played: Sequence[Trajectory], credit: Sequence[NDArray[np.float64]], group_size: int) -> dict[str, float]:
    """Figures by name under "guard/"; shares are in [0, 1], and what is not defined is left out.

    Args:
        played, credit: trajectories, groups of `group_size` one after another, and their advantages.
    Returns:
        zero_gradient: groups in which no turn has an advantage: they teach nothing.
        zero_forecast: the same for the next batch: the chance that all or none of a group's episodes succeed,
            E[(1-p)^N + p^N] for p as the outcomes of each task leave it open.
        no_tool: valid episodes without one call that ran. ended_on_tool: those that a budget ended while their last
            message was a call: it was still at work.
        void: turns that neither spoke nor held a call that could be run. repeated: calls that repeat one before.
        turn_tokens: mean length of a message.
        diversity: mean share of word pairs that two episodes of a group do not have in common; 0: all say the same.
    """
    groups = [range(at, min(at + group_size, len(played))) for at in range(0, len(played), group_size)]
    valid = [t for t in played if t.valid]
    if not valid:
        return {}
    turns = [turn for t in valid for turn in t.turns]
    kinds = [kind for t in valid for found in turn_failures(t.turns) for kind in found]
    calls = sum(len(turn.calls) for turn in turns)
    trained = [group for group in groups if any(played[i].valid for i in group)]
    found = {
        "zero_gradient": float(np.mean([not any(np.any(credit[i]) for i in group) for group in trained])),
        "no_tool": float(np.mean([not any(_ran(turn) for turn in t.turns) for t in valid])),
        "ended_on_tool": float(np.mean([_still_at_work(t) for t in valid])),
        "void": kinds.count("void") / len(turns),
        "repeated": kinds.count("repeated") / calls if calls else 0.0,
        "turn_tokens": float(np.mean([len(turn.token_ids) for turn in turns])),
        "diversity": _mean([_diversity([played[i] for i in group if played[i].valid]) for group in trained]),
        "zero_forecast": _mean([_forecast([played[i] for i in group]) for group in trained]),
    }
    return {f"guard/{name}": value for name, value in found.items() if math.isfinite(value)}


def zero_gradient_forecast(successes: int, episodes: int, size: int) -> float:
    """The chance that `size` more episodes of a task all succeed or all fail, after so many of `episodes` did.

    E[(1 - p)^N + p^N] over the posterior of p from Jeffreys' prior, Beta(s + 1/2, n - s + 1/2): with p known it is
    (1 - p)^N + p^N, the groups that DAPO (arXiv:2503.14476, section 3.2) filters out because they give no gradient.
    """
    won, lost = successes + 0.5, episodes - successes + 0.5

    def all_of(shape: float) -> float:
        total = won + lost
        terms = (math.lgamma(shape + size), -math.lgamma(shape), math.lgamma(total), -math.lgamma(total + size))
        return math.exp(math.fsum(terms))

    return all_of(won) + all_of(lost)


def _forecast(group: Sequence[Trajectory]) -> float:
    judged = [t.success for t in group if t.valid and t.success is not None]
    if not judged:
        return math.nan
    return zero_gradient_forecast(sum(value >= 1.0 for value in judged), len(judged), len(group))


def _ran(turn: Turn) -> bool:
    return any(result.status in (ResultStatus.OK, ResultStatus.TOOL_ERROR) for result in turn.results)


def _still_at_work(trajectory: Trajectory) -> bool:
    stop = trajectory.stop_reason
    return stop is not None and stop.truncated and not trajectory.turns[-1].void


def _diversity(group: Sequence[Trajectory]) -> float:
    """Mean Jaccard distance of word pairs between two episodes; NaN with fewer than two."""
    said = [_word_pairs(t) for t in group]
    return _mean([1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in combinations(said, 2)])


def _word_pairs(trajectory: Trajectory) -> set[tuple[str, str]]:
    words: list[str] = []
    for turn in trajectory.turns:
        words += turn.message.text.split()
        for call in turn.calls:
            words += [call.name, *json.dumps(call.arguments, sort_keys=True, default=str).split()]
    return set(pairwise(words)) or {(word, "") for word in words}


def _mean(values: Sequence[float]) -> float:
    kept = [value for value in values if math.isfinite(value)]
    return sum(kept) / len(kept) if kept else math.nan
