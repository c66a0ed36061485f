"""What the agent answered in the end: the one place where every judge of answers looks."""

from __future__ import annotations

from agentgym import JudgeError
from agentgym.messages import StopReason
from agentgym.reward import EpisodeView


def final_answer(episode: EpisodeView, argument: str = "text") -> str | None:
    """The text of the agent's answer, None if it never answered.

    It is the argument of the first final call that succeeded; where there is none, the text of a last message
    without calls, if that ended the episode. So of several answers the first counts, and a refused one does not.
    """
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok:
                value = call.arguments.get(argument)
                return None if value is None else str(value)
    if episode.turns and episode.stop_reason is StopReason.ANSWERED and not episode.turns[-1].calls:
        text: str = episode.turns[-1].message.text
        return text
    return None


def gold_answers(episode: EpisodeView, judge: str) -> list[str]:
    """Every text that is right: `truth["answer"]`, which may be a list, and `truth["answers"]`.

    Args:
        judge: registered name of the reward that asks, for the error.
    Raises: JudgeError if the task has neither.
    """
    truth = episode.task.truth
    found: list[str] = []
    if isinstance(truth, dict):
        for key in ("answer", "answers"):
            value = truth.get(key)
            found += [str(one) for one in (value if isinstance(value, (list, tuple)) else [value]) if one is not None]
    if not found:
        raise JudgeError(f"{episode.task.id} has no truth['answer'], so no answer can be judged by {judge}.")
    return found
