"""`completion`: how much closer each written piece of code brings the text to the original function.

Source: immediate rewards on partial code, IRCoCo (Li et al. 2024, arXiv:2401.16637). There a learned evaluator predicts
the quality of a completion; here the similarity of the code so far is used as a potential, so that a gain cannot be
collected twice (Ng et al. 1999).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from agentgym import Call, JudgeError, Reward, Trajectory, Turn
from agentgym.reward import SUCCESS, Components
from agentgym.sandbox import Backend

from .fresh_files import lines_of
from .hidden_tests import HiddenTests

MAX_TEXT = 10_000


class Completion(Reward):
    """Turn component `nearer`; outcome components `success`, `tests_passed`, `exact` and `similarity`.

    The code so far follows from the calls: `write(text)` appends, `undo()` removes the last piece. `nearer` is the
    turn's change of the similarity of this code to `truth["completion"]` (0 to 1, the share of matching characters,
    without trailing white space); over an episode it sums to the final similarity. `success` is 1.0 if the whole
    function passes the hidden tests. `tests_passed`, `exact` and `similarity` have weight 0.

    Args:
        cpu_s: processor seconds of the hidden tests. backend: creates the judge's sandboxes.
    """

    weights: Mapping[str, float] = {"nearer": 0.3, "tests_passed": 0.0, "exact": 0.0, "similarity": 0.0}

    def __init__(self, *, cpu_s: int = 10, backend: str | Backend = "namespaces") -> None:
        self.tests = HiddenTests(cpu_s=cpu_s, backend=backend)

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        """Judge a turn. Raises: JudgeError if the task has no completion."""
        target = _target(episode)
        before = written([past for past in episode.turns if past.index < turn.index])
        after = written([past for past in episode.turns if past.index <= turn.index])
        return {"nearer": similarity(after, target) - similarity(before, target)}

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no completion or tests, or no sandbox works."""
        target, truth = _target(episode), episode.task.truth
        if not truth.get("tests"):
            raise JudgeError(
                f"{episode.task.id} has no truth['tests'], which completion runs. Give the task its tests."
            )
        text = written(episode.turns)
        if not text.strip():
            return {SUCCESS: 0.0, "tests_passed": 0.0, "exact": 0.0, "similarity": 0.0}
        code = str(episode.task.parameters.get("before", "")) + text + str(episode.task.parameters.get("after", ""))
        passed = await self.tests.judge(code, truth["tests"])
        return {
            SUCCESS: float(all(passed)),
            "tests_passed": sum(passed) / len(passed),
            "exact": float(lines_of(text) == lines_of(target)),
            "similarity": similarity(text, target),
        }


def written(turns: Sequence[Turn]) -> str:
    """Return the code written by the calls of these turns."""
    pieces: list[str] = []
    for turn in turns:
        for call, result in zip(turn.calls, turn.results, strict=False):
            if result.ok:
                _apply(call, pieces)
    return "".join(pieces)


def _apply(call: Call, pieces: list[str]) -> None:
    text = call.arguments.get("text")
    if call.name == "write" and isinstance(text, str):
        pieces.append(text if text.endswith("\n") else text + "\n")
    elif call.name == "undo" and pieces:
        pieces.pop()


def similarity(text: str, target: str) -> float:
    """Return the share of matching characters, 0 to 1. Only the first 10,000 characters are compared."""
    left, right = "\n".join(lines_of(text[:MAX_TEXT])), "\n".join(lines_of(target))
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio() if left else 0.0


def _target(episode: Trajectory) -> str:
    truth = episode.task.truth
    if not isinstance(truth, dict) or not isinstance(truth.get("completion"), str):
        raise JudgeError(
            f"{episode.task.id} has no truth['completion'] to compare a completion with. Give the task one."
        )
    return str(truth["completion"])
