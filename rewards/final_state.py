"""`final_state`: plays the episode's calls again in a fresh world, and asks that world what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import Environment, JudgeError, ResultStatus, Reward
from agentgym.reward import Components, EpisodeView

from .judge_world import judge_world


class FinalState(Reward):
    """For deterministic worlds in memory whose class has `verdict() -> dict[str, float]`, named components.

    Nothing that the agent says counts, only what its calls do to a world that it never touched. A result that
    differs from the recorded one means that the record cannot be trusted: no verdict is given.
    """

    weights: Mapping[str, float] = {"progress": 0.0, "return": 0.0}

    async def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if there is no such world, it has no `verdict`, or it answers otherwise than recorded."""
        task = episode.task.public()
        async with judge_world(task, "verdict", "final_state") as world:
            await world.reset(task, seed=getattr(episode, "seed", 0))
            for turn in episode.turns:
                await _again(world, turn, task.id)
            components: Components = world.verdict()
            return components


async def _again(world: Environment, turn: Any, task: str) -> None:
    """One recorded turn: its calls in order, or its words. Raises: JudgeError where the world answers otherwise."""
    if not turn.calls and turn.message.content:
        await world.respond(turn.message)
    for call, result in zip(turn.calls, turn.results, strict=False):
        if result.status is ResultStatus.OVER_BUDGET:
            continue  # it was never run
        answer = await world.call(call)
        if (answer.status, answer.content) != (result.status, result.content):
            raise JudgeError(
                f"{task}: played again, {call.name!r} of turn {turn.index} gives {str(answer.content)[:80]!r}; the "
                f"record says {str(result.content)[:80]!r}. The world is not deterministic, or the record was changed."
            )
