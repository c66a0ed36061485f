"""Renders a run's output and ending as text for a model: truncated, and equal for equal runs."""

from __future__ import annotations

from agentgym import ToolError
from agentgym.sandbox import ExecResult

MAX_CHARS = 2_000


def report(result: ExecResult, limit_s: float, *, max_chars: int = MAX_CHARS) -> str:
    """Return what a run printed, and the end of its errors if it failed. Raises: ToolError if the run was stopped."""
    printed = cut(result.text.rstrip(), max_chars)
    stop_if_stopped(result, limit_s, printed)
    if result.exit_code:
        return f"{printed}\n{last_lines(result.stderr, 6) or f'Ended with status {result.exit_code}.'}".strip()
    return printed or "[no output]"


def transcript(result: ExecResult, limit_s: float, *, max_chars: int = MAX_CHARS) -> str:
    """Return output, then errors, then the exit code unless it is 0, as a terminal would show them.

    Raises: ToolError if the run was stopped.
    """
    printed = cut(result.text.rstrip("\n"), max_chars)
    stop_if_stopped(result, limit_s, printed)
    errors = cut(result.stderr.decode("utf-8", "replace").rstrip("\n"), max_chars)
    status = f"[exit code {result.exit_code}]" if result.exit_code else ""
    return "\n".join(part for part in (printed, errors, status) if part) or "[no output]"


def stop_if_stopped(result: ExecResult, limit_s: float, printed: str) -> None:
    """Check that a command was not stopped. Raises: ToolError if time or memory ran out."""
    if result.timed_out:
        raise ToolError(f"{printed}\nStopped after {limit_s:g} s: the code ran too long.".strip())
    if result.oom_killed:
        raise ToolError(f"{printed}\nStopped: the code used too much memory.".strip())


def cut(text: str, max_chars: int = MAX_CHARS) -> str:
    """Return the beginning of a text, with a note if it was cut."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}\n[cut: {max_chars} characters are shown]"


def last_lines(raw: bytes, count: int) -> str:
    """Return the last lines of what a program wrote."""
    return "\n".join(raw.decode("utf-8", "replace").strip().splitlines()[-count:])[-MAX_CHARS:]
