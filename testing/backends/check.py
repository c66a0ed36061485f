"""A check of a backend, and the verdict of one run of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from agentgym.sandbox import Capabilities

Kind = Literal["contract", "attack"]
Outcome = Literal["passed", "failed", "left out"]
SNAPSHOTS = "snapshots"


class Breach(AssertionError):
    """A check failed. The message says what was returned and what was expected."""


class NotApplicable(Exception):
    """A check cannot be made on this backend. It is left out, with the reason."""


@dataclass(frozen=True, slots=True)
class BackendCheck:
    """One check.

    Attributes:
        run: runs the check on a `Target`; its name and the first line of its docstring say what is checked.
        theme: the heading under which the check is listed.
        needs: name of the limit that the check requires, or `snapshots`; empty for none.
    """

    run: Callable[[Any], Awaitable[None]]
    kind: Kind
    theme: str
    needs: str = ""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def sentence(self) -> str:
        return (inspect.getdoc(self.run) or "").partition("\n")[0].rstrip(".")

    def left_out(self, capabilities: Capabilities) -> str:
        """Return why this check is left out for a backend of these capabilities; empty if it applies."""
        if self.needs == SNAPSHOTS:
            return "" if capabilities.snapshots else "the backend takes no snapshots"
        if not self.needs or self.needs in capabilities.enforced:
            return ""
        reason = dict(capabilities.missing).get(self.needs, "the backend does not say why")
        return f"the limit on {self.needs} is not enforced here: {reason}"


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The result of one check. `finding`: what went wrong, or why it was left out. `seconds`: its wall time."""

    name: str
    kind: Kind
    theme: str
    sentence: str
    outcome: Outcome
    finding: str = ""
    seconds: float = 0.0


def checks_of(
    kind: Kind, theme: str, *listed: Callable[[Any], Awaitable[None]] | tuple[str, Callable[..., Awaitable[None]]]
) -> tuple[BackendCheck, ...]:
    """Return the checks of one theme; a pair also names what the check needs."""
    return tuple(
        BackendCheck(listed_check[1], kind, theme, listed_check[0])
        if isinstance(listed_check, tuple)
        else BackendCheck(listed_check, kind, theme)
        for listed_check in listed
    )


def check_equal(got: object, expected: object, what: str) -> None:
    """Raise Breach if the two values differ."""
    if got != expected:
        raise Breach(f"{what}: got {got!r:.300}, expected {expected!r:.300}")


def check_not(breached: bool, what: str) -> None:
    """Raise Breach if `breached` is true. `what`: the message, which says what was possible."""
    if breached:
        raise Breach(what)


async def check_raises(
    kind: type[BaseException] | tuple[type[BaseException], ...], awaitable: Awaitable[object], what: str
) -> BaseException:
    """Return the error of class `kind` that the call raises. Raises: Breach if the call returns."""
    try:
        got = await awaitable
    except kind as error:
        return error
    names = " or ".join(error_class.__name__ for error_class in (kind if isinstance(kind, tuple) else (kind,)))
    raise Breach(f"{what} returned {got!r:.100}, but {names} was expected")
