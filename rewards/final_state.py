"""`final_state`: replays the episode's calls in a fresh environment and asks it for the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import Environment, JudgeError, ResultStatus, Reward, Trajectory
from agentgym.reward import Components

from .judge_environment import judge_environment

_NEVER_RUN = (
    ResultStatus.OVER_BUDGET,
    ResultStatus.BY_PROGRAM,
    ResultStatus.MALFORMED,
    ResultStatus.UNKNOWN_TOOL,  # a team's role may lack some tools
)


class FinalState(Reward):
    """For deterministic in-memory environments with the method `verdict() -> dict[str, float]` (named components).

    Only what the calls change in a fresh environment counts. If a result differs from the recorded one, the record
    cannot be trusted, and JudgeError is raised.
    """

    weights: Mapping[str, float] = {"progress": 0.0, "return": 0.0}

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the environment cannot be made or has no `verdict`, or if a replayed result differs.
        """
        task = episode.task.public()
        async with judge_environment(task, "verdict", "final_state") as environment:
            await environment.reset(task, seed=getattr(episode, "seed", 0))
            for turn in episode.turns:
                await _replay(environment, turn, task.id)
            components: Components = environment.verdict()
            return components


async def _replay(environment: Environment, turn: Any, task: str) -> None:
    """Replay one recorded turn. Raises: JudgeError if a result differs from the record."""
    if not turn.calls and turn.message.speaks:
        await environment.respond(turn.message.spoken())
    for call, result in zip(turn.calls, turn.results, strict=False):
        if result.status in _NEVER_RUN:
            continue
        answer = await environment.call(call)
        if (answer.status, answer.content) != (result.status, result.content):
            raise JudgeError(
                f"{task}: in a replay, {call.name!r} of turn {turn.index} returns {str(answer.content)[:80]!r}, but "
                f"the record has {str(result.content)[:80]!r}. Either the environment is not deterministic, or the "
                "record was changed."
            )
