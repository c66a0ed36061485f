"""Where episodes are played: in this process or on the nodes of a cluster, through the same methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, runtime_checkable

from agentgym.errors import RecipeError
from agentgym.policy.contract import Policy
from agentgym.registry import load
from agentgym.rollout.episode import Episode, EpisodeFactory
from agentgym.rollout.episodes import EpisodeJob
from agentgym.sandbox import Backend
from agentgym.sandbox.limits import SandboxSpec


class EpisodePlayer(Protocol):
    """Plays the episodes of one run."""

    async def play(self, job: EpisodeJob, policy: Policy) -> None:
        """Play an episode into its job's trajectory until it has a stop reason.

        A cancelled episode closes its environment before the session is left.
        Raises: LedgerError when a turn cannot be stored.
        """
        ...

    def recorded(self, job: EpisodeJob) -> None:
        """Take note that an episode's end is stored (in the ledger, if any): the run never plays this episode again."""
        ...

    def progress(self, job: EpisodeJob) -> tuple[int, str]:
        """Return a number that grows as the episode advances, and its activity: "running the tool 'add' in turn 2"."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Plays episodes somewhere. One instance serves any number of runs.

    Attributes:
        name: the registered name, for example `local`.
    """

    name: str

    def session(self, episodes: EpisodeFactory) -> AbstractAsyncContextManager[EpisodePlayer]:
        """Return the player of one run. Leaving the block ends the episodes still being played.

        Raises, on entry: AgentGymError saying what is missing.
        """
        ...


@runtime_checkable
class ConnectingEngine(Protocol):
    """An engine that must connect to something outside this process; optional."""

    def connect(self) -> None:
        """Connect, before a run writes anything. Raises: AgentGymError saying what is missing."""
        ...


@runtime_checkable
class CheckingEngine(Protocol):
    """An engine that can open sandboxes where it plays before it plays; optional."""

    async def check(self, specs: Sequence[SandboxSpec], backend: str | Backend) -> None:
        """Open a sandbox for each spec everywhere. Raises: LimitUnenforceable, SandboxUnavailable; ClusterError."""
        ...


@runtime_checkable
class ReportingEngine(Protocol):
    """An engine that can report its status; optional."""

    def report(self) -> Mapping[str, float]:
        """Return `nodes` that are playing, `lost` workers so far, `episodes` being played, and `driver/busy`, the share
        of time, from 0 to 1, in which the event loop of this process computed.
        """
        ...


class LocalPlayer:
    """Plays episodes on this event loop."""

    def __init__(self, episodes: EpisodeFactory) -> None:
        self._episodes = episodes
        self._playing: dict[str, Episode] = {}

    def episode(self, job: EpisodeJob, policy: Policy) -> Episode:
        """Return an episode that is ready to play."""
        return self._episodes.episode(job, policy)

    async def play(self, job: EpisodeJob, policy: Policy) -> None:
        """Play an episode to its stop reason."""
        episode = self._playing[job.trajectory.id] = self.episode(job, policy)
        try:
            await episode.play()
        finally:
            del self._playing[job.trajectory.id]

    def recorded(self, job: EpisodeJob) -> None:
        """Do nothing: the episode's end is already in this process's ledger."""

    def progress(self, job: EpisodeJob) -> tuple[int, str]:
        """Return the number of turns of an episode so far, and its activity."""
        episode = self._playing.get(job.trajectory.id)
        return len(job.trajectory.turns), "starting" if episode is None else episode.activity


class LocalEngine:
    """Plays episodes in this process."""

    name = "local"

    @asynccontextmanager
    async def session(self, episodes: EpisodeFactory) -> AsyncIterator[EpisodePlayer]:
        """Return the player of one run."""
        yield LocalPlayer(episodes)


def engine_of(
    name: str | None,
    *,
    address: str | None = None,
    nodes: int | None = None,
    backend: str | None = None,
    wait_for_nodes_s: float | None = None,
    program: Mapping[str, Any] | Sequence[str] | None = None,
) -> Engine | None:
    """Create the engine that a recipe or the command line names; None for this process.

    Args:
        address, nodes: the address and the number of nodes of the engine's cluster.
        wait_for_nodes_s: how long a run waits when its cluster has no node left; None for the engine's default.
        program: a program that plays each episode, through the engine `gateway`: its command, or the arguments of
            AgentProgram.
        backend: the backend whose sandboxes must work on every node; None if no sandboxes are needed.
    Raises: UnknownNameError; RecipeError for an address or a number of nodes without a cluster, and for a program
        with a cluster.
    """
    if program:
        if name not in (None, LocalEngine.name, "gateway"):
            raise RecipeError(
                f"A program is always played in this process, so it cannot be combined with the engine {name!r}. "
                "Leave one of them out."
            )
        engine: Engine = load("engines", "gateway")(program)
        return engine
    of_cluster = {"address": address, "nodes": nodes, "wait_for_nodes_s": wait_for_nodes_s}
    if name in (None, LocalEngine.name):
        for option, value in of_cluster.items():
            if value is not None:
                raise RecipeError(
                    f"The {option} {value!r} has an effect only with a cluster, but episodes are played in this "
                    "process. Set engine = ray, or leave it out."
                )
        return None
    options = {**of_cluster, "backend": backend}
    engine = load("engines", str(name))(**{key: value for key, value in options.items() if value is not None})
    return engine
