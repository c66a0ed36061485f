"""EpisodeWorker: plays whole episodes on a node, next to their sandboxes, for a remote driver.

The driver receives events from `collect` (policy requests, finished turns, ends of episodes) and sends items with
`deliver` (episodes to begin, replies, cancellations). The worker does not depend on the transport.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym import __version__, registry
from agentgym.cluster.episode_spool import EpisodeSpool
from agentgym.cluster.relay import DirectPolicy, Event, Mailbox, RelayedAccount, RelayedLedger, RelayedPolicy
from agentgym.errors import (
    EnvironmentServerError,
    JudgeError,
    NodeFailed,
    PolicyError,
    RemoteEnvironmentError,
    RewardError,
    SandboxError,
)
from agentgym.messages import StopReason
from agentgym.policy.account import charged_to
from agentgym.policy.contract import Policy
from agentgym.policy.served_weights import ServedWeights
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.environments import EnvironmentFactory
from agentgym.rollout.episode import Episode
from agentgym.rollout.episodes import Checkpoints, EpisodeConfig
from agentgym.rollout.hooks import EpisodeHook
from agentgym.rollout.replay import Fork, ReplayPolicy
from agentgym.rollout.sandbox_check import check_specs
from agentgym.sandbox import Backend
from agentgym.sandbox.limits import SandboxSpec, unenforceable
from agentgym.trajectory.record import Trajectory

COLLECT_S = 1.0
"""How long `collect` waits for an event before it returns none. A worker that is silent for longer is gone."""

SAME_EVERYWHERE = (PolicyError, JudgeError, RewardError, EnvironmentServerError, RemoteEnvironmentError)
"""Failures of resources that all nodes share. Other failures may be the node's: its disk, a sandbox, a package."""


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """The shared settings of a run's episodes, as plain data sent to each node.

    Attributes:
        rollout: how episodes are played, without the engine.
        policy: the name, renderer, version and context of the policy, which stays with the driver.
        copier: makes a copy of the policy on this node, see Policy.copier; None if the driver must be asked.
        ledger: the identity of the driver's ledger, which gets each turn when it finishes; empty for a ledger
            without identity, None without a ledger.
        checkpoints: keys of the requested checkpoints.
        refusal: why the run's account allows no more paid requests, empty while it does; None without an account.
        registered: the parts registered in the driver's process, by kind and name.
    """

    rollout: RolloutConfig
    budgets: Budgets
    temperature: float
    top_p: float
    seed_parts: tuple[object, ...]
    state_keys: bool
    hooks: tuple[EpisodeHook, ...]
    policy: Mapping[str, Any]
    copier: Callable[[], Policy] | None = None
    ledger: str | None = None
    checkpoints: tuple[tuple[str, int, int], ...] = ()
    refusal: str | None = None
    registered: Mapping[tuple[str, str], Any] = field(default_factory=dict)


async def node_facts(backend: str | Backend | None) -> dict[str, Any]:
    """Return the facts that a driver checks before using this node. Args: as EpisodeWorker.probe."""
    answer: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "nice": os.nice(0),
        "cpus": os.cpu_count() or 1,
        "agentgym": __version__,
        "python": platform.python_version(),
        "unavailable": "",
        "level": "",
        "missing": {},
    }
    if backend is not None:
        capabilities = await registry.shared_backend(backend).probe()
        answer |= {
            "level": capabilities.level,
            "unavailable": capabilities.reason,
            "missing": dict(capabilities.missing),
        }
    return answer


def fault_of(facts: Mapping[str, Any]) -> str:
    """Return why this process cannot use a node with these facts; empty if it can."""
    if facts["agentgym"] != __version__:
        return f"it has agentgym {facts['agentgym']}, and this process {__version__}: install the same on all."
    if facts["unavailable"]:
        return f"sandboxes cannot be made there: {facts['unavailable']}"
    return "" if SandboxSpec().accepts(facts["missing"]) else str(unenforceable(facts["missing"]))


