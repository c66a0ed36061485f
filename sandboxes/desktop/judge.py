"""`desktop`: did the episode leave the files and windows that the task asks for? Judged by the state of the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward
from agentgym.reward import SUCCESS, Components, EpisodeView

OVER = "The task is over.\n"
"""Begins the result of `done`, before what our side read of the machine."""
CHECKS = ("files", "windows", "answer")


class DesktopReward(Reward):
    """Outcome components `success` (every check holds) and `checks_passed`, the share that does, with weight 0.

    `truth` holds one or more of
        files: what files must hold, by path in the home folder; None for one that must not be there. Lines are
            compared without spaces at their ends.
        others: with files; true if every other file must be as the task gave it (the default).
        windows: pairs of class and a text that stands in the title of an open window.
        answer: what `done` was told, compared without case and outer spaces.
    An episode that never called `done` has failed.
    """

    weights: Mapping[str, float] = {"checks_passed": 0.0}

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the truth says nothing that can be judged."""
        truth = episode.task.truth
        if not isinstance(truth, Mapping) or not any(truth.get(name) is not None for name in CHECKS):
            raise JudgeError(f"{episode.task.id}: truth has none of {', '.join(CHECKS)}: nothing can be judged.")
        state, answer = _end(episode)
        if state is None:
            return {SUCCESS: 0.0, "checks_passed": 0.0}
        passed = self._files(state, truth, episode)
        for kind, text in truth.get("windows") or ():
            shown = state.get("windows", ())
            passed.append(any(own.casefold() == kind.casefold() and text in title for own, title in shown))
        if truth.get("answer") is not None:
            passed.append(_plain(answer) == _plain(str(truth["answer"])) != "")
        return {SUCCESS: float(all(passed)), "checks_passed": sum(passed) / len(passed)}

    def _files(self, state: Mapping[str, Any], truth: Mapping[str, Any], episode: EpisodeView) -> list[bool]:
        wanted = truth.get("files")
        if wanted is None:
            return []
        kept = state.get("files", {})
        passed = [_as_wanted(kept, path, text) for path, text in wanted.items()]
        if truth.get("others", True):
            given = episode.task.parameters.get("files", {})
            untouched = {path: text for path, text in given.items() if path not in wanted}
            same = all(_as_wanted(kept, path, text) for path, text in untouched.items())
            passed.append(same and kept.keys() <= untouched.keys() | wanted.keys())
        return passed


def _as_wanted(kept: Mapping[str, str | None], path: str, text: str | None) -> bool:
    if text is None:
        return path not in kept
    own = kept.get(path)
    return own is not None and _lines(own) == _lines(text)


def _end(episode: EpisodeView) -> tuple[Mapping[str, Any] | None, str]:
    """The state at the end, None if the task was never ended; and the answer."""
    for turn in episode.turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.final and result.ok and isinstance(result.content, str) and result.content.startswith(OVER):
                try:
                    state = json.loads(result.content[len(OVER) :])
                except ValueError as error:
                    raise JudgeError(f"{episode.task.id}: the state that done read was cut: {error}.") from error
                return state, str(call.arguments.get("answer", ""))
    return None, ""


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
