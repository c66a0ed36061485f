"""Reads the final answer or submission of an episode, for all rewards."""

from __future__ import annotations

import json
import sys
from typing import Any

from agentgym import Call, JudgeError, Result, StopReason, Trajectory
from agentgym.reward import SUCCESS, read_submission


def final_call(episode: Trajectory) -> tuple[Call, Result] | None:
    """Return the first final call that succeeded, with its result; None without one. Later final calls do not count."""
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok:
                return call, result
    return None


RECORD = "Record: "
MAX_FLOAT = sys.float_info.max


def final_record(episode: Trajectory, required: str) -> dict[str, Any] | None:
    """Return the record that an environment writes as JSON after `Record: ` at the end of an episode.

    The record is in the result of the final call, or in the reply that ended the episode.

    Args:
        episode: the finished episode.
        required: a key that the record must have.
    Returns: the record; None if it is missing or unreadable.
    """
    final = final_call(episode)
    if final is not None:
        text = str(final[1].content)
    elif episode.stop_reason is StopReason.ENVIRONMENT and episode.turns and episode.turns[-1].replies:
        text = episode.turns[-1].replies[-1].text
    else:
        return None
    _, mark, line = text.rpartition(RECORD)
    if not mark:
        return None
    return read_submission(lambda: _record(json.loads(line), required))


def _record(data: dict[str, Any], required: str) -> dict[str, Any]:
    return {required: data[required], **data}


def counts_of(record: dict[str, Any], *others: str) -> dict[str, float]:
    """Return the finite numbers of a record by name, without `success` and the names in `others`."""
    numbers = {name: value for name, value in record.items() if isinstance(value, int | float)}
    left_out = {*others, SUCCESS}
    return {name: float(value) for name, value in numbers.items() if name not in left_out and abs(value) <= MAX_FLOAT}


def last_words(episode: Trajectory) -> str | None:
    """Return the text of the last message, if it has no calls and ended the episode."""
    if episode.turns and episode.stop_reason is StopReason.ANSWERED and not episode.turns[-1].calls:
        text: str = episode.turns[-1].message.text
        return text
    return None


def final_answer(episode: Trajectory, argument: str = "text") -> str | None:
    """Return the text of the agent's answer; None if it never answered.

    This is the argument of the first final call that succeeded. If there are several answers, the first counts; refused
    ones do not. Without such a call it is the text of the last message, if that has no calls and ended the episode.
    """
    if (final := final_call(episode)) is None:
        return last_words(episode)
    value = final[0].arguments.get(argument)
    return None if value is None else str(value)


def submitted_text(episode: Trajectory, argument: str) -> str | None:
    """Return a text argument of the final call; None without such a call, or if the argument is not text."""
    final = final_call(episode)
    text = final[0].arguments.get(argument) if final is not None else None
    return text if isinstance(text, str) else None


def gold_answers(episode: Trajectory, judge: str) -> list[str]:
    """Return every right answer: `truth["answer"]`, which may be a list, and `truth["answers"]`.

    Args:
        judge: registered name of the calling reward, for the error.
    Raises: JudgeError if the task has neither.
    """
    truth = episode.task.truth
    answers: list[str] = []
    if isinstance(truth, dict):
        for key in ("answer", "answers"):
            value = truth.get(key)
            answers += [
                str(item) for item in (value if isinstance(value, (list, tuple)) else [value]) if item is not None
            ]
    if not answers:
        raise JudgeError(f"{episode.task.id} has no truth['answer'], which {judge} compares with. Give the task one.")
    return answers
