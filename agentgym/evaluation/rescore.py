"""Saved episodes judged again by another reward, without playing them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentgym.errors import EvaluationError, RewardError
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.runner import row_of
from agentgym.messages import StopReason
from agentgym.reward import Reward, validate_components, validate_spans
from agentgym.rollout.attempts import Attempts, AttemptsJudge, ends_attempt
from agentgym.storage.ledger import Ledger
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Rescored:
    """An evaluation as it was judged, and as another reward judges it.

    Attributes:
        changed: ids of the episodes whose success differs, with both verdicts; None where one did not judge.
    """

    before: Evaluation
    after: Evaluation
    changed: Sequence[tuple[str, float | None, float | None]]


async def rescore(
    trajectories: Iterable[Trajectory],
    reward: Reward,
    *,
    concurrency: int = 16,
    time_s: float = 600.0,
    on_episode: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Copies of the episodes with the rewards that `reward` gives; the originals are not touched.

    Turns are judged one after another as the episode had come to them, then its outcome; by a reward that has more to
    say, its turns in `hindsight` and the episodes of one task as a `group`. Episodes that failed stay as they are. What
    the judge cannot judge, or not in `time_s` seconds, becomes failed: counted, and no zero.
    Args:
        seen: called with each as it is judged.
    Raises: RewardError for a reward that returns no reward.
    """
    slots = asyncio.Semaphore(concurrency)

    async def judge_one(trajectory: Trajectory) -> Trajectory:
        async with slots:
            rescored = await _judge(trajectory, reward, time_s)
        if on_episode is not None:
            on_episode(rescored)
        return rescored

    rescored = await asyncio.gather(*map(judge_one, trajectories))
    if (judge_group := getattr(reward, "group", None)) is not None:
        by_task: dict[str, list[Trajectory]] = {}
        for trajectory in rescored:
            if trajectory.valid:
                by_task.setdefault(trajectory.task.id, []).append(trajectory)
        for group in by_task.values():
            await _judge_group(group, judge_group, reward, time_s)
    return rescored


async def rescore_evaluation(
    before: Evaluation,
    ledger: Ledger,
    reward: Reward,
    *,
    label: str,
    on_episode: Callable[[Trajectory], None] | None = None,
) -> Rescored:
    """Judge the episodes of a recorded evaluation again.

    Args:
        ledger: holds its episodes. label: of the new record.
    Raises: EvaluationError where the ledger lacks an episode or the reward gives no `success`.
    """
    ids = [[f"{before.run}/{row.task}#{i}" for i in range(len(row.success))] for row in before.rows]
    finished = ledger.finished(before.run)
    if missing := [name for group in ids for name in group if name not in finished]:
        raise EvaluationError(
            f"The ledger lacks {len(missing)} episodes of {before.label!r}, for example {missing[0]!r}: only what was "
            "kept can be judged again."
        )
    rescored = await rescore((ledger.load(name) for group in ids for name in group), reward, on_episode=on_episode)
    rows, start = [], 0
    for group in ids:
        rows.append(row_of(rescored[start : start + len(group)]))
        start += len(group)
    after = replace(before, label=label, rows=rows)
    verdicts = zip(
        (name for group in ids for name in group),
        (value for row in before.rows for value in row.success),
        (value for row in rows for value in row.success),
        strict=True,
    )
    return Rescored(before, after, [(name, old, new) for name, old, new in verdicts if old != new])


async def _judge(trajectory: Trajectory, reward: Reward, time_s: float) -> Trajectory:
    copy = replace(trajectory, turns=[], outcome={}, weights=dict(reward.weights), stop_reason=None)
    view: Any = copy  # the protocol that rewards see has the attributes of a record, but not to be written to
    if not trajectory.valid:
        return replace(trajectory, outcome={})
    try:
        async with asyncio.timeout(time_s):
            if trajectory.provenance.attempts:
                return await _judge_attempts(trajectory, copy, reward, time_s)
            for turn in trajectory.turns:
                copy.turns.append(replace(turn, rewards={}, spans=()))
                copy.turns[-1].rewards = dict(await validate_components(reward.turn(view.turns[-1], view), reward))
            copy.stop_reason = trajectory.stop_reason
            copy.outcome = dict(await validate_components(reward.outcome(view), reward))
            if (hindsight := getattr(reward, "hindsight", None)) is not None:
                for turn, more in zip(copy.turns, await _each(hindsight(view), reward, len(copy.turns)), strict=True):
                    turn.rewards |= more
            if (name_spans := getattr(reward, "spans", None)) is not None:
                spans_by_turn = await validate_spans(name_spans(view), reward, copy.turns)
                for turn, spans in zip(copy.turns, spans_by_turn, strict=True):
                    turn.spans = tuple(spans)
            copy.weights = _weights(reward, view)
    except RewardError:
        raise
    except Exception as error:  # noqa: BLE001  a judge that cannot judge is infrastructure, whatever it raises
        copy.stop_reason, copy.error = StopReason.INFRA_ERROR, f"{type(error).__name__}: {error} (judging again)"
    return copy


async def _judge_attempts(trajectory: Trajectory, copy: Trajectory, reward: Reward, time_s: float) -> Trajectory:
    """Judge an episode of several attempts as it was judged when it was played; the record says where each ended."""
    attempts = replace(Attempts(**trajectory.provenance.attempts), feedback="none")
    judge = AttemptsJudge(attempts, reward, time_s, lambda error: False)
    for turn in trajectory.turns:
        copy.turns.append(replace(turn, rewards={}, spans=()))
        await judge.judge_turn(copy.turns[-1], copy)
        if ends_attempt(attempts, turn):
            await judge.end_attempt(copy, StopReason.ANSWERED)
    copy.stop_reason = trajectory.stop_reason
    await judge.judge_end(copy)
    return copy


async def _judge_group(group: list[Trajectory], ask: Callable[[Any], Any], reward: Reward, time_s: float) -> None:
    """Add what a reward says of the episodes of one task beside each other; if it cannot, all of them are failed."""
    try:
        async with asyncio.timeout(time_s):
            for trajectory, more in zip(group, await _each(ask(group), reward, len(group)), strict=True):
                trajectory.outcome |= more
                trajectory.weights = _weights(reward, trajectory)
    except RewardError:
        raise
    except Exception as error:  # noqa: BLE001  as in _judge
        for trajectory in group:
            trajectory.stop_reason, trajectory.outcome = StopReason.INFRA_ERROR, {}
            trajectory.error = f"{type(error).__name__}: {error} (judging the group again)"


async def _each(answer: Any, reward: Reward, count: int) -> list[dict[str, float]]:
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, (list, tuple)) or len(answer) != count:
        raise RewardError(f"{type(reward).__name__} returned {answer!r:.200}: expected a dict for each of {count}.")
    return [dict(await validate_components(components, reward)) for components in answer]


def _weights(reward: Reward, episode: Any) -> dict[str, float]:
    chosen = getattr(reward, "weights_for", None)
    of_attempts = Attempts(**recorded).weights if (recorded := episode.provenance.attempts) else {}
    return {**of_attempts, **(reward.weights if chosen is None else chosen(episode))}
