"""One function to write: its description, a Python reference solution, and inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MARKED = re.compile(r"@([^@]*)@([^@]*)@")


@dataclass(frozen=True, slots=True)
class FunctionProblem:
    """A function.

    Attributes:
        words: description. arguments, returns: its signature.
        solve: computes the right value.
        inputs: the arguments of each call; the first two calls are shown as examples.
        solutions: texts by language, each of a right and a wrong solution: `@a@b@` stands for a in the right one and
            for b in the wrong one.
    """

    name: str
    words: str
    arguments: Sequence[tuple[str, str]]
    returns: str
    solve: Callable[..., Any]
    inputs: Sequence[Sequence[Any]]
    solutions: Mapping[str, str]

    def signature(self) -> dict[str, Any]:
        """Return `parameters["function"]` of a task."""
        return {"name": self.name, "arguments": [list(pair) for pair in self.arguments], "returns": self.returns}

    def cases(self) -> list[dict[str, Any]]:
        """Return each input with the right value."""
        return [{"arguments": list(given), "value": self.solve(*given)} for given in self.inputs]

    def right(self, language: str) -> str:
        """Return a solution that passes every call."""
        return _MARKED.sub(r"\1", self.solutions[language]).lstrip()

    def wrong(self, language: str) -> str:
        """Return a solution with one mistake, which some call reveals."""
        return _MARKED.sub(r"\2", self.solutions[language]).lstrip()
