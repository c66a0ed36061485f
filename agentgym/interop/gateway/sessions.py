"""The episodes that programs play through a gateway, each under its own token."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agentgym.cluster.tokens import token_position
from agentgym.environment.contract import Environment
from agentgym.rollout.environments import EnvironmentFactory
from agentgym.sandbox import Backend
from agentgym.task.definition import Task

from .program_backend import ProgramBackend
from .program_loop import ProgramLoop
from .programs import AgentProgram


class Sessions:
    """The open episodes, by their tokens.

    Args:
        program: run for each episode; None lets clients take episodes with one of `tokens`.
        url: the URL of the gateway.
        backends: the backends with the program's package, by the backends without it; kept for further runs.
    """

    def __init__(
        self, program: AgentProgram | None, tokens: Sequence[str], url: str, backends: dict[Backend, ProgramBackend]
    ) -> None:
        self._program, self._tokens, self._url = program, tokens, url
        self._checked: set[str] = set()
        self._backends = backends
        self._open: dict[bytes, ProgramLoop] = {}
        self._unclaimed: asyncio.Queue[tuple[ProgramLoop, str]] = asyncio.Queue()

    @property
    def agent_has_key(self) -> bool:
        """Return whether the agent's commands can read the key of their episode: those of a program in its sandbox."""
        return self._program is not None and self._program.in_sandbox

    @property
    def auxiliary_turns(self) -> bool:
        """Return whether auxiliary requests are turns."""
        return self._program is not None and self._program.auxiliary_turns

    def check(self, environments: EnvironmentFactory, task: Task) -> None:
        """Check that the program can play in the environment of a task. Raises: AgentGymError saying what to do."""
        if self._program is not None and self._program.in_sandbox and task.environment not in self._checked:
            self._program.check(environments.make(task))
            self._checked.add(task.environment)

    def equip(self, environment: Environment) -> None:
        """Make the environment's sandboxes hold the program's package. Call it before the reset."""
        installed = self._program.installed if self._program is not None else None
        if installed is not None and (backend := environment.backend) is not None:
            environment.backend = self._backends.setdefault(backend, ProgramBackend(backend, installed.name))

    @asynccontextmanager
    async def connect(self, loop: ProgramLoop) -> AsyncIterator[None]:
        """Give an episode a token, and a program that plays it. Invalidate the token on exit."""
        token = secrets.token_urlsafe(32)
        self._open[_digest(token)] = loop
        try:
            if self._program is None:
                self.offer(loop, token)
                yield
            else:
                async with self._program.running(loop, self._url, token):
                    yield
        finally:
            del self._open[_digest(token)]

    def of(self, token: str) -> ProgramLoop | None:
        """Return the open episode of a token, or None."""
        return self._open.get(_digest(token))

    def is_servers(self, token: str) -> bool:
        """Return whether a token allows its sender to take episodes."""
        return token_position(token, self._tokens) is not None

    def offer(self, loop: ProgramLoop, token: str) -> None:
        """Let a client take an episode."""
        self._unclaimed.put_nowait((loop, token))

    async def claimed(self) -> tuple[ProgramLoop, str]:
        """Wait for the next untaken episode and return it with its token."""
        while True:
            loop, token = await self._unclaimed.get()
            if self.of(token) is not None:  # the episode may have ended while waiting
                return loop, token


def _digest(token: str) -> bytes:
    """Return a hash for comparing tokens, so that timing reveals nothing about them."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
