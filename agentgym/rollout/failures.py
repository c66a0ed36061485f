"""Infrastructure failures: why an episode failed, how often it is retried, and when failures end a run.

A failure is described in one line: the error, the line of code that raised it, and the activity.
"""

from __future__ import annotations

import inspect
import logging
import sysconfig
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym.errors import (
    EnvironmentServerError,
    EpisodesFailed,
    JudgeError,
    LimitUnenforceable,
    PolicyError,
    SandboxError,
)
from agentgym.messages import StopReason
from agentgym.text import visible
from agentgym.trajectory.record import Trajectory

INFRASTRUCTURE = (SandboxError, EnvironmentServerError, PolicyError, JudgeError, TimeoutError)
"""Errors of machines, servers and judges. Any other error that fails an episode is a bug in the code that raised it."""
LOGGER = "agentgym.rollout"
"""The logger that gets the traceback of every failure, at level DEBUG."""

_OWN = Path(__file__).parents[1]
_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
_INSTALLED = {Path(sysconfig.get_path(scheme)) for scheme in ("purelib", "platlib")}
_MAX_LISTED = 3
_MAX_CAUSES = 3


def cause_of(error: BaseException, activity: str) -> str:
    """Return "ZeroDivisionError: division by zero at shop.py:12 (while running the tool 'buy' in turn 0)", for example.

    A limit that a judge's sandbox could not have is the cause, not the judge. The traceback goes to the logger.
    """
    behind: BaseException | None = error
    while behind is not None and not isinstance(behind, LimitUnenforceable):
        behind = behind.__cause__
    error = behind or error
    logging.getLogger(LOGGER).debug("An episode failed while %s.", activity, exc_info=error)
    location = "" if isinstance(error, INFRASTRUCTURE) else raised_at(error)
    return f"{type(error).__name__}: {str(error)[:2000]}{location and f' at {location}'} (while {activity})"


def is_bug(cause: str) -> bool:
    """Return whether a line from `cause_of` reports a bug in code, not a failed machine, server or judge."""
    return cause.partition(":")[0] not in _names_of(*INFRASTRUCTURE)


def refusal_of(trajectory: Trajectory) -> LimitUnenforceable | None:
    """Return the error that ends a run in which an episode failed for a limit that its machine cannot enforce."""
    kind, _, text = (trajectory.error or "").partition(": ")
    return LimitUnenforceable(text) if kind == LimitUnenforceable.__name__ else None


def format_causes(causes: Counter[str]) -> list[str]:
    """Return one line per frequent cause of failed episodes, and one line that counts the other causes."""
    frequent = causes.most_common(_MAX_CAUSES)
    lines = [f"{count} x {visible(cause)}" for cause, count in frequent]
    if rest := len(causes) - len(frequent):
        lines.append(f"and {rest} other causes, {causes.total() - sum(n for _, n in frequent)} episodes")
    return lines


def raised_at(error: BaseException) -> str:
    """Return FILE:LINE of the innermost frame outside agentgym and Python's own library; empty if there is none.

    A frame of an installed package is used only if no frame is in the user's own code.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(Path(frame.filename))]
    own = [frame for frame in frames if not _is_installed(Path(frame.filename))]
    frame = own[-1] if own else next(iter(frames), None)
    return f"{_relative(frame.filename)}:{frame.lineno}" if frame else ""


def defined_at(function: Callable[..., Any]) -> str:
    """Return FILE:LINE where a function is defined; empty for functions of agentgym or without a source file."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or not _is_users(Path(code.co_filename)):
        return ""
    return f"{_relative(code.co_filename)}:{code.co_firstlineno}"


def _is_users(file: Path) -> bool:
    if not file.is_absolute() or file.is_relative_to(_OWN):
        return False
    return _is_installed(file) or not file.is_relative_to(_STANDARD_LIBRARY)


def _is_installed(file: Path) -> bool:
    return any(file.is_relative_to(folder) for folder in _INSTALLED)


def _relative(file: str) -> str:
    """Return the path relative to the working directory, if the file is below it."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file


def _names_of(*classes: type[BaseException]) -> set[str]:
    """Return the names of error classes and of all their subclasses."""
    names = {c.__name__ for c in classes}
    for c in classes:
        names |= _names_of(*c.__subclasses__())
    return names


class Retries:
    """The retries that an episode has left after infrastructure failures, and its current activity.

    Attributes:
        doing: the current activity, as a format and its values. It changes several times a turn, and its text is read
            only after a failure.
    """

    def __init__(self, trajectory: Trajectory, allowed: int) -> None:
        self.remaining = allowed
        self.doing: tuple[Any, ...] = ("starting",)
        self._noted = trajectory.provenance.retries

    @property
    def activity(self) -> str:
        """The current activity, for error messages: "running the tool 'add' in turn 2"."""
        text, *values = self.doing
        return str(text).format(*values)

    def note(self, activity: str) -> None:
        self.doing = ("{}", activity)

    def take(self, error: Exception) -> bool:
        """Use up a retry, if one is left, and record the failure. Returns: whether a retry was left."""
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        self._noted.append(self.describe(error))
        return True

    def describe(self, error: Exception) -> str:
        return cause_of(error, self.activity)


class FailureStreak:
    """The failures in a row of one run.

    Args:
        most: the number of failed episodes in a row, in ending order, that ends the run; None for no limit.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._failed: list[Trajectory] = []

    def too_many_with(self, trajectory: Trajectory) -> list[Trajectory]:
        """Count an ended episode. Returns: the failures in a row if they are too many, else an empty list."""
        if trajectory.scored:
            self._failed.clear()
            return []
        self._failed.append(trajectory)
        return self._failed if len(self._failed) == self._most else []


def no_turn(trajectory: Trajectory) -> str:
    """Return why an episode that did not fail has no turn."""
    if trajectory.stop_reason is StopReason.CONTEXT_FULL:
        return "the prompt has more tokens than the context of the model"
    return f"no turn was taken ({trajectory.stop_reason})"


def too_many_failures(failed: list[Trajectory], *, is_recorded: bool) -> EpisodesFailed:
    """Return the error that ends a run, with the causes. `is_recorded`: whether a ledger lets the run be resumed."""
    causes = Counter(t.error or no_turn(t) for t in failed)
    listed = "; ".join(f"{count} x {cause}" for cause, count in causes.most_common(_MAX_LISTED))
    hint = "They will be played again when it is resumed. " if is_recorded else ""
    return EpisodesFailed(
        f"{len(failed)} episodes in a row failed, so the run was stopped: {listed}. {hint}The option "
        "max_failures_in_a_row sets how many may fail."
    )