class EpisodeWorker:
    """Plays the episodes of any number of runs and holds their sandbox backends. There is one worker per node.

    Args:
        folder: stores ended episodes that the driver has not recorded (see EpisodeSpool); None stores
            nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._sessions: dict[str, _Session] = {}
        self._folder = folder

    def beat(self) -> None:
        """Answer a heartbeat of the driver, on a dedicated thread."""

    async def probe(self, backend: str | None = None) -> dict[str, Any]:
        """Return the facts that the driver checks before using a node.

        Args:
            backend: probed by making a sandbox; `unavailable` in the answer is the reason for a failure.
        """
        return await node_facts(backend)

    async def check(
        self, specs: Sequence[SandboxSpec], backend: str | Backend, registered: Mapping[tuple[str, str], Any]
    ) -> SandboxError | None:
        """Open a sandbox for each spec on this node. Returns: why the node makes none, or only weaker ones."""
        registry.adopt(registered)
        try:
            await check_specs(specs, backend)
        except SandboxError as error:
            return error
        return None

    async def activity(self) -> dict[str, int]:
        """Return the current activity: `episodes` being played, and `asking`, open requests to the policy."""
        sessions = self._sessions.values()
        return {
            "episodes": sum(session.playing for session in sessions),
            "asking": sum(session.mailbox.asking for session in sessions),
        }

    async def heard(self) -> None:
        """Wait until the driver has been heard recently. A worker without a lease hears it always."""

    async def begin(self, session: str, spec: SessionSpec) -> tuple[set[str], str]:
        """Prepare for the episodes of a run.

        Returns: ids of episodes of its ledger that ended here earlier, and why this node asks the policy's server
            through the driver; empty if it asks it itself, or if only the driver can.
        """
        registry.adopt(spec.registered)
        spool = None
        if self._folder is not None and spec.ledger:
            spool = EpisodeSpool(self._folder, spec.ledger)
        copy, reason = await _copy_of(spec)
        self._sessions[session] = _Session(spec, spool, copy, self.heard)
        return spool.ids() if spool is not None else set(), reason

    async def deliver(self, session: str, items: list[Event]) -> None:
        """Process the driver's items: ("start", number, trajectory, fork), ("answer", request, value or error),
        ("cancel", number), ("recorded", number, id): the end need not be kept any more, ("refuse", None, why): no paid
        request may be sent any more, and ("weights", message, part, state), see ServedWeights.
        """
        if (running := self._sessions.get(session)) is not None:
            for item in items:
                running.do(item)

    async def collect(self, session: str) -> list[Event]:
        """Return all events since the last call; wait up to a second for one.

        Returns: ("ask", number, request, method, arguments), ("turn", number, turn, head), ("end", number, trajectory,
            checkpoints, NodeFailed or None), ("broken", number, text), ("paid", None, policy, tokens read, written),
            ("replied", number), ("settled", None, message, names).
        """
        running = self._sessions.get(session)
        return [] if running is None else await running.mailbox.take(COLLECT_S)

    def keep_ends(self) -> None:
        """Store ended episodes that the driver has not recorded on the disk, now and, as they end, from now on."""
        for running in self._sessions.values():
            running.keep_ends()

    async def end(self, session: str) -> None:
        """Cancel the episodes of a run and close their environments. Store unrecorded ends."""
        if (running := self._sessions.pop(session, None)) is not None:
            running.keep_ends()
            await running.close()

    async def close(self) -> None:
        """End every run, and close the sandboxes' backends."""
        await asyncio.gather(*(self.end(session) for session in [*self._sessions]))
        await registry.close_backends()


