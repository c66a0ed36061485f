"""A program on the host, with the rights of this process."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from agentgym.errors import PolicyError

from .program_end import SHOWN_BYTES, ProgramEnd, output_end

LEAVE_S = 2.0
"""The grace period between telling a program to end and killing it."""


@asynccontextmanager
async def start_on_host(
    command: Sequence[str], variables: Mapping[str, str]
) -> AsyncIterator[asyncio.Task[ProgramEnd]]:
    """Run a program in an empty folder; end it and its children after the block. Yields: its end.

    Raises: PolicyError if it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="agentgym-program-", ignore_cleanup_errors=True) as folder:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=folder,
                env={**_own_variables(), "AGENTGYM_HOME": folder, **variables},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise PolicyError(f"The program {command[0]!r} cannot be started: {error}") from error
        waiting = asyncio.create_task(_end_of(process))
        try:
            yield waiting
        finally:
            await _end(process)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            # a child in a session of its own may hold the output open; asyncio has no public name for this
            process._transport.close()  # type: ignore[attr-defined]


async def _end_of(process: asyncio.subprocess.Process) -> ProgramEnd:
    """Read the program's output until it ends, and return the end of it with the exit code."""
    reading = asyncio.create_task(_tail(process.stdout))
    try:
        code = await process.wait()
        await asyncio.wait({reading}, timeout=LEAVE_S)  # a child may still hold the output open
        return ProgramEnd(code, reading.result() if reading.done() else "")
    finally:
        reading.cancel()


async def _tail(stream: asyncio.StreamReader | None) -> str:
    """Return the end of a program's output."""
    tail = b""
    while stream is not None and (part := await stream.read(1 << 16)):
        tail = (tail + part)[-SHOWN_BYTES:]
    return output_end(tail)


def _own_variables() -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "OMP_NUM_THREADS")
    return {name: os.environ[name] for name in names if name in os.environ}


async def _end(process: asyncio.subprocess.Process) -> None:
    """Tell a program and its children to end, then kill them, and wait until they are gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LEAVE_S)
