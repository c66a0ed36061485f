"""Output of the commands: results to standard output, everything else to standard error."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from agentgym.cli.uncut import UncutConsole
from agentgym.deprecation import AgentGymDeprecationWarning

if TYPE_CHECKING:
    from agentgym.rollout.progress import PhaseProgress

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a command, with a hint on how to resume."""

    def __init__(self, hint: str) -> None:
        self.hint = hint
        super().__init__(hint)


def out() -> Console:
    """Return a new console on standard output, so that a redirected stream is respected."""
    return UncutConsole()


def err() -> Console:
    """Return a new console on standard error."""
    return UncutConsole(stderr=True)


def print_error(message: str) -> None:
    """Print an error message in red."""
    err().print(Text.assemble(("Error: ", "bold red"), (message, "red")), soft_wrap=True)


def show_our_warnings() -> None:
    """Print each of agentgym's own warnings once, as a yellow line; leave other packages' warnings unchanged.

    By default Python hides deprecations, and shows other warnings with the path of the file that issued them.
    """
    show_others, printed = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *location: Any, **options: Any) -> None:
        if not category.__module__.startswith("agentgym."):
            show_others(message, category, *location, **options)
        elif str(message) not in printed:
            printed.add(str(message))
            err().print(Text.assemble(("Warning: ", "bold yellow"), (str(message), "yellow")), soft_wrap=True)

    warnings.showwarning = show
    if not sys.warnoptions:  # `python -W` and PYTHONWARNINGS take precedence
        warnings.simplefilter("default", AgentGymDeprecationWarning)


def quieten_bitsandbytes() -> None:
    """Hide bitsandbytes' advice to install CPU kernels: they would sample in bfloat16.

    peft imports bitsandbytes whenever it is installed.
    """
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


def show_tracebacks(debug: bool) -> None:
    """With --debug, print the traceback of each distinct episode failure once on standard error."""
    handler, printed = logging.StreamHandler(), set[str]()

    def first_time(record: logging.LogRecord) -> bool:
        traceback = handler.format(record)
        is_new = traceback not in printed
        printed.add(traceback)
        return is_new

    handler.addFilter(first_time)
    logger = logging.getLogger("agentgym.rollout")
    logger.handlers = [handler] if debug else []
    logger.setLevel(logging.DEBUG if debug else logging.NOTSET)


@contextmanager
def resumable(hint: str) -> Iterator[None]:
    """Turn Ctrl-C into Interrupted with a hint on how to resume."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(hint) from error


def run(work: Coroutine[Any, Any, T], agent: object = None) -> T:
    """Run a command's async part, then close the shared sandbox backends, and the agent if it is a policy."""
    return asyncio.run(_closing(work, agent))


async def _closing(work: Coroutine[Any, Any, T], agent: object) -> T:
    from agentgym.policy.contract import Policy
    from agentgym.registry import close_backends

    try:
        return await work
    finally:
        if isinstance(agent, Policy):
            await agent.close()
        await close_backends()


def exit_by_failures(causes: Counter[str], episodes: int) -> None:
    """Exit with code 1 if every episode failed, or any failed because of a bug in code.

    Args:
        causes: counts of the failed episodes by `Trajectory.error`.
        episodes: the number of episodes played.
    """
    from agentgym.rollout.failures import LOGGER, is_bug

    bugs = sum(count for cause, count in causes.items() if is_bug(cause))
    if bugs or (causes and causes.total() == episodes):
        which = "Every episode" if causes.total() == episodes else f"{bugs} of {episodes} episodes"
        debugging = logging.getLogger(LOGGER).isEnabledFor(logging.DEBUG)
        hint = " Run again with --debug to see the traceback." if bugs and not debugging else ""
        print_error(f"{which} failed; the causes are above.{hint}")
        raise typer.Exit(1)


def write_text(path: Path, text: str) -> None:
    """Write a text to a file atomically, and print the path. Raises: EvaluationError."""
    with replaced_when_done(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")
    out().print(f"Written: {path}", markup=False, soft_wrap=True)


@contextmanager
def replaced_when_done(path: Path) -> Iterator[Path]:
    """Yield the path of a partial file that replaces `path` at the end; after an error it is removed.

    Raises: EvaluationError if a file cannot be written there.
    """
    from agentgym.errors import EvaluationError

    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise EvaluationError(f"Cannot write {path}: {error.strerror}. Name another file.") from error


def progress_bar() -> PhaseProgress:
    """Return a progress bar with count, time left and note on standard error; plain lines if not a terminal."""
    from agentgym.rollout.progress import PhaseProgress

    return PhaseProgress(err())