class _Session:
    """One run on this node."""

    def __init__(
        self, spec: SessionSpec, spool: EpisodeSpool | None, copy: Policy | None, heard: Callable[[], Awaitable[None]]
    ) -> None:
        self._spec, self.mailbox = spec, Mailbox()
        self._spool, self._copy, self._heard = spool, copy, heard
        self._settling: set[asyncio.Task[None]] = set()
        self._keeps_ends = False  # whether episodes are written to the disk as soon as they end
        self._unrecorded: dict[int, tuple[Trajectory, Checkpoints]] = {}
        self._episodes: dict[int, asyncio.Task[None]] = {}
        self._account = None if spec.refusal is None else RelayedAccount(self.mailbox, spec.refusal)
        with charged_to(self._account):
            self._environments = EnvironmentFactory(spec.rollout, self._policy(None), is_remote=True)

    @property
    def playing(self) -> int:
        """The number of episodes that have begun and not ended."""
        return len(self._episodes)

    def do(self, item: Event) -> None:
        kind, number, *rest = item
        if kind == "start":
            with charged_to(self._account):
                self._episodes[number] = asyncio.ensure_future(self._play(number, *rest))
        elif kind == "answer":
            self.mailbox.answer(number, rest[0])
        elif kind == "weights":
            self._take_weights(number, *rest)
        elif kind == "refuse":
            if self._account is not None:
                self._account.refusal = rest[0]
        elif kind == "recorded":
            self._unrecorded.pop(number, None)
            if self._spool is not None:
                self._spool.remove(rest[0])
        elif (episode := self._episodes.get(number)) is not None:
            episode.cancel()

    def keep_ends(self) -> None:
        """Write the unrecorded ended episodes to the disk, and future ones as they end."""
        self._keeps_ends = True
        unrecorded, self._unrecorded = self._unrecorded, {}
        for trajectory, checkpoints in unrecorded.values():
            if self._spool is not None:
                self._spool.write(trajectory, checkpoints)

    def _ended(self, number: int, trajectory: Trajectory, checkpoints: Checkpoints) -> None:
        """Keep an episode's end until the driver has recorded it. Failed episodes are played again, so not kept."""
        if self._spool is None or trajectory.stop_reason is StopReason.INFRA_ERROR:
            return
        self._unrecorded[number] = trajectory, checkpoints
        if self._keeps_ends:
            self.keep_ends()

    async def close(self) -> None:
        tasks = [*self._episodes.values(), *self._settling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._copy is not None:
            await self._copy.close()

    def _take_weights(self, message: int, part: int, state: Any) -> None:
        """Give a state to the copy of the policy, and answer the message once the copy has settled."""
        weights = ServedWeights() if self._copy is None else self._copy.served_weights[part]
        if self._copy is not None:
            weights.take(state)

        async def settle() -> None:
            self.mailbox.put(("settled", None, message, await weights.settled()))

        settling = asyncio.ensure_future(settle())
        self._settling.add(settling)
        settling.add_done_callback(self._settling.discard)

    def _policy(self, number: int | None) -> Policy:
        """Return the policy of an episode, or of judges (None)."""
        if self._copy is None:
            return RelayedPolicy(self.mailbox, number, self._spec.policy)
        return DirectPolicy(self.mailbox, number, self._copy, self._heard)

    async def _play(self, number: int, trajectory: Trajectory, fork: Fork | None) -> None:
        try:
            if self._spool is not None and (ended := self._spool.read(trajectory.id)) is not None:
                self.mailbox.put(("end", number, *ended, None))
                return
            checkpoints: Checkpoints = dict.fromkeys(self._spec.checkpoints)
            config = self._config(number, fork, checkpoints)
            policy = self._policy(number)
            if fork is not None and self._copy is not None:
                policy = ReplayPolicy(fork, policy)  # at the driver, a relayed policy is one
            episode = Episode(config, policy, trajectory)
            policy.episode_started(trajectory.id)
            try:
                await episode.play()
            finally:
                policy.episode_ended(trajectory.id)
            filled: Checkpoints = {key: checkpoint for key, checkpoint in checkpoints.items() if checkpoint is not None}
            self._ended(number, trajectory, filled)
            self.mailbox.put(("end", number, trajectory, filled, failure_of_node(episode)))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  Episode.play handles failures itself: this is our bug
            self.mailbox.put(("broken", number, f"{type(error).__name__}: {error}"))
        finally:
            with suppress(KeyError):
                del self._episodes[number]

    def _config(self, number: int, fork: Fork | None, checkpoints: Checkpoints) -> EpisodeConfig:
        spec = self._spec
        return EpisodeConfig(
            self._environments,
            budgets=spec.budgets,
            temperature=spec.temperature,
            top_p=spec.top_p,
            seed_parts=spec.seed_parts,
            fork=fork,
            ledger=RelayedLedger(self.mailbox, number) if spec.ledger is not None else None,
            checkpoints=checkpoints or None,
            state_keys=spec.state_keys,
            hooks=spec.hooks,
        )


async def _copy_of(spec: SessionSpec) -> tuple[Policy | None, str]:
    """Return a copy of the run's policy that reaches its server; or None, and why not if there might be one."""
    if spec.copier is None:
        return None, ""
    copy: Policy | None = None
    try:
        copy = spec.copier()
        await copy.check_reach()
        return copy, ""
    except PolicyError as error:
        if copy is not None:
            await copy.close()
        return None, str(error)


def failure_of_node(episode: Episode) -> NodeFailed | None:
    """Return the failure to report for an episode that may succeed on another node; None for any other episode.

    A judge's failure counts as the node's if a sandbox caused it.
    """
    failure = episode.failure
    if failure is None or (isinstance(failure, SAME_EVERYWHERE) and not isinstance(failure.__cause__, SandboxError)):
        return None
    return NodeFailed(episode.trajectory.error or "")
