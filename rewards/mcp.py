"""`mcp`: whether an MCP server's final state and the agent's answer match the task's truth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Result, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison, read_submission

from .final_answer import final_call
from .fresh_files import lines_of


class McpReward(Reward):
    """Outcome components `success` (every check passes) and `checks_passed` (the share that does, of weight 0).

    The checks are those of the server's final state, and that of the answer. `truth` holds one or both of
        state: the expected results of the calls in the task's parameter `state`, in order. They are compared as data if
            both are JSON, or else as text without spaces at line ends.
        answer: the expected answer, or a list of right ones; compared as in `answer_match`.
    An episode that did not end with a final call has failed.
    """

    weights: Mapping[str, float] = {"checks_passed": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the truth has nothing to judge, or no result for some call of `state`.
        """
        task = episode.task
        truth = task.truth if isinstance(task.truth, Mapping) else {}
        expected = truth.get("state")
        if expected is None and truth.get("answer") is None:
            raise JudgeError(
                f"{task.id}: the truth has neither `state` nor `answer`, so mcp cannot judge it. Give it one of them."
            )
        calls = task.parameters.get("state", ())
        if expected is not None and (not isinstance(expected, list | tuple) or len(expected) != len(calls)):
            raise JudgeError(
                f"{task.id}: truth['state'] must have one result for each of the {len(calls)} calls of "
                "parameters['state']."
            )
        if (ended := final_call(episode)) is None:
            return {SUCCESS: 0.0, "checks_passed": 0.0}
        call, result = ended
        passed = []
        if expected is not None:
            state = read_submission(lambda: _end_state(result, len(expected)))
            passed += [state is not None and _equal(state[n], right) for n, right in enumerate(expected)]
        if (answer := truth.get("answer")) is not None:
            right = answer if isinstance(answer, list) else [answer]
            passed.append(any(comparison.same_answer(call.arguments.get("text", ""), text) for text in right))
        return {SUCCESS: float(all(passed)), "checks_passed": sum(passed) / len(passed)}


def _end_state(result: Result, count: int) -> list[str | None]:
    """Return the results of the calls of `state`, which the final result holds.

    Raises: ValueError, KeyError, TypeError if some are missing.
    """
    state = json.loads(str(result.content).partition("\n")[2])["state"]
    if len(state) != count or not all(item is None or isinstance(item, str) for item in state):
        raise ValueError(f"expected {count} results")
    return list(state)


def _equal(actual: str | None, expected: Any) -> bool:
    """Return whether the server's result, None if its call failed, matches the truth."""
    if actual is None or expected is None:
        return actual is expected
    actual_data = read_submission(lambda: [json.loads(actual)])
    expected_data = read_submission(lambda: [json.loads(expected)]) if isinstance(expected, str) else [expected]
    if actual_data is None or expected_data is None:
        return isinstance(expected, str) and lines_of(actual) == lines_of(expected)
    return comparison.same_data(actual_data, expected_data)
