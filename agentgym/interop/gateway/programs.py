"""A program that plays an episode: starting it, giving it the gateway's address, and ending it."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from agentgym.errors import AgentGymError, PolicyError
from agentgym.messages import Message, StopReason
from agentgym.text import counted

from .program_loop import ProgramLoop

LEAVE_S = 2.0
"""The grace period between telling a program to end and killing it."""
SHOWN_BYTES = 2000


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A command that plays one episode per run.

    Environment variables give it the task and the gateway: OPENAI_BASE_URL, OPENAI_API_KEY,
    ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, GOOGLE_GEMINI_BASE_URL, GEMINI_API_KEY, AGENTGYM_TASK (the task's text),
    AGENTGYM_URL (the gateway) and AGENTGYM_MCP_URL (the tools). It runs with the rights of this process, in an empty
    folder that is deleted after it.

    Attributes:
        command: the program and its arguments; `{task}` in an argument is replaced by the task's text.
        environment: further variables. It inherits only the variables named in `_own_variables`, such as PATH.
    Raises: AgentGymError for an empty command.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.command:
            raise AgentGymError("A program needs a command, for example ('python', 'agent.py').")

    @asynccontextmanager
    async def running(self, loop: ProgramLoop, url: str, token: str) -> AsyncIterator[None]:
        """Run the program for an episode; end it and its children after the block. Raises: PolicyError if it does not
        start.

        When the program ends by itself, the episode ends: with an answer or, if the program failed, without one.
        """
        task = "\n\n".join(_words(message) for message in loop.opening)
        with tempfile.TemporaryDirectory(prefix="agentgym-program-", ignore_cleanup_errors=True) as folder:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(part.replace("{task}", task) for part in self.command),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                    cwd=folder,
                    env={**_own_variables(), **variables(url, token, task), **self.environment},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise PolicyError(f"The program {self.command[0]!r} cannot be started: {error}") from error
            watching = asyncio.create_task(self._watch(process, loop))
            try:
                yield
            finally:
                await _ended(process)
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, process: asyncio.subprocess.Process, loop: ProgramLoop) -> None:
        """Read the program's output, keep the end of it, and end the episode when the program ends."""
        reading = asyncio.create_task(_tail(process.stdout))
        try:
            code = await process.wait()
            await asyncio.wait({reading}, timeout=LEAVE_S)  # a child may still hold the output open
            text = reading.result() if reading.done() else ""
        finally:
            reading.cancel()
        loop.note_program(command=list(self.command), exit_code=code, output=text)
        if loop.trajectory.turns:
            loop.end(StopReason.ANSWERED if code == 0 else StopReason.ENVIRONMENT)
        else:
            loop.fail(
                PolicyError(
                    f"The program ended with {code} before it requested a message from the policy. Its output ended "
                    f"with: {text!r}"
                )
            )


async def _tail(stream: asyncio.StreamReader | None) -> str:
    """Return the end of a program's output."""
    tail = b""
    while stream is not None and (part := await stream.read(1 << 16)):
        tail = (tail + part)[-SHOWN_BYTES:]
    return tail.decode("utf-8", "replace")


def variables(url: str, token: str, task: str) -> dict[str, str]:
    """Return a program's environment variables."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": token,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": token,
        "AGENTGYM_URL": url,
        "AGENTGYM_MCP_URL": f"{url}/mcp",
        "AGENTGYM_TOKEN": token,
        "AGENTGYM_TASK": task,
    }


def _words(message: Message) -> str:
    """Return the text of a message. Its images are at GET /episode."""
    count = len(message.images)
    note = f"[{counted(count, 'image')}: GET {{AGENTGYM_URL}}/episode]" if count else ""
    return "\n".join(filter(None, (message.text, note)))


def _own_variables() -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "OMP_NUM_THREADS")
    return {name: os.environ[name] for name in names if name in os.environ}


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Tell a program and its children to end, then kill them, and wait until they are gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LEAVE_S)
