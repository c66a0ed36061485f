"""Where episodes are played: in this process, or by workers on the nodes of a cluster, behind the same two methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, runtime_checkable

from agentgym.errors import RecipeError
from agentgym.policy.contract import Policy
from agentgym.registry import load
from agentgym.rollout.episode import Episode, EpisodeFactory
from agentgym.rollout.episodes import EpisodeJob


class EpisodePlayer(Protocol):
    """Plays the episodes of one run."""

    async def play(self, job: EpisodeJob, policy: Policy) -> None:
        """Play an episode into the trajectory of its job, to its stop reason.

        A cancelled episode has closed its environment before the session is left.
        Raises: LedgerError when a turn cannot be kept.
        """
        ...

    def recorded(self, job: EpisodeJob) -> None:
        """Told that the end of an episode is in the ledger, where there is one: it will not be asked for again."""
        ...

    def progress(self, job: EpisodeJob) -> tuple[int, str]:
        """Return a number that rises with the episode, and what it is doing now: "running the tool 'add' in turn 2"."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Plays episodes somewhere. One instance serves any number of runs.

    Attributes:
        name: as it is registered, for example `local`.
    """

    name: str

    def session(self, episodes: EpisodeFactory) -> AbstractAsyncContextManager[EpisodePlayer]:
        """Return the player of one run. Leaving the block ends what it still plays.

        Raises, when it is entered: AgentGymError saying what is missing.
        """
        ...


@runtime_checkable
class ConnectingEngine(Protocol):
    """An engine that needs something beside this process; optional."""

    def connect(self) -> None:
        """Connect to it, before a run writes anything. Raises: AgentGymError saying what is missing."""
        ...


@runtime_checkable
class ReportingEngine(Protocol):
    """An engine that can say how it is; optional."""

    def report(self) -> Mapping[str, float]:
        """`nodes` that play now, `lost` workers so far, `episodes` being played."""
        ...


class LocalPlayer:
    """Plays episodes on this event loop."""

    def __init__(self, episodes: EpisodeFactory) -> None:
        self._episodes = episodes
        self._playing: dict[str, Episode] = {}

    def episode(self, job: EpisodeJob, policy: Policy) -> Episode:
        """Make an episode that is ready to be played."""
        return self._episodes.episode(job, policy)

    async def play(self, job: EpisodeJob, policy: Policy) -> None:
        """Play an episode to its stop reason."""
        episode = self._playing[job.trajectory.id] = self.episode(job, policy)
        try:
            await episode.play()
        finally:
            del self._playing[job.trajectory.id]

    def recorded(self, job: EpisodeJob) -> None:
        """Do nothing: the ledger of this process has the end."""

    def progress(self, job: EpisodeJob) -> tuple[int, str]:
        """Return the turns of an episode so far, and what it is doing now."""
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
    program: Sequence[str] = (),
) -> Engine | None:
    """Make the engine of a name, as recipes and the command line give it; None for this process.

    Args:
        address, nodes: of its cluster.
        program: command of a program that plays each episode, over the engine `gateway`.
        backend: whose sandboxes must work on every node; None if none are needed.
    Raises: UnknownNameError; RecipeError for an address or a number of nodes without a cluster, and for a program on
        one.
    """
    if program:
        if name not in (None, LocalEngine.name, "gateway"):
            raise RecipeError(
                f"A program plays in this process, and not on the engine {name!r}: leave out one of both."
            )
        engine: Engine = load("engines", "gateway")(program)
        return engine
    if name in (None, LocalEngine.name):
        if address is not None or nodes is not None:
            given = f"address {address!r}" if address is not None else f"nodes {nodes}"
            raise RecipeError(
                f"The {given} is of a cluster, but episodes are played in this process: set engine = ray."
            )
        return None
    options = {"address": address, "nodes": nodes, "backend": backend}
    engine = load("engines", str(name))(**{key: value for key, value in options.items() if value is not None})
    return engine
