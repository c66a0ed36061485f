"""What went wrong in an episode, by kind: in each turn, and at its end. Lists, evaluations and training all ask here.

What the kinds mean to people, and what training does about them: agentgym.evaluation.failures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from agentgym.messages import Call, Result, ResultStatus
from agentgym.trajectory import Trajectory, Turn

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
    "failed": "end",
}
"""Every kind with what it is counted per, in the order that tables show."""

_CUT = {"length": "cut", "content_filter": "filtered"}
_DECLINES = re.compile(
    r"\b(?:i(?:'m| am)? (?:sorry|can(?:no|')t|(?:am |'m )?(?:unable|not able) to|won't|will not|refuse|must decline)"
    r"|i (?:do not|don't) (?:feel comfortable|think i (?:can|should))|as an ai\b)",
    re.IGNORECASE,
)


def turn_failures(turns: Sequence[Turn]) -> list[list[str]]:
    """Of each turn, the kinds that occurred in it; one that occurred twice stands there twice."""
    last_answers: dict[str, tuple[object, ...]] = {}
    kinds_by_turn = []
    for turn in turns:
        kinds = [result.status.value for result in turn.results if not result.ok]
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.status not in (ResultStatus.OK, ResultStatus.TOOL_ERROR):
                continue  # what never ran is told by its own kind
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
    """Return whether a turn neither speaks nor holds a call that could be run. What was cut off does not speak."""
    speaks = not turn.calls and turn.message.speaks and turn.finish_reason not in _CUT
    return turn.void and not speaks


def count_failures(trajectory: Trajectory) -> Counter[str]:
    """Return counts by kind over one episode; a kind that did not occur is absent.

    An episode that failed counts as that alone: what happened before the machine broke is not held against the agent.
    One that is still running has only what its turns had so far.
    """
    stop = trajectory.stop_reason
    if stop is not None and stop.failed:
        return Counter({"failed": 1})
    counts = Counter(kind for kinds in turn_failures(trajectory.turns) for kind in kinds)
    if ending := _ending(trajectory):
        counts[ending] += 1
    return counts


def calls_of(trajectory: Trajectory) -> tuple[int, int]:
    """How many calls an episode made, and how many of them came back without an error."""
    results: list[Result] = [result for turn in trajectory.turns for result in turn.results]
    return len(results), sum(result.ok for result in results)


def _ending(trajectory: Trajectory) -> str | None:
    """How an episode that was not solved ended. Declining shows in the first words of a last turn without call."""
    stop, success, last = trajectory.stop_reason, trajectory.success, trajectory.turns[-1] if trajectory.turns else None
    if stop is None or (success is not None and success >= 1.0):
        return None
    if stop.truncated:
        return "no_answer"
    if last is not None and not last.calls and _DECLINES.search(last.message.text[:200]):
        return "refused"
    return None if success is None else "wrong_answer"  # nobody judged it: nobody knows


def _written(call: Call) -> str:
    return repr((call.name, sorted(call.arguments.items(), key=lambda item: item[0])))
