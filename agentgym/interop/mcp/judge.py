"""`mcp`: whether the server's end state and the agent's answer are what the task's truth says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym.errors import JudgeError
from agentgym.messages import Call, Result
from agentgym.reward import SUCCESS, Components, Reward
from agentgym.trajectory import Trajectory

TASK_OVER = "The task is over.\n"
"""The first line of the result of a call that ends an episode; the end state follows as JSON."""


class McpReward(Reward):
    """Outcome components `success` (every check holds) and `checks_passed`, the share that does, with weight 0.

    `truth` holds one or both of
        state: the results that the calls of the task's parameter `state` must have, in their order. Where both are
            JSON they are compared as data, else as text without spaces at the ends of lines.
        answer: what the agent must hand in, or a list of such; compared without case and spacing.
    An episode that nothing has ended has failed.
    """

    weights: Mapping[str, float] = {"checks_passed": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Raises: JudgeError if the truth says nothing that can be judged, or not of each call of `state`."""
        task = episode.task
        truth = task.truth if isinstance(task.truth, Mapping) else {}
        expected = truth.get("state")
        if expected is None and truth.get("answer") is None:
            raise JudgeError(f"{task.id}: truth has neither `state` nor `answer`: nothing can be judged by mcp.")
        calls = task.parameters.get("state", ())
        if expected is not None and (not isinstance(expected, list | tuple) or len(expected) != len(calls)):
            raise JudgeError(
                f"{task.id}: truth['state'] has not one result for each of the {len(calls)} calls of "
                "parameters['state']."
            )
        ended = _final_call(episode)
        if ended is None:
            return {SUCCESS: 0.0, "checks_passed": 0.0}
        call, result = ended
        passed = []
        if expected is not None:
            passed += [_equal(*pair) for pair in zip(_end_state(result, task.id), expected, strict=True)]
        if (answer := truth.get("answer")) is not None:
            given = _normalised(call.arguments.get("text", ""))
            passed.append(given in [_normalised(text) for text in (answer if isinstance(answer, list) else [answer])])
        return {SUCCESS: float(all(passed)), "checks_passed": sum(passed) / len(passed)}


def _final_call(episode: Trajectory) -> tuple[Call, Result] | None:
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok:
                return call, result
    return None


def _end_state(result: Result, task: str) -> list[Any]:
    text = result.content if isinstance(result.content, str) else ""
    try:
        return list(json.loads(text.removeprefix(TASK_OVER))["state"])
    except (ValueError, KeyError, TypeError) as error:
        raise JudgeError(f"{task}: the result {text[:60]!r} of the last call holds no end state: {error}.") from error


def _equal(actual: Any, expected: Any) -> bool:
    """Results of the server, texts or None where a call failed, against what the truth says."""
    if actual is None or expected is None:
        return actual is expected
    try:
        actual_data = json.loads(actual)
        expected_data = json.loads(expected) if isinstance(expected, str) else expected
    except ValueError:
        return isinstance(expected, str) and _lines(actual) == _lines(expected)
    return bool(actual_data == expected_data)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _normalised(text: object) -> str:
    return " ".join(str(text).casefold().split())
