"""What went wrong, turn by turn and at the end: one small set of kinds, counted over an evaluation."""

from __future__ import annotations

from collections import Counter

from agentgym.episode.trajectory import Trajectory
from agentgym.messages import ResultStatus

CALL_KINDS: dict[str, str] = {
    "malformed": "calls that could not be read",
    "unknown_tool": "calls of a tool that does not exist",
    "wrong_arguments": "calls whose arguments do not fit the tool",
    "tool_error": "calls that the tool refused",
    "timeout": "calls that took too long",
    "over_budget": "calls after a budget was used up",
}
"""Kinds that are counted per call, with what they mean."""

TURN_KINDS: dict[str, str] = {"void": "turns that neither spoke nor held a call that could be run"}
"""Kinds that are counted per turn."""

END_KINDS: dict[str, str] = {
    "wrong_answer": "episodes that answered, and were wrong",
    "no_answer": "episodes that a budget ended before an answer",
    "failed": "episodes whose infrastructure failed (left out of every rate)",
}
"""Kinds that are counted per episode, at its end."""

KINDS: dict[str, str] = CALL_KINDS | TURN_KINDS | END_KINDS


def failures_of(trajectory: Trajectory) -> Counter[str]:
    """Counts by kind over one episode; a kind that did not occur is absent.

    An episode that failed counts as that alone: what happened before the machine broke is not held
    against the agent.
    """
    stop = trajectory.stop_reason
    if stop is None or stop.failed:
        return Counter({"failed": 1})
    counts: Counter[str] = Counter()
    for turn in trajectory.turns:
        counts.update(r.status.value for r in turn.results if r.status.value in CALL_KINDS)
        spoke = not turn.calls and turn.message.content and turn.finish_reason != "length"
        if turn.void and not spoke:
            counts["void"] += 1
    if not trajectory.success:
        counts["wrong_answer" if stop.terminated else "no_answer"] += 1
    return counts


def calls_of(trajectory: Trajectory) -> tuple[int, int]:
    """How many calls an episode made, and how many of them came back without an error."""
    results = [result for turn in trajectory.turns for result in turn.results]
    return len(results), sum(result.status is ResultStatus.OK for result in results)
