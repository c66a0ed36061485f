"""Asks rewards: after a turn, at the end of an episode, and once a group is complete; again where that may help."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from agentgym.errors import JudgeError, RewardError
from agentgym.messages import StopReason
from agentgym.reward import Reward, validate_components, validate_each
from agentgym.trajectory import Trajectory

V = TypeVar("V")
PENDING = "group_pending"
"""Key of a trajectory's provenance: its own episode is judged, its group is not yet."""


async def verdict(
    reward: Reward,
    ask: Callable[..., Any],
    *views: Any,
    check: Callable[[Any, Reward], Awaitable[V]],
    time_s: float,
    again: Callable[[Exception], bool],
) -> V:
    """What a reward says, checked; asked again as long as `again` allows it after a failure.

    Args:
        time_s: a judge has the time of an episode.
        again: told what failed; says whether to try once more. One that returns no reward is not asked twice.
    Raises: RewardError, JudgeError, or whatever else the judge raises.
    """
    while True:
        limit: asyncio.Timeout | None = None
        try:
            answer = ask(*views)
            if isinstance(answer, dict):  # nothing to wait for
                return await check(answer, reward)
            async with asyncio.timeout(time_s) as limit:
                return await check(answer, reward)
        except RewardError:
            raise
        except Exception as error:
            late = limit is not None and limit.expired()
            told = JudgeError(f"{type(reward).__name__} gave no verdict in {time_s:g} s") if late else error
            if again(told):
                continue
            if late:
                raise told from error
            raise


async def judge_end(reward: Reward, trajectory: Trajectory, **patience: Any) -> bool:
    """Judge an episode that has ended: its outcome, its turns in hindsight, and the weights that count for it.

    Args:
        patience: `time_s` and `again`, as for `verdict`.
    Returns: whether turns were given rewards that they had not before.
    """
    outcome = await verdict(reward, reward.outcome, trajectory, check=validate_components, **patience)
    trajectory.outcome = dict(outcome)
    late = reward.has_stage("hindsight")
    if late:
        check = partial(validate_each, count=len(trajectory.turns))
        seen = await verdict(reward, reward.hindsight, trajectory, check=check, **patience)
        for turn, components in zip(trajectory.turns, seen, strict=True):
            turn.rewards = _with(turn.rewards, components, reward)
    trajectory.weights = dict(reward.weights_for(trajectory))
    return late


async def judge_group(reward: Reward, group: Sequence[Trajectory], *, time_s: float, retries: int) -> None:
    """Let a reward see the episodes of a complete group beside each other, and add what it says to their outcomes.

    Only valid episodes are seen. If the judge cannot judge, all of them are marked failed, as none can be compared.
    """
    for trajectory in group:
        trajectory.provenance.pop(PENDING, None)
    seen = [trajectory for trajectory in group if trajectory.valid]
    if not seen:
        return
    left = retries

    def again(error: Exception) -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    check = partial(validate_each, count=len(seen))
    try:
        answers = await verdict(reward, reward.group, seen, check=check, time_s=time_s, again=again)
        outcomes = [_with(one.outcome, said, reward) for one, said in zip(seen, answers, strict=True)]
        for trajectory, outcome in zip(seen, outcomes, strict=True):
            trajectory.outcome = outcome
            trajectory.weights = dict(reward.weights_for(trajectory))
    except Exception as error:  # noqa: BLE001  a judge may raise anything; none of it is the agent's fault
        for trajectory in seen:
            trajectory.stop_reason, trajectory.outcome = StopReason.INFRA_ERROR, {}
            trajectory.error = f"{type(error).__name__}: {str(error)[:2000]} (while judging the group)"


def _with(before: dict[str, float], more: dict[str, float], reward: Reward) -> dict[str, float]:
    if shared := before.keys() & more.keys():
        raise RewardError(f"{type(reward).__name__} gives the component {sorted(shared)} a second time: rename one.")
    return before | more
