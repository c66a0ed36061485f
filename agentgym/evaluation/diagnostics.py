"""Metrics of a batch of episodes: results, speed, and the health metrics that the collapse guard reads."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import Group
from agentgym.credit.reward_parts import MOVED_BY, reward_shares
from agentgym.evaluation.cuts import cuts_of
from agentgym.messages import ResultStatus
from agentgym.reward import SUCCESS
from agentgym.rollout.engine import ReportingEngine
from agentgym.storage.failures import says_nothing, turn_failures
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


def wait_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return the fractions of wall time, in [0, 1], that the valid episodes of a batch spent waiting.

    Returns: `pace/policy_wait`, for the policy's messages; `pace/tools_wait`, for tools, including their sandboxes;
        `pace/other_wait`, for everything else, such as judges and resets, which start sandboxes. Concurrent
        tools of one turn count once. Empty if no time was recorded.
    """
    valid = [trajectory for trajectory in trajectories if trajectory.valid]
    turns = [turn for trajectory in valid for turn in trajectory.turns]
    duration_s = sum(trajectory.duration_s for trajectory in valid)
    if duration_s <= 0:
        return {}
    policy = min(1.0, sum(turn.generate_s for turn in turns) / duration_s)
    tools = min(1.0 - policy, sum(turn.tools_s for turn in turns) / duration_s)
    return {"pace/policy_wait": policy, "pace/tools_wait": tools, "pace/other_wait": 1.0 - policy - tools}


def engine_metrics(engine: Any) -> dict[str, float]:
    """Return an engine's reported metrics, such as `cluster/nodes` and `driver/busy`; empty if episodes are played in
    this process.
    """
    if not isinstance(engine, ReportingEngine):
        return {}
    reported = engine.report().items()
    return {name if "/" in name else f"cluster/{name}": float(value) for name, value in reported}


