"""PolicyGateway: an engine whose episodes are played by programs that call the policy over HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

from agentgym.cluster.serving import FIRST_REQUEST_S, LOOPBACK, check_installed, listen
from agentgym.errors import AgentGymError
from agentgym.policy.contract import Policy
from agentgym.rollout.engine import EpisodePlayer, LocalPlayer
from agentgym.rollout.environment_handle import EnvironmentHandle
from agentgym.rollout.episode import Episode, EpisodeFactory
from agentgym.rollout.episodes import EpisodeConfig, EpisodeJob
from agentgym.rollout.failures import Retries
from agentgym.sandbox import Backend
from agentgym.trajectory.record import Trajectory

from .program_backend import ProgramBackend
from .program_loop import ProgramLoop
from .programs import AgentProgram
from .sessions import Sessions


class PolicyGateway:
    """Lets external programs play episodes: they request the policy's messages as they would from a model's API.

    It is an engine, usable wherever episodes are played: `RolloutConfig(engine=PolicyGateway(...))`. A gateway serves
    one run at a time.

    Args:
        program: run for each episode: an AgentProgram, its arguments, or a command alone. None lets clients take
            episodes: `POST /episodes` with one of `tokens`.
        tokens: the tokens of clients that take episodes, each at least 16 characters long.
        host, port: where to listen; port 0 takes any free one.
        silence_s: an episode without a request for this long is ended, and scored as it is. An episode without
            any request counts as failed.
        max_connections: the maximum number of open connections.
    Raises: MissingExtraError without the extra `serve`.
    """

    name = "gateway"

    def __init__(
        self,
        program: AgentProgram | Mapping[str, Any] | Sequence[str] | None = None,
        *,
        tokens: Sequence[str] = (),
        host: str = LOOPBACK,
        port: int = 0,
        silence_s: float = 120.0,
        max_connections: int = 1024,
    ) -> None:
        check_installed()
        self._program = AgentProgram.of(program)
        self._tokens, self._silence_s, self._max_connections = tuple(tokens), silence_s, max_connections
        self._host, self._port = host, port
        self._listening: socket.socket | None = None
        self._backends: dict[Backend, ProgramBackend] = {}
        self._is_open = False

    def identity(self) -> dict[str, Any]:
        """Return who plays: the program's command, or None if clients take the episodes."""
        return {"program": None if self._program is None else list(self._program.command)}

    def connect(self) -> None:
        """Check that either a program or clients can play. Raises: AgentGymError."""
        if (self._program is None) == (not self._tokens):
            raise AgentGymError(
                "Give the gateway either a program that plays the episodes, or tokens of clients that take them, not "
                "both."
            )

    def listen(self) -> str:
        """Listen early, so that clients can connect before a run begins. Returns: the address of the gateway.

        Raises: AgentGymError if no program could play, or the address cannot be used.
        """
        self.connect()
        if self._listening is None:
            self._listening = listen(self._host, self._port)
        return f"http://{self._host}:{self._listening.getsockname()[1]}"

    def session(self, episodes: EpisodeFactory) -> AbstractAsyncContextManager[EpisodePlayer]:
        """Answer requests while a run plays. Earlier clients wait, if the gateway already listens."""
        return self._session(episodes)

    @asynccontextmanager
    async def _session(self, episodes: EpisodeFactory) -> AsyncIterator[EpisodePlayer]:
        if unfit := [hook.name or type(hook).__name__ for hook in episodes.config.hooks if not hook.fits_programs]:
            raise AgentGymError(
                f"The hook `{unfit[0]}` cannot be used with a program, which plays an episode only once, in its own "
                "conversation. Leave it out."
            )
        if self._is_open:
            raise AgentGymError("This gateway is already serving a run. Create one gateway per run.")
        stays_open = self._listening is not None
        sessions = Sessions(self._program, self._tokens, self.listen(), self._backends)
        assert self._listening is not None
        self._is_open, server = True, self._server(sessions)
        serving = asyncio.create_task(server.serve(sockets=[self._listening.dup()]))
        try:
            yield ProgramPlayer(episodes, sessions, self._silence_s)
        finally:
            server.should_exit = True
            await serving
            self._is_open = False
            if not stays_open:
                self.close()

    def _server(self, sessions: Sessions) -> Any:
        import uvicorn

        from agentgym.cluster.connections import Connections, server_config

        from .application import application

        class Server(uvicorn.Server):
            """A server that leaves this process's signals alone."""

            @contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield

        connections = Connections(self._max_connections, FIRST_REQUEST_S)
        options = {"log_level": "critical", "lifespan": "off", "timeout_graceful_shutdown": 1}
        return Server(server_config(application(sessions, connections.accept), connections, **options))

    def close(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None


class ProgramPlayer(LocalPlayer):
    """Plays episodes on this event loop, each by a program."""

    def __init__(self, episodes: EpisodeFactory, sessions: Sessions, silence_s: float) -> None:
        super().__init__(episodes)
        self._sessions, self._silence_s = sessions, silence_s

    def episode(self, job: EpisodeJob, policy: Policy) -> Episode:
        """Return the episode of a job. Raises: AgentGymError if the program cannot play in its environment."""
        sessions = self._sessions
        sessions.check(self._episodes.config.environments, job.trajectory.task)
        episode = super().episode(job, policy)
        policy.episode_ended(job.trajectory.id)  # else the policy's batches would wait for a program that thinks
        episode.make_loop = self._make_loop
        return episode

    def _make_loop(
        self,
        config: EpisodeConfig,
        policy: Policy,
        trajectory: Trajectory,
        environment: EnvironmentHandle,
        retries: Retries,
    ) -> ProgramLoop:
        sessions = self._sessions
        sessions.equip(environment.current)
        how = sessions.connect, self._silence_s, sessions.agent_has_key, sessions.auxiliary_turns
        return ProgramLoop(*how, config, policy, trajectory, environment, retries)
