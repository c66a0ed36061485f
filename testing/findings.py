"""Findings: collects every breach that a check finds, so that one run shows all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from agentgym import ConformanceError


class Findings:
    """Breaches of one contract. Collect with `add`, end with `conclude`."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.messages: list[str] = []

    def add(self, finding: str) -> None:
        """Add a breach, unless it is already listed."""
        if finding not in self.messages:
            self.messages.append(finding)

    def give_up(self, finding: str) -> NoReturn:
        """Add a breach that makes further checks meaningless. Raises: ConformanceError with every finding."""
        self.add(finding)
        raise ConformanceError(self.subject, self.messages)

    @contextmanager
    def no_exception(self, doing: str) -> Iterator[None]:
        """Turn an error raised inside the block into a finding, "`doing` raised ...".

        Cancellation and `give_up` pass through.
        """
        try:
            yield
        except ConformanceError:
            raise
        except Exception as error:  # noqa: BLE001  a check must survive whatever it checks
            self.add(f"{doing} raised {type(error).__name__}: {short(error, 400)}")

    def conclude(self) -> None:
        """Raise ConformanceError with every finding, if there is any."""
        if self.messages:
            raise ConformanceError(self.subject, self.messages)


def short(value: object, limit: int = 160) -> str:
    """Return a value's text on one line, at most `limit` characters, for a finding."""
    text = " ".join((value if isinstance(value, str) else str(value)).split())
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 3] + "..."
