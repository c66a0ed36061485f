"""`symbolic_maths`: is the agent's answer mathematically the same as the gold answer, however it is written?

An answer is what stands in the last \\boxed{...}, after the last `####`, or the whole text. Nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentgym import Reward
from agentgym.reward import SUCCESS, Components, EpisodeView

from .final_answer import final_answer, gold_answers
from .maths_equality import same
from .maths_notation import NoMaths, read

MAX_CHARS = 100_000
_WRAPPED = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}")
_WORD = re.compile(r"\\text\s*\{([^{}]*)\}|\\[a-z]+|[\s${}().,\\]+")


class SymbolicMaths(Reward):
    """Outcome component `success`: 1.0 if the final answer equals `truth["answer"]` (or one of a list), else 0.0.

    LaTeX and plain notation; numbers, expressions, equations, tuples, sets, intervals, matrices. What is no
    mathematics (a name, a letter of a choice) is compared as text without case.

    Args:
        argument: the final tool's argument that holds the answer.
        tolerance: relative difference up to which two numbers that are not both whole are the same.
    """

    def __init__(self, argument: str = "text", tolerance: float = 1e-9) -> None:
        self.argument, self.tolerance = argument, tolerance

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no gold answer; MissingExtraError without mpmath."""
        gold = gold_answers(episode, "symbolic_maths")
        given = final_answer(episode, self.argument)
        return {SUCCESS: float(given is not None and equivalent(given, gold, tolerance=self.tolerance))}


def equivalent(given: str, gold: str | Iterable[str], *, tolerance: float = 1e-9) -> bool:
    """Whether an answer is the same as the gold answer, or as one of several."""
    answer = extracted(given)
    return any(_same(answer, extracted(one), tolerance) for one in ([gold] if isinstance(gold, str) else gold))


def extracted(text: str) -> str:
    """The answer inside of a text: in the last box, after the last ####, or all of it."""
    text = text[-MAX_CHARS:]
    boxed = _last_box(text)
    if boxed is not None:
        return boxed
    return text.rpartition("####")[2].strip()


def _last_box(text: str) -> str | None:
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    at = text.index("{", start) + 1
    depth = 1
    for place in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[at:place].strip()
    return None


def _same(given: str, gold: str, tolerance: float) -> bool:
    given, gold = (wrapped[1] if (wrapped := _WRAPPED.fullmatch(text)) else text for text in (given, gold))
    if not given.strip() or not gold.strip():
        return False
    words = [
        " ".join(_WORD.sub(lambda found: f" {found[1] or ''} ", text).casefold().split()) for text in (given, gold)
    ]
    if words[1].isalpha() and len(words[1]) != 1 and words[1] not in ("pi", "inf", "infty", "infinity"):
        return words[0] == words[1]  # a word: its letters are no product
    try:
        trees = read(given), read(gold)
    except NoMaths:
        if any(char.isdigit() for char in gold):
            words = [" ".join(text.casefold().split()) for text in (given, gold)]
        return bool(words[0]) and words[0] == words[1]
    return same(*trees, tolerance=tolerance)
