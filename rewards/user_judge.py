"""`user_judge`: a chat model judges the episode's simulated user, separately from the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import Policy, Reward, Trajectory
from agentgym.reward import Components

from .chat_judge import ChatJudge

FAITHFUL = (
    "CONVERSATION is between a USER and an AGENT. The USER was told GOAL, and nothing else. Did the USER stay with it: "
    "did it ask for what GOAL says, invent nothing that contradicts it, and end the conversation only when that was "
    "done or refused? Wrong digits that it corrects, and typing errors, are no fault. Judge the USER alone. Say YES or "
    "NO."
)


class UserJudge(Reward):
    """Outcome component `user_faithful`: 1.0 if the episode's user followed its goal, else 0.0. Weight 0.

    If the conversation prevents a verdict, nothing is known about the user, and the component is missing.

    An agent is not to blame for a user that forgot its goal: look at the success of episodes with a value of 1.0. The
    goal is `parameters["customer"]["wants"]`, as in `agentgym/service-v1`, or else the task's own messages.

    Args:
        judge: a Policy, the name and options of one, or a ChatJudge. options: see ChatJudge.
    """

    weights: Mapping[str, float] = {"user_faithful": 0.0}

    def __init__(self, judge: Policy | Mapping[str, Any] | ChatJudge | None = None, **options: Any) -> None:
        self.judge = judge if isinstance(judge, ChatJudge) else ChatJudge(judge, **options)

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError without a judge, or if it gives no verdict."""
        texts = {"GOAL": _goal_of(episode), "CONVERSATION": _conversation_of(episode)}
        verdict = await self.judge.verdict(FAITHFUL, texts, written=("CONVERSATION",))
        return {"user_faithful": float(verdict == "YES")} if verdict else {}


def _goal_of(episode: Trajectory) -> str:
    customer = episode.task.parameters.get("customer")
    if isinstance(customer, Mapping) and "wants" in customer:
        return str(customer["wants"])
    return "\n".join(message.text for message in episode.task.opening())


def _conversation_of(episode: Trajectory) -> str:
    """Return what user and agent said to each other, without calls and results."""
    lines = [f"USER: {message.text}" for message in episode.opening if message.role == "user"]
    for turn in episode.turns:
        if turn.calls:
            continue
        lines.append(f"AGENT: {turn.message.text}")
        lines += [f"USER: {reply.text.partition('Record: ')[0].strip()}" for reply in turn.replies]
    return "\n".join(lines)
