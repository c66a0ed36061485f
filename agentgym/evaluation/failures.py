"""What went wrong, turn by turn and at the end: one table of kinds, and what training does with each.

The same table is in docs/evaluate.md, and a test compares the two. The treatment is what the trainer does unless a
recipe's [train.failures] says otherwise; see agentgym.training.treatment for where it is enforced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from agentgym.episode.trajectory import Trajectory, Turn
from agentgym.messages import Call, Result, ResultStatus

Treatment = Literal["scored", "mask_turn", "mask_episode", "excluded"]
TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)
"""`scored`: trained on as the reward judged it. `mask_turn`: the turns in which it happened get no advantage.
`mask_episode`: no turn of the episode gets one. `excluded`: in no loss, no baseline and no statistic."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure.

    Attributes:
        level: what it is counted per. `meaning`: for people, in the plural.
        treatment: in training, by default. `why`: it is so.
    """

    level: Literal["call", "turn", "end"]
    meaning: str
    treatment: Treatment
    why: str


FAILURES: dict[str, Failure] = {
    "malformed": Failure("call", "calls that could not be read", "scored", "writing calls is learnt"),
    "unknown_tool": Failure("call", "calls of a tool that does not exist", "scored", "knowing the tools is learnt"),
    "wrong_arguments": Failure(
        "call", "calls whose arguments do not fit the tool", "scored", "reading a tool's schema is learnt"
    ),
    "tool_error": Failure("call", "calls that the tool refused", "scored", "errors are how a world is explored"),
    "timeout": Failure("call", "calls that took too long", "scored", "the agent chose what to run"),
    "over_budget": Failure("call", "calls after a budget was used up", "scored", "budgets are part of the task"),
    "repeated": Failure(
        "call", "calls made before with the same result", "scored", "asking twice costs turns, which the reward sees"
    ),
    "void": Failure(
        "turn", "turns that neither spoke nor held a call that could be run", "scored",
        "saying nothing is a choice; SimpleTIR masks such episodes",
    ),
    "wrong_answer": Failure("end", "episodes that answered, and were wrong", "scored", "it is what reward is for"),
    "refused": Failure("end", "episodes in which the agent declined", "scored", "declining a task solves nothing"),
    "no_answer": Failure(
        "end", "episodes that a budget ended before an answer", "scored", "else endless episodes cost nothing"
    ),
    "failed": Failure(
        "end", "episodes whose infrastructure failed (left out of every rate)", "excluded",
        "the agent did nothing wrong: a zero would be a lie",
    ),
}  # fmt: skip
"""Every kind, in the order that tables show."""

CALL_KINDS = {name: one.meaning for name, one in FAILURES.items() if one.level == "call"}
TURN_KINDS = {name: one.meaning for name, one in FAILURES.items() if one.level == "turn"}
END_KINDS = {name: one.meaning for name, one in FAILURES.items() if one.level == "end"}
KINDS: dict[str, str] = {name: one.meaning for name, one in FAILURES.items()}

_DECLINES = re.compile(
    r"\b(?:i(?:'m| am)? (?:sorry|can(?:no|')t|(?:am |'m )?(?:unable|not able) to|won't|will not|refuse|must decline)"
    r"|i (?:do not|don't) (?:feel comfortable|think i (?:can|should))|as an ai\b)",
    re.IGNORECASE,
)


def turn_failures(turns: Sequence[Turn]) -> list[list[str]]:
    """Of each turn, the kinds that occurred in it; one that occurred twice stands there twice."""
    seen: dict[str, tuple[object, ...]] = {}
    found = []
    for turn in turns:
        kinds: list[str] = [r.status.value for r in turn.results if r.status.value in CALL_KINDS]
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.status not in (ResultStatus.OK, ResultStatus.TOOL_ERROR):
                continue  # what never ran is told by its own kind
            key, answer = _written(call), (result.content, result.status)
            kinds += ["repeated"] if seen.get(key) == answer else []
            seen[key] = answer
        spoke = not turn.calls and turn.message.content and turn.finish_reason != "length"
        if turn.void and not spoke:
            kinds.append("void")
        found.append(kinds)
    return found


def failures_of(trajectory: Trajectory) -> Counter[str]:
    """Counts by kind over one episode; a kind that did not occur is absent.

    An episode that failed counts as that alone: what happened before the machine broke is not held
    against the agent.
    """
    stop = trajectory.stop_reason
    if stop is None or stop.failed:
        return Counter({"failed": 1})
    counts = Counter(kind for kinds in turn_failures(trajectory.turns) for kind in kinds)
    if not trajectory.success:
        counts[_ending(trajectory)] += 1
    return counts


def calls_of(trajectory: Trajectory) -> tuple[int, int]:
    """How many calls an episode made, and how many of them came back without an error."""
    results: list[Result] = [result for turn in trajectory.turns for result in turn.results]
    return len(results), sum(result.status is ResultStatus.OK for result in results)


def _ending(trajectory: Trajectory) -> str:
    """How an episode that was not solved ended. Declining shows in the first words of a last turn without call."""
    stop, last = trajectory.stop_reason, trajectory.turns[-1] if trajectory.turns else None
    if stop is not None and not stop.terminated:
        return "no_answer"
    if last is not None and not last.calls and _DECLINES.search(last.message.text[:200]):
        return "refused"
    return "wrong_answer"


def _written(call: Call) -> str:
    return repr((call.name, sorted(call.arguments.items(), key=lambda item: item[0])))
