"""The kinds of failures in an episode, per turn and at its end, for lists, evaluations and training.

For the meaning of the kinds, and how training handles them, see agentgym.evaluation.failures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from agentgym.messages import Call, Result, ResultStatus
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

Level = Literal["call", "turn", "end"]

LEVELS: dict[str, Level] = {
    "malformed": "call",
    "unknown_tool": "call",
    "wrong_arguments": "call",
    "tool_error": "call",
    "timeout": "call",
    "over_budget": "call",
    "repeated": "call",
    "cut": "turn",
    "filtered": "turn",
    "void": "turn",
    "wrong_answer": "end",
    "refused": "end",
    "no_answer": "end",
    "request_refused": "end",
    "failed": "end",
}
"""Every kind with the unit in which it is counted, in the order shown in tables."""

_CUT = {"length": "cut", "content_filter": "filtered"}
_DECLINES = re.compile(
    r"\b(?:i(?:'m| am)? (?:sorry|can(?:no|')t|(?:am |'m )?(?:unable|not able) to|won't|will not|refuse|must decline)"
    r"|i (?:do not|don't) (?:feel comfortable|think i (?:can|should))|as an ai\b)",
    re.IGNORECASE,
)


def turn_failures(turns: Sequence[Turn]) -> list[list[str]]:
    """Return the kinds of failures in each turn; a kind that occurred twice is listed twice."""
    last_answers: dict[str, tuple[object, ...]] = {}
    kinds_by_turn = []
    for turn in turns:
        kinds = [result.status.value for result in turn.results if not result.ok]
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.status not in (ResultStatus.OK, ResultStatus.TOOL_ERROR):
                continue  # a call that never ran has its own kind
            key, answer = _written(call), (result.content, result.status)
            kinds += ["repeated"] if last_answers.get(key) == answer else []
            last_answers[key] = answer
        if turn.finish_reason in _CUT:
            kinds.append(_CUT[turn.finish_reason])
        elif says_nothing(turn):
            kinds.append("void")
        kinds_by_turn.append(kinds)
    return kinds_by_turn


def says_nothing(turn: Turn) -> bool:
    """Return whether a turn has neither speech nor a call that could be run. A truncated message has no speech."""
    if not turn.void:
        return False
    return bool(turn.calls) or turn.finish_reason in _CUT or not turn.message.speaks


def count_failures(trajectory: Trajectory) -> Counter[str]:
    """Return counts per kind over one episode; a kind that did not occur is absent.

    A failed episode counts only as `failed`: earlier mistakes of the agent are ignored. A running episode has
    the counts of its turns so far.
    """
    stop = trajectory.stop_reason
    if stop is not None and stop.failed:
        return Counter({"failed": 1})
    counts = Counter(kind for kinds in turn_failures(trajectory.turns) for kind in kinds)
    if ending := _ending(trajectory):
        counts[ending] += 1
    if trajectory.provenance.extra.get("refused"):
        counts["request_refused"] += 1
    return counts


def calls_of(trajectory: Trajectory) -> tuple[int, int]:
    """Return how many calls an episode made, and how many of them returned without an error."""
    results: list[Result] = [result for turn in trajectory.turns for result in turn.results]
    return len(results), sum(result.ok for result in results)


def _ending(trajectory: Trajectory) -> str | None:
    """Return how an unsolved episode ended. A refusal is recognised by how a last turn without calls begins."""
    stop, success, last = trajectory.stop_reason, trajectory.success, trajectory.turns[-1] if trajectory.turns else None
    if stop is None or (success is not None and success >= 1.0):
        return None
    if stop.truncated:
        return "no_answer"
    if last is not None and not last.calls and _DECLINES.search(last.message.text[:200]):
        return "refused"
    return None if success is None else "wrong_answer"  # not judged, so it is unknown whether the answer is wrong


def _written(call: Call) -> str:
    arguments = call.arguments
    return f"{call.name} {arguments if len(arguments) < 2 else dict(sorted(arguments.items()))}"
