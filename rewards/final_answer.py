"""What the agent answered or handed in at the end: the one place where every judge looks."""

from __future__ import annotations

from agentgym import Call, JudgeError, Result, StopReason
from agentgym.reward import EpisodeView


def final_call(episode: EpisodeView) -> tuple[Call, Result] | None:
    """The first final call that succeeded and its result, None if there is none: a later one changes nothing."""
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok:
                return call, result
    return None


def last_words(episode: EpisodeView) -> str | None:
    """The text of a last message without calls, if that ended the episode."""
    if episode.turns and episode.stop_reason is StopReason.ANSWERED and not episode.turns[-1].calls:
        text: str = episode.turns[-1].message.text
        return text
    return None


def final_answer(episode: EpisodeView, argument: str = "text") -> str | None:
    """The text of the agent's answer, None if it never answered.

    It is the argument of the first final call that succeeded; where there is none, the text of a last message
    without calls, if that ended the episode. So of several answers the first counts, and a refused one does not.
    """
    if (found := final_call(episode)) is None:
        return last_words(episode)
    value = found[0].arguments.get(argument)
    return None if value is None else str(value)


def submitted_text(episode: EpisodeView, argument: str) -> str | None:
    """A text argument of the final call, None if that is no text or there was no such call."""
    found = final_call(episode)
    text = found[0].arguments.get(argument) if found is not None else None
    return text if isinstance(text, str) else None


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
