"""`desktop`: judges by the end state whether the episode left the files and windows that the task asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components, comparison, read_submission

from .documents import Content, bytes_of, holds

TASK_OVER = "The task is over.\n"
"""The first line of the result of `done`; the end state follows as JSON."""
CHECKS = ("files", "windows", "answer")


class DesktopReward(Reward):
    """Checks the answer, and the files and windows at the end: `success` (all hold), `checks_passed` (share, weight 0).

    `truth` holds one or more of
        files: the contents that files must have, by path in the home folder; None for a file that must not exist. Lines
            are compared without spaces at their ends. A file that is not text has an object with one key: `cells`, by
            name or as pairs (a formula begins with = and is in lower case without spaces), `paragraphs` of runs of text
            and style, the pixels of a `picture` (a PNG in base64), or its bytes in `base64`: see documents.py.
        others: with files; true if every other file must be as the task gave it (the default).
        windows: pairs of the class of an open window and a text that its title contains.
        answer: the required answer to `done`, compared as `agentgym.reward.same_answer` does.
    An episode that never called `done` has failed.
    """

    weights: Mapping[str, float] = {"checks_passed": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth has no checks."""
        truth = episode.task.truth
        if not isinstance(truth, Mapping) or not any(truth.get(name) is not None for name in CHECKS):
            raise JudgeError(f"{episode.task.id}: the truth has no checks. Give it one of {', '.join(CHECKS)}.")
        state, answer = _end_state(episode)
        if state is None:
            return {SUCCESS: 0.0, "checks_passed": 0.0}
        passed = self._files(state, truth, episode)
        for kind, text in truth.get("windows") or ():
            windows = state.get("windows", ())
            passed.append(
                any(window_class.casefold() == kind.casefold() and text in title for window_class, title in windows)
            )
        if truth.get("answer") is not None:
            passed.append(comparison.same_answer(answer, truth["answer"]))
        return {SUCCESS: float(all(passed)), "checks_passed": sum(passed) / len(passed)}

    def _files(self, state: Mapping[str, Any], truth: Mapping[str, Any], episode: Trajectory) -> list[bool]:
        expected = truth.get("files")
        if expected is None:
            return []
        contents = state.get("files", {})
        try:
            passed = [_as_expected(contents, path, content) for path, content in expected.items()]
        except (ValueError, TypeError) as error:
            raise JudgeError(f"{episode.task.id}: truth['files'] is not valid: {error}.") from error
        if truth.get("others", True):
            initial = episode.task.parameters.get("files", {})
            untouched = {path: text for path, text in initial.items() if path not in expected}
            unchanged = all(_as_expected(contents, path, text) for path, text in untouched.items())
            passed.append(unchanged and contents.keys() <= untouched.keys() | expected.keys())
        return passed


def _as_expected(contents: Mapping[str, Content | None], path: str, expected: Any) -> bool:
    if expected is None:
        return path not in contents
    content = contents.get(path)
    if content is None:
        return False
    if isinstance(expected, Mapping):
        return holds(bytes_of(content), expected)
    return isinstance(content, str) and _lines(content) == _lines(expected)


def _end_state(episode: Trajectory) -> tuple[Mapping[str, Any] | None, str]:
    """Return the end state (None if the agent never called `done`) and the answer."""
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok and isinstance(result.content, str) and result.content.startswith(TASK_OVER):
                state = read_submission(partial(_state, result.content[len(TASK_OVER) :]))
                return state, str(call.arguments.get("answer", ""))
    return None, ""


def _state(text: str) -> Mapping[str, Any]:
    """Parse the end state that `done` read. Raises: TypeError, ValueError, AttributeError, RecursionError."""
    data = json.loads(text)
    windows = [(str(window_class), str(title)) for window_class, title in data.get("windows", ())]
    files = dict(data.get("files", {}))
    for content in files.values():
        bytes_of("" if content is None else content)
    return {"files": files, "windows": windows}


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]
