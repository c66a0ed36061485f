"""Requests in a few fixed forms, the text that fulfils each, and scripted players that write these texts."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence

from agentgym import Call, Message, Task, seed_of

ERROR_RATE = 0.5
"""The probability that the imperfect oracle makes a mistake in a request, independently for each request."""

Script = Callable[[Sequence[Message]], Message]
Parts = dict[str, str]
"""The words of a request, by the name of the placeholder that they fill."""


class RequestForms:
    """The forms of a set's requests.

    Args:
        forms: for each kind of request, its text and the text that fulfils it, both with placeholders, as in `Count
            {item} in {city}.`
        tool, argument: the tool that takes the fulfilling text, and the tool's argument for it.
        mistaken: called with the task, the kind and the parts of a request, returns parts that make the text wrong.
    """

    def __init__(
        self,
        forms: Mapping[str, tuple[str, str]],
        *,
        tool: str,
        argument: str,
        mistaken: Callable[[Task, str, Parts, random.Random], Parts],
    ) -> None:
        self.forms, self._tool, self._argument, self._mistaken = forms, tool, argument, mistaken
        self._patterns = {
            kind: re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(request)))
            for kind, (request, _) in forms.items()
        }

    def parsed(self, request: str) -> tuple[str, Parts]:
        """Return the kind of a request, and its parts. Raises: ValueError if the text is not a request."""
        for kind, pattern in self._patterns.items():
            if match := pattern.fullmatch(request):
                return kind, match.groupdict()
        raise ValueError(f"{request!r} is not a request of this set.")

    def done(self, kind: str, parts: Parts) -> str:
        """Return the text that fulfils a request."""
        return self.forms[kind][1].format(**parts)

    def oracle(self, task: Task) -> Script:
        """Fulfil each request, knowing nothing but its text."""
        return self.player(lambda request, _: self.done(*self.parsed(request)))

    def imperfect_oracle(self, task: Task) -> Script:
        """Do each request wrongly with probability 1/2, independently."""

        def act(request: str, turn: int) -> str:
            kind, parts = self.parsed(request)
            rng = random.Random(seed_of("imperfect oracle", task.id, turn))
            errs = rng.random() < ERROR_RATE
            return self.done(kind, self._mistaken(task, kind, parts, rng) if errs else parts)

        return self.player(act)

    def player(self, act: Callable[[str, int], str]) -> Script:
        """Return a script that answers the last request in the conversation with one call.

        Args:
            act: maps a request and the turn, counted from 0, to the argument of the call.
        """

        def script(messages: Sequence[Message]) -> Message:
            turn = sum(message.role == "assistant" for message in messages)
            request = messages[-1].text.rpartition("\n")[2]
            return Message("assistant", "", (Call(self._tool, {self._argument: act(request, turn)}),))

        return script
