"""Compare two or more agents on the same tasks, as plain data: rates, pass@k curves, gains with Holm's p-values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np

from agentgym.errors import EvaluationError
from agentgym.evaluation.comparison import check_same_tasks, compare, on_common_tasks
from agentgym.evaluation.outcomes import TaskOutcome
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.statistics.adaptive_stopping import adastop
from agentgym.evaluation.statistics.aggregate import (
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
    stratified_bootstrap,
)
from agentgym.evaluation.statistics.estimate import Estimate
from agentgym.evaluation.statistics.permutation import holm
from agentgym.evaluation.strata import strata

MAX_STRATA = 16
EQUAL = 1e-12
"""Rates that differ by less are the same: 0.1 + 0.2 and 0.3."""
THRESHOLDS = tuple(i / 20 for i in range(20))


def tournament(
    arms: Mapping[str, Evaluation],
    *,
    common: bool = False,
    also: str | None = None,
    tag: str | None = None,
    turns: Sequence[int] = (),
) -> dict[str, Any]:
    """Compare every pair of agents on the tasks that all agents played.

    Args:
        arms: evaluations by name, at least two; the first of a pair is the baseline.
        common: compare only the tasks that all agents played, instead of raising an error if the tasks differ.
        also: a second outcome component that must also be 1. tag: compare only tasks with this tag.
        turns: each k for which to return score@turn-k.
    Returns: JSON-compatible: `tasks`, `arms` (success, pass_at, pass_hat, within_turns, usage), `pairs` (gain, better,
        worse, same, p, p_holm, and `significant`: the interval excludes 0, and the adjusted p is at most 0.05;
        `strata`, the gain by kind of task; `changed`, the tasks that one solved more often, with an episode of each).
    Raises: EvaluationError for fewer than two agents or tasks that differ.
    """
    if len(arms) < 2:
        raise EvaluationError("A comparison needs at least two evaluations.")
    evaluations = on_common_tasks(list(arms.values())) if common else list(arms.values())
    for other in evaluations[1:]:
        check_same_tasks(evaluations[0], other)
    named = dict(zip(arms, evaluations, strict=True))
    pairs = [(a, b, compare(named[a], named[b], tag=tag, also=also)) for a, b in combinations(named, 2)]
    adjusted = holm([comparison.permutation_p for _, _, comparison in pairs])
    first = evaluations[0]
    return {
        "task_set": first.task_set,
        "split": first.split,
        "manifest": first.manifest,
        "tasks": len(first.select(tag)),
        "also": also,
        "tag": tag,
        "held_out_uses": max((e.held_out_uses for e in evaluations if e.held_out_uses is not None), default=None),
        "arms": {name: _arm(evaluation, tag, also, turns) for name, evaluation in named.items()},
        "pairs": [
            {
                "first": a,
                "second": b,
                "gain": asdict(comparison.difference),
                "better": comparison.better,
                "worse": comparison.worse,
                "same": comparison.same,
                "p": comparison.permutation_p,
                "p_holm": p,
                "significant": comparison.significant and p <= 1 - comparison.difference.level + 1e-12,
                "strata": [_stratum(named[a], named[b], each, also) for each in (tag, *_kinds(first, tag))],
                "changed": _changed(named[a], named[b], tag),
            }
            for (a, b, comparison), p in zip(pairs, adjusted, strict=True)
        ],
    }


def _kinds(evaluation: Evaluation, tag: str | None) -> list[str]:
    return [] if tag is not None else strata(evaluation, MAX_STRATA)[0]


def _stratum(a: Evaluation, b: Evaluation, tag: str | None, also: str | None) -> dict[str, Any]:
    """Return the gain on the tasks with a tag, or on all."""
    comparison = compare(a, b, tag=tag, also=also)
    return {
        "tag": tag,
        "first": asdict(a.success(tag, also=also)),
        "second": asdict(b.success(tag, also=also)),
        "gain": asdict(comparison.difference),
        "better": comparison.better,
        "worse": comparison.worse,
    }


def _changed(a: Evaluation, b: Evaluation, tag: str | None) -> list[dict[str, Any]]:
    """Return the tasks whose success differs, the largest difference first, with the episodes that show it best."""
    changed = []
    for first, second in zip(a.select(tag), b.select(tag), strict=True):
        if first.observed and second.observed:
            rates = [sum(row.observed) / len(row.observed) for row in (first, second)]
            if abs(rates[1] - rates[0]) > EQUAL:
                choose = (min, max) if rates[1] > rates[0] else (max, min)
                ids = [_episode(e, row, best) for e, row, best in zip((a, b), (first, second), choose, strict=True)]
                changed.append({"task": first.task, "first": rates[0], "second": rates[1], "episodes": ids})
    return sorted(changed, key=lambda each: -abs(each["second"] - each["first"]))


def _episode(evaluation: Evaluation, row: TaskOutcome, best: Callable[..., tuple[float, int]]) -> str:
    _, index = best((value, index) for index, value in enumerate(row.success) if value is not None)
    return f"{evaluation.run}/{row.task}#{index}"


def over_seeds(
    arms: Mapping[str, Sequence[Evaluation]], *, interims: int | None = None, resamples: int = 2000
) -> dict[str, Any]:
    """Compare agents that were trained with several seeds, one evaluation per seed, on the same tasks.

    Args:
        interims: how many batches of seeds were planned for AdaStop. Each agent's evaluations, in order, are split
            into equal batches, `interims` of them for the agent with the most seeds; others may have fewer so far.
    Returns: JSON-compatible: `arms` (seeds, iqm with its interval over seeds, the performance profile), `pairs`
        (probability that the second improves on the first, with its interval) and `adastop`, the decisions.
    Raises: EvaluationError for tasks that differ or seeds that do not make whole interims.
    """
    first = next(iter(arms.values()))[0]
    for other in (evaluation for evaluations in arms.values() for evaluation in evaluations):
        check_same_tasks(first, other)
    # a task without an observed episode in any one evaluation is omitted for all: the matrix has no holes
    everyone = [evaluation for evaluations in arms.values() for evaluation in evaluations]
    complete = [i for i in range(len(first.rows)) if all(evaluation.rows[i].observed for evaluation in everyone)]
    scores = {
        name: np.array([[np.mean(e.rows[i].observed) for i in complete] for e in evaluations])
        for name, evaluations in arms.items()
    }
    pairs = []
    for a, b in combinations(scores, 2):
        chance = stratified_bootstrap(probability_of_improvement, scores[b], scores[a], resamples=resamples)
        pairs.append({"first": a, "second": b, "probability": asdict(chance)})
    return {
        "task_set": first.task_set,
        "split": first.split,
        "manifest": first.manifest,
        "tasks": len(complete),
        "thresholds": THRESHOLDS,
        "arms": {
            name: {
                "seeds": len(matrix),
                "mean": float(matrix.mean()),
                "profile": performance_profile(matrix, THRESHOLDS).tolist(),
                "iqm": asdict(stratified_bootstrap(interquartile_mean, matrix, resamples=resamples)),
            }
            for name, matrix in scores.items()
        },
        "pairs": pairs,
        "adastop": [] if interims is None else _decisions(scores, interims),
    }


def _decisions(scores: Mapping[str, np.ndarray], interims: int) -> list[dict[str, Any]]:
    most_seeds = max(len(matrix) for matrix in scores.values())
    size = -(-most_seeds // interims)
    if size < 2 or any(len(matrix) % size for matrix in scores.values()):
        raise EvaluationError(
            f"{[len(matrix) for matrix in scores.values()]} seeds cannot be divided into whole interims of {size}. "
            f"With {interims} interims, AdaStop needs the same number of new seeds, at least 2, of each agent in each "
            "interim."
        )
    batches = {
        name: [matrix[start : start + size].mean(axis=1).tolist() for start in range(0, len(matrix), size)]
        for name, matrix in scores.items()
    }
    return [asdict(decision) for decision in adastop(batches, interims=interims)]


def _arm(evaluation: Evaluation, tag: str | None, also: str | None, turns: Sequence[int]) -> dict[str, Any]:
    return {
        "label": evaluation.label,
        "policy": evaluation.policy,
        "group_size": evaluation.group_size,
        "failed": evaluation.failed,
        "step": evaluation.step,
        "success": asdict(evaluation.success(tag, also=also)),
        "pass_at": _curve(evaluation.pass_curve(tag=tag, also=also)),
        "pass_hat": _curve(evaluation.pass_curve(tag=tag, also=also, all_of_them=True)),
        "within_turns": _curve(evaluation.within("turns", turns, tag)),
        "usage": evaluation.usage(),
        "duration_s": evaluation.duration_s,
        "mean_turns": evaluation.mean_turns(),
    }


def _curve(estimates: Mapping[Any, Estimate]) -> dict[str, dict[str, Any]]:
    return {f"{key:g}": asdict(estimate) for key, estimate in estimates.items()}
