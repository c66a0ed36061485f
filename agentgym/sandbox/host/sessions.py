"""Restores Python sessions in a fork: a snapshot has no processes, so the code of each session is run again.

    log = sandbox.session_log
    fork = await backend.create(spec, snapshot=await sandbox.snapshot())
    await replay_sessions(fork, log)

The code runs on the files as they are in the snapshot, not as they were when it first ran. Code that reads a file it
later removed, or that depends on the time, on random numbers or on its process id, may compute other variables.
`replay_sessions` notices only a different exit code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Sandbox

MAX_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class SessionCall:
    """Code that ran in a session to its end, whether or not it raised."""

    session: str
    code: str
    exit_code: int


class SessionLog:
    """The calls of the live sessions, in order. With more than 4 MiB of code, the log becomes incomplete."""

    def __init__(self, calls: Iterable[SessionCall] = (), *, complete: bool = True) -> None:
        self._calls, self.complete = list(calls), complete
        self._size = sum(len(call.code) for call in self._calls)

    @property
    def calls(self) -> tuple[SessionCall, ...]:
        return tuple(self._calls)

    def add(self, call: SessionCall) -> None:
        self._size += len(call.code)
        if self._size > MAX_BYTES:
            self.complete = False
            self._calls.clear()
        elif self.complete:
            self._calls.append(call)

    def forget(self, session: str) -> None:
        """Remove the calls of a session whose process has ended."""
        self._calls = [call for call in self._calls if call.session != session]

    def copy(self) -> SessionLog:
        return SessionLog(self._calls, complete=self.complete)


async def replay_sessions(sandbox: Sandbox, log: SessionLog, *, timeout_s: float = 30) -> None:
    """Run the calls of a log again, in order, to give a sandbox the sessions of another sandbox.

    Args:
        timeout_s: time limit per call.
    Raises: SandboxError if the log is incomplete, or a call ends with a different exit code than before; SandboxDied.
    """
    if not log.complete:
        raise SandboxError(
            f"The sessions cannot be replayed: they ran more than {MAX_BYTES} bytes of code, of which no full record "
            "is kept."
        )
    for number, call in enumerate(log.calls, 1):
        result = await sandbox.run_python(call.code, session=call.session, timeout_s=timeout_s)
        if result.timed_out or result.exit_code != call.exit_code:
            ending = "timed out" if result.timed_out else f"ended with exit code {result.exit_code}"
            raise SandboxError(
                f"Session {call.session!r} cannot be replayed: call {number} of {len(log.calls)} {ending}, but "
                f"{call.exit_code} when it first ran. Its standard error was: "
                f"{result.stderr[-300:].decode('utf-8', 'replace')!r}"
            )
