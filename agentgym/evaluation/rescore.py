"""Judge saved episodes again with another reward, without playing them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agentgym.errors import EvaluationError, RewardError
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.runner import row_of
from agentgym.messages import StopReason
from agentgym.reward import validate_each
from agentgym.reward.contract import Reward
from agentgym.rollout.hooks import added_weights, recorded_hooks
from agentgym.rollout.judging import Judge
from agentgym.storage.ledger import Ledger
from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class Rescored:
    """An evaluation as it was first judged, and as another reward judges it.

    Attributes:
        changed: ids of the episodes whose success differs, with both verdicts; None for a missing verdict.
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
    """Return copies of the episodes, judged by `reward`; the originals stay unchanged.

    Turns are judged in order, each with the episode up to that turn; then the outcome is judged. A reward may also
    judge turns in `hindsight` and the episodes of one task as a `group`. Failed episodes stay as they are. An episode
    that cannot be judged within `time_s` seconds is marked failed; it does not get a reward of 0.
    Args:
        on_episode: called with each episode when it is judged.
    Raises: RewardError for a reward with an invalid return value.
    """
    slots = asyncio.Semaphore(concurrency)

    async def judge_one(trajectory: Trajectory) -> Trajectory:
        async with slots:
            rescored = await _judge(trajectory, reward, time_s)
        if on_episode is not None:
            on_episode(rescored)
        return rescored

    rescored = await asyncio.gather(*map(judge_one, trajectories))
    if reward.has_stage("group"):
        by_task: dict[str, list[Trajectory]] = {}
        for trajectory in rescored:
            if trajectory.valid:
                by_task.setdefault(trajectory.task.id, []).append(trajectory)
        for group in by_task.values():
            await _judge_group(group, reward, time_s)
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
        ledger: the ledger with its episodes. label: the label of the new record.
    Raises: EvaluationError if the ledger lacks an episode or the reward gives no `success`.
    """
    ids = [[f"{before.run}/{row.task}#{i}" for i in range(len(row.success))] for row in before.rows]
    finished = ledger.finished(before.run)
    if missing := [name for group in ids for name in group if name not in finished]:
        raise EvaluationError(
            f"The evaluation {before.label!r} cannot be judged again: {len(missing)} of its episodes are not in the "
            f"ledger, for example {missing[0]!r}."
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
    """Judge an episode with the hooks that judged it when it was played, such as the hook for several attempts."""
    if not trajectory.valid:
        return replace(trajectory, outcome={})
    copy = replace(trajectory, turns=[], outcome={}, weights=dict(reward.weights), stop_reason=None)
    hooks = recorded_hooks(trajectory.provenance)
    judge = Judge(reward, time_s, lambda error: False, added_weights(hooks))
    for hook in hooks:
        judge = hook.for_episode().wrap_judge(judge)
    try:
        async with asyncio.timeout(time_s):
            for turn in trajectory.turns:
                copy.turns.append(replace(turn, rewards={}, spans=()))
                await judge.judge_recorded_turn(turn, copy)
            copy.stop_reason = trajectory.stop_reason
            await judge.judge_end(copy)
    except RewardError:
        raise
    except Exception as error:  # noqa: BLE001  any error of a judge counts as an infrastructure failure
        copy.stop_reason, copy.error = StopReason.INFRA_ERROR, f"{type(error).__name__}: {error} (judging again)"
    return copy


async def _judge_group(group: list[Trajectory], reward: Reward, time_s: float) -> None:
    """Add a reward's joint judgement of one task's episodes; if the reward cannot judge, mark all as failed."""
    try:
        async with asyncio.timeout(time_s):
            answers = await validate_each(reward.group(group), reward, count=len(group))
        for trajectory, components in zip(group, answers, strict=True):
            trajectory.outcome |= components
            added = added_weights(recorded_hooks(trajectory.provenance))
            trajectory.weights = {**added, **reward.weights_for(trajectory)}
    except RewardError:
        raise
    except Exception as error:  # noqa: BLE001  as in _judge
        for trajectory in group:
            trajectory.stop_reason, trajectory.outcome = StopReason.INFRA_ERROR, {}
            trajectory.error = f"{type(error).__name__}: {error} (judging the group again)"
