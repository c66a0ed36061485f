"""`failing_lines`: marks, as spans, the lines of an agent's code that a failing test named. Adds no reward."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agentgym import Call, Result, Reward, Trajectory, Turn
from agentgym.trajectory import Span

NAMED = re.compile(r"^(?!  got ).*\((?:candidate\.py, )?line (\d{1,6})\)$", re.MULTILINE)
"""Matches a line in which the tool `test` of agentgym/code-v1 reports an error of the code, in a test or while
loading.
"""
LINES = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
"""Matches a line up to an end that Python's line numbers count; `splitlines` would also split at form feeds."""


class FailingLines(Reward):
    """Spans on the lines of tested code in which a failing test raised its error. No components.

    It reads results of a tool such as `test` of agentgym/code-v1: "ZeroDivisionError: division by zero (line 3)" names
    line 3 of the tested code. A test that fails with a wrong value names no line. Each span has the value 1. The
    wrapper `span_weighted` then puts the blame for a turn on these lines.

    Args:
        tool: the tool whose results are read. argument: its argument with the code.
    """

    def __init__(self, *, tool: str = "test", argument: str = "code") -> None:
        self.tool, self.argument = tool, argument

    def spans(self, episode: Trajectory) -> Sequence[Sequence[Span]]:
        return [list(self._of_turn(turn)) for turn in episode.turns]

    def _of_turn(self, turn: Turn) -> Iterator[Span]:
        for index, (call, result) in enumerate(zip(turn.message.calls, turn.results, strict=False)):
            if call.name == self.tool:
                yield from self._of_call(index, call, result)

    def _of_call(self, index: int, call: Call, result: Result) -> Iterator[Span]:
        code = call.arguments.get(self.argument)
        if not isinstance(code, str):
            return
        numbers = {int(digits) for digits in NAMED.findall(result.message().text)}
        for number, line in enumerate(LINES.finditer(code), 1):
            if number in numbers and line[1].strip():
                yield Span(line.start(1), line.end(1), 1.0, index, self.argument)