def process_cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children, over all threads."""
    return sum(os.times()[:4])


class Pace:
    """Measures rates and CPU time between consecutive batches. For the first batch there are none."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, processor: Callable[[], float] = process_cpu_s
    ) -> None:
        self._clock, self._processor = clock, processor
        self._last: tuple[float, float] | None = None

    def metrics(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Return the metrics since the previous batch.

        Returns: `pace/episodes_per_s` and `pace/tokens_per_s`, of valid episodes and the policy's own tokens;
            `pace/cpu_s`, the CPU seconds of this process, which other programs on the machine hardly affect; and the
            metrics of `wait_metrics`.
        """
        last = self._last
        now, cpu = self._last = self._clock(), self._processor()
        metrics = wait_metrics(trajectories)
        if last is not None and now > last[0]:
            valid = [trajectory for trajectory in trajectories if trajectory.valid]
            tokens = sum(len(turn.token_ids) for trajectory in valid for turn in trajectory.turns)
            elapsed_s = now - last[0]
            metrics |= {"pace/episodes_per_s": len(valid) / elapsed_s, "pace/tokens_per_s": tokens / elapsed_s}
            metrics["pace/cpu_s"] = cpu - last[1]
        return metrics


CUT = "cut/"
"""Prefix of metrics that count the episodes ended by a budget and the truncated messages."""


def summarise(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return means over the valid trajectories: of success and other components, turns, successful calls, and
    truncation.

    Metrics under `cut/` are counts: see agentgym.evaluation.cuts.
    """
    scored = [t for t in trajectories if t.scored]
    valid = [t for t in scored if t.valid]
    metrics = {"failed": float(len(trajectories) - len(scored))}
    metrics |= {f"{CUT}{name}": float(count) for name, count in cuts_of(scored).items()}
    successes = [t.success for t in scored if t.success is not None]
    if not valid:
        return metrics | ({"success": float(np.mean(successes))} if successes else {})
    results = [result for t in valid for turn in t.turns for result in turn.results]
    if successes:
        metrics["success"] = float(np.mean(successes))
    if results:
        metrics["calls_ok"] = float(np.mean([result.ok for result in results]))
    metrics["turns"] = float(np.mean([len(t.turns) for t in valid]))
    metrics["truncated"] = float(np.mean([t.stop_reason.truncated for t in valid if t.stop_reason]))
    metrics |= _by_source(valid)
    for name in sorted({name for t in valid for name in t.outcome} - {SUCCESS}):
        metrics[f"outcome/{name}"] = float(np.mean([t.outcome[name] for t in valid if name in t.outcome]))
    for name in sorted({name for t in valid for turn in t.turns for name in turn.rewards}):
        metrics[f"turn_reward/{name}"] = float(
            np.mean([sum(turn.rewards.get(name, 0.0) for turn in t.turns) for t in valid])
        )
    return metrics


def _by_source(valid: Sequence[Trajectory]) -> dict[str, float]:
    """Return success, return and number of episodes of each set of a mixture, such as `success/<set>`."""
    by_source: dict[str, list[Trajectory]] = {}
    for trajectory in valid:
        if (source := trajectory.task.source) is not None:
            by_source.setdefault(source, []).append(trajectory)
    metrics: dict[str, float] = {}
    for source, trajectories in by_source.items():
        if successes := [t.success for t in trajectories if t.success is not None]:
            metrics[f"success/{source}"] = float(np.mean(successes))
        metrics[f"return/{source}"] = float(np.mean([t.return_from() for t in trajectories]))
        metrics[f"episodes/{source}"] = float(len(trajectories))
    return metrics


def diagnose(
    trajectories: Sequence[Trajectory], credit: Sequence[NDArray[np.float64]], group_size: int
) -> dict[str, float]:
    """Return metrics by name under "guard/"; fractions are in [0, 1], and undefined metrics are left out.

    Args:
        trajectories: groups of `group_size`, one after another.
        credit: one array of advantages per trajectory.
    Returns:
        zero_gradient: fraction of groups in which no turn has an advantage, so that nothing is learnt.
        success_varies: fraction of groups in which some episodes are solved and others are not.
        zero_forecast: forecast for the next batch: the probability that all or none of a group's episodes succeed,
            E[(1-p)^N + p^N] over the posterior of each task's success rate p.
        no_tool: fraction of valid episodes without a call that ran. ended_on_tool: fraction of valid episodes that a
            budget ended while they still called tools.
        void: fraction of turns with neither text nor a runnable call. repeated: fraction of calls that repeat an
            earlier call.
        turn_tokens: mean length of a message, in tokens.
        diversity: mean fraction of word pairs that two episodes of a group do not share; 0 if all are equal.
    """
    groups = [
        range(start, min(start + group_size, len(trajectories))) for start in range(0, len(trajectories), group_size)
    ]
    valid = [t for t in trajectories if t.valid]
    if not valid:
        return {}
    turns = [turn for t in valid for turn in t.turns]
    kinds = [kind for t in valid for metrics in turn_failures(t.turns) for kind in metrics]
    calls = sum(len(turn.calls) for turn in turns)
    trained = [group for group in groups if any(trajectories[i].valid for i in group)]
    metrics = {
        "zero_gradient": float(np.mean([not any(np.any(credit[i]) for i in group) for group in trained])),
        "success_varies": _mean([_success_varies([trajectories[i] for i in group]) for group in trained]),
        "no_tool": float(np.mean([not any(_ran(turn) for turn in t.turns) for t in valid])),
        "ended_on_tool": float(np.mean([_ended_on_tool(t) for t in valid])),
        "void": float(np.mean([says_nothing(turn) for turn in turns])),
        "repeated": kinds.count("repeated") / calls if calls else 0.0,
        "turn_tokens": float(np.mean([len(turn.token_ids) for turn in turns])),
        "diversity": _mean(
            [_diversity([trajectories[i] for i in group if trajectories[i].valid]) for group in trained]
        ),
        "zero_forecast": _mean([_forecast([trajectories[i] for i in group]) for group in trained]),
    }
    return {f"guard/{name}": value for name, value in metrics.items() if math.isfinite(value)}


def zero_gradient_forecast(successes: int, episodes: int, size: int) -> float:
    """Return the probability that `size` more episodes of a task all succeed or all fail, given its results so far.

    For a known success rate p this is (1 - p)^N + p^N. The result is its expectation over the posterior of p from
    Jeffreys' prior, Beta(s + 1/2, n - s + 1/2). DAPO (arXiv:2503.14476, section 3.2) filters such groups out because
    they give no gradient.
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


def _success_varies(group: Sequence[Trajectory]) -> float:
    """Return 1 if the judged episodes of a group differ in success, else 0; NaN if none was judged."""
    judged = {t.success for t in group if t.valid and t.success is not None}
    return float(len(judged) > 1) if judged else math.nan


def _ran(turn: Turn) -> bool:
    return any(result.status in (ResultStatus.OK, ResultStatus.TOOL_ERROR) for result in turn.results)


def _ended_on_tool(trajectory: Trajectory) -> bool:
    stop = trajectory.stop_reason
    return stop is not None and stop.truncated and not trajectory.turns[-1].void


def _diversity(group: Sequence[Trajectory]) -> float:
    """Return the mean Jaccard distance of word pairs between two episodes; NaN for fewer than two episodes."""
    pairs = [_word_pairs(t) for t in group]
    return _mean([1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in combinations(pairs, 2)])


def _word_pairs(trajectory: Trajectory) -> set[tuple[str, str]]:
    words: list[str] = []
    for turn in trajectory.turns:
        words += turn.message.text.split()
        for call in turn.calls:
            words += [call.name, *json.dumps(call.arguments, sort_keys=True, default=str).split()]
    return set(pairwise(words)) or {(word, "") for word in words}


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan


def credit_metrics(
    trajectories: Sequence[Trajectory], credit: Sequence[np.ndarray], signals: Mapping[str, Any]
) -> dict[str, float]:
    """Return the share of turns whose advantage is exactly 0, and the standard deviation of the advantages.

    Args:
        signals: the signals of the trained policy's pass over the batch; with `log_ratios`, the effective sample size
            of the turns is returned too.
    """
    advantages = np.concatenate([a for t, a in zip(trajectories, credit, strict=True) if t.valid] or [np.zeros(1)])
    metrics = {"credit/zero_fraction": float(np.mean(advantages == 0.0)), "credit/std": float(np.std(advantages))}
    turns = [turn for trajectory in signals.get("log_ratios", ()) for turn in trajectory if len(turn)]
    if turns:
        share = effective_share(np.array([float(np.mean(turn)) for turn in turns]))
        metrics["off_policy/effective_sample_size"] = share
    return metrics


def movers(
    groups: Sequence[Group],
    estimate: Callable[[Group], list[NDArray[np.float64]]],
    advantages: Sequence[NDArray[np.float64]],
) -> dict[str, float]:
    """Return the shares of the advantages that the components of the reward cause; see `reward_shares`."""
    return {f"{MOVED_BY}{name}": share for name, share in reward_shares(groups, estimate, advantages).items()}


def age_metrics(trajectories: Sequence[Trajectory], *, version: int, bound: int) -> dict[str, float]:
    """Return how old the tokens of a batch are, in optimiser steps, and the fraction of turns that are too old.

    A turn is as old as its first token, which the oldest weights sampled. After a resume, an episode may come from
    newer weights that were lost with the process; its age is 0.

    Args:
        version: the version of the trained weights. `bound`: turns older than this are masked.
    Returns: `async/age_mean` and `async/age_max` over the agent's own tokens; `async/masked`, the fraction of masked
        turns.
    """
    turns = [turn for trajectory in trajectories if trajectory.valid for turn in trajectory.turns]
    if not turns:
        return {}
    versions = np.concatenate([turn.token_versions() for turn in turns])
    ages = np.maximum(version - versions, 0)
    metrics = {"async/masked": float(np.mean([version - turn.policy_version > bound for turn in turns]))}
    if len(ages):
        metrics |= {"async/age_mean": float(ages.mean()), "async/age_max": float(ages.max())}
    return metrics


def effective_share(log_weights: np.ndarray) -> float:
    """Return (sum w)^2 / (n sum w^2), between 1/n and 1: the effective sample size as a fraction of n samples.

    Source: Kong 1992, A note on importance sampling using standardized weights.
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
