"""`critic`: a chat model's remarks on an episode, as feedback for retries and refinements. Adds no reward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import Policy, Reward, Trajectory

from .chat_judge import ChatJudge

CRITIQUE = (
    "An agent was given QUESTION and did what EPISODE shows; JUDGED is what it earned. Say in at most five sentences "
    "what went wrong and why, what an error message or a failed test means, and what to do instead. Do not write the "
    "answer itself."
)


class CritiqueByModel(Reward):
    """Gives a chat model's feedback on an episode. The model sees the episode and its rewards, but not the truth.

    Use it together with the reward that judges: `[reward] also = ["critic"]`. `Attempts(feedback="text")` then gives
    the feedback to the next attempt, and the gatherer `refined` to the refinement of a failed episode. A model can be
    misled. Its answers vary, so an episode of several attempts with such feedback cannot be replayed.
    Source: guidance from failures, Agent-RLVR, Da et al. 2025, arXiv:2506.11425; the prompt is ours.

    Args:
        judge: a Policy, the name and options of one, or a ChatJudge. options: see ChatJudge.
    """

    def __init__(self, judge: Policy | Mapping[str, Any] | ChatJudge | None = None, **options: Any) -> None:
        self.judge = judge if isinstance(judge, ChatJudge) else ChatJudge(judge, **options)

    async def feedback(self, episode: Trajectory) -> str:
        """Return feedback on an attempt's faults. Raises: JudgeError if the model cannot be asked."""
        opening = len(episode.opening)
        lines = [f"{message.role}: {_line(message)}" for message in episode.messages()[opening:]]
        judged = ", ".join(f"{name} {value:g}" for name, value in episode.outcome.items())
        question = "\n".join(message.text for message in episode.opening)
        texts = {"QUESTION": question, "EPISODE": "\n".join(lines), "JUDGED": judged}
        return (await self.judge.text(CRITIQUE, texts, written=("EPISODE",))).strip()


def _line(message: Any) -> str:
    """Return the text of a message with its calls."""
    return "\n".join([message.text, *(f"{call.name}({dict(call.arguments)})" for call in message.calls)]).strip()
