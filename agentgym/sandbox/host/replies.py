"""Parses a guest's replies; checks the type and range of every field, because the guest may be hostile."""

from __future__ import annotations

import errno
import math
import os
from typing import Any

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import ExecResult, Usage
from agentgym.text import visible

_ROUNDING_S = 0.001


def exec_result(reply: tuple[dict[str, Any], bytes]) -> ExecResult:
    """Read a result. Raises: KeyError, TypeError, ValueError if it is invalid; SandboxError for a refusal."""
    header, blob = reply
    check_not_refused(header)
    first = whole_number(header, "out")
    if first > len(blob):
        raise ValueError(f"out is {first}, but the reply has only {len(blob)} bytes")
    exit_code, wall_s = header["exit"], seconds(header, "wall")
    waited_s = wall_s - seconds(header, "counted") if "counted" in header else 0.0
    if type(exit_code) is not int or not -255 <= exit_code <= 255:
        raise ValueError(f"exit is {exit_code!r:.40}, not a whole number from -255 to 255")
    return ExecResult(
        exit_code=exit_code,
        stdout=blob[:first],
        stderr=blob[first:],
        truncated=header["truncated"] is True,
        timed_out=header["timed_out"] is True,
        oom_killed=header["oom"] is True,
        duration_s=wall_s,
        usage=Usage(
            cpu_s=seconds(header, "cpu"),
            peak_memory_mib=whole_number(header, "peak") / 1024,
            disk_bytes=whole_number(header, "disk"),
            written_bytes=counted(header, "written"),
            started=counted(header, "started"),
            wall_s=wall_s,
            waited_s=waited_s if waited_s > _ROUNDING_S else 0.0,
        ),
    )


def check_not_refused(header: dict[str, Any]) -> None:
    """Raise SandboxError with the guest's reason."""
    if "error" in header:
        raise SandboxError(f"The sandbox refused the call: {header.get('text')!s:.500}.")


def usage_of(header: dict[str, Any]) -> Usage:
    """Read a usage. Raises: KeyError, TypeError, ValueError if it is invalid; SandboxError for a refusal."""
    check_not_refused(header)
    return Usage(
        cpu_s=seconds(header, "cpu"),
        peak_memory_mib=whole_number(header, "peak") / 1024,
        processes=whole_number(header, "processes"),
        disk_bytes=whole_number(header, "disk"),
        written_bytes=counted(header, "written"),
        started=counted(header, "started"),
    )


def names_of(blob: bytes, most: int) -> list[str]:
    """Return the names in a directory. Raises: ValueError if there are more than `most`."""
    if not blob:
        return []
    count = blob.count(b"\0") + 1
    if count > most:
        raise ValueError(f"a directory has {count} names, where at most {most} are allowed")
    return [name.decode("utf-8", "replace") for name in blob.split(b"\0")]


def whole_number(header: dict[str, Any], name: str) -> int:
    value = header[name]
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError(f"{name} is {value!r:.40}, not a whole number from 0 to 2**53")
    return value


def counted(header: dict[str, Any], name: str) -> int:
    """Return a number; 0 if the guest omits it, because its kernel does not count it."""
    return whole_number(header, name) if name in header else 0


def seconds(header: dict[str, Any], name: str) -> float:
    value = float(header[name])
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value!r}, not a finite number of at least 0")
    return value


def file_error(header: dict[str, Any], path: str) -> OSError:
    """Return the guest's error as the OSError that Python would raise: FileNotFoundError, PermissionError, ..."""
    number = whole_number(header, "errno")
    text = header["text"]
    if number not in errno.errorcode or not isinstance(text, str):
        raise ValueError(f"errno is {number} with the text {text!r:.40}, which is not an error of the system")
    return OSError(number, visible(text[:500]) or os.strerror(number), path)
