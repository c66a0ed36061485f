"""The environment of a running episode: creates, reads, meters, restores and closes it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agentgym.environment import EnvironmentWrapper
from agentgym.environment.contract import Environment
from agentgym.environment.state import Checkpoint
from agentgym.errors import SandboxExhausted, ToolError
from agentgym.messages import Message, Result
from agentgym.rollout.checks import awaited, check_messages
from agentgym.rollout.prompt import with_additions
from agentgym.sandbox import Usage
from agentgym.sandbox.limits import in_order
from agentgym.sandbox.metering import combine_usage, usage_counts, usage_since
from agentgym.task.definition import Task
from agentgym.trajectory import PromptAddition, Provenance
from agentgym.trajectory.turn import Turn

CLOSE_S = 60.0
"""How long an environment may take to close before it is abandoned."""
T = TypeVar("T")
_REPORTED_BY_CALLS = ("cpu_s", "written_bytes")  # not wall times and processes, which overlap in parallel calls


@dataclass(frozen=True, slots=True)
class EnvironmentState:
    """An environment's state before a turn. A part that the environment does not offer is None."""

    state_key: str | None = None
    potential: float | None = None
    checkpoint: Checkpoint | None = None


NO_STATE = EnvironmentState()
"""The state of an environment that offers none of its parts, like most environments."""


class EnvironmentHandle:
    """One episode's environment, and its fresh replacement after a failure.

    Args:
        make: makes a fresh environment.
        checkpoints, state_keys: whether to take checkpoints, and to read state keys. A wrapper that repeats a record is
            always asked for its state key, because that call moves the wrapper on to the next turn.
    Attributes:
        current: the environment in use.
        unwrapped: the environment inside any transparent wrappers: the one whose class, tools and role the episode
            records.
        state: its most recently read state.
        has_state: whether its class offers any part of a state.
    """

    def __init__(self, make: Callable[[], Environment], *, checkpoints: bool, state_keys: bool = True) -> None:
        self._make = make
        self._use(make())
        self.state = NO_STATE
        environment_class = type(self.current)
        is_wanted = state_keys or self.unwrapped is not self.current
        self._offers_state_key = is_wanted and environment_class.state_key is not Environment.state_key
        self._offers_potential = environment_class.potential is not Environment.potential
        self._offers_checkpoint = checkpoints and environment_class.checkpoint is not Environment.checkpoint
        self.has_state = self._offers_state_key or self._offers_potential or self._offers_checkpoint

    def _use(self, environment: Environment) -> None:
        self.current, self.unwrapped = environment, EnvironmentWrapper.unwrap(environment)
        self._closed, self._last_usage = False, Usage()

    async def read_state(self, turns: Sequence[Turn], note: Callable[[str], None]) -> EnvironmentState:
        """Return the state after some turns, reading only the parts that the environment's class offers.

        The episode continues if the agent has made the state unreadable (ToolError): the state key is then a hash of
        the agent's messages and calls, and the potential is the last known one.

        Args:
            note: called with each part about to be read, for error messages.
        Raises: SandboxExhausted; other errors of the environment; ValueError for a potential that is not finite.
        """
        environment, turn = self.current, len(turns)
        state_key, potential, checkpoint = None, None, None
        if self._offers_state_key:
            note(f"reading the state before turn {turn}")
            state_key = await _unless_prevented(environment.state_key(), lambda: _history_key(turns))
        if self._offers_potential:
            note(f"reading the potential before turn {turn}")
            potential = await _unless_prevented(environment.potential(), lambda: _last_potential(turns))
            if potential is not None and not math.isfinite(potential):
                name = type(environment).__name__
                raise ValueError(f"{name}.potential() returned {potential!r}. Return a finite number, or None.")
            potential = None if potential is None else float(potential)
        if self._offers_checkpoint:
            note(f"taking a checkpoint before turn {turn}")
            checkpoint = await _unless_prevented(environment.checkpoint(), lambda: None)
        if state_key is None and potential is None and checkpoint is None:
            self.state = NO_STATE
        else:
            self.state = EnvironmentState(state_key, potential, checkpoint)
        return self.state

    async def read_end_state(
        self, turns: Sequence[Turn], note: Callable[[str], None], time_s: float
    ) -> EnvironmentState:
        """Return the state of an ended episode; `NO_STATE` if the agent has ended the sandbox that holds the state.

        Raises: TimeoutError after `time_s`; as `read_state`.
        """
        try:
            async with asyncio.timeout(time_s):
                return await self.read_state(turns, note)
        except SandboxExhausted:
            return NO_STATE

    def note_sandboxes(self, provenance: Provenance) -> None:
        """Record the images of the sandboxes that are open now, and the limits that these do not enforce."""
        sandboxes = self.current.sandboxes
        if sandboxes.were_opened or sandboxes.shared:
            provenance.image_digests = sandboxes.image_digests or provenance.image_digests
            provenance.weaker_limits = in_order((*provenance.weaker_limits, *sandboxes.weaker_limits))

    def is_metered(self) -> bool:
        """Return whether the environment may have used a sandbox."""
        environment = self.current
        return environment.backend is not None or environment.sandboxes.were_opened

    async def usage_since_last(self, results: Sequence[Result] = ()) -> dict[str, float]:
        """Return the sandbox usage since the last reading, by name; empty if there were no sandboxes.

        The sandboxes' own counters include everything, with parallel calls counted once. But a sandbox that was opened
        and closed in between appears only in the usage that the calls report. So the larger of the two values is used.
        """
        if not self.is_metered():
            return {}
        now = await self.current.sandboxes.usage()
        counts = usage_counts(usage_since(now, self._last_usage))
        self._last_usage = now
        reported = combine_usage([dict(result.usage) for result in results])
        for name in _REPORTED_BY_CALLS:
            if reported.get(name, 0) > counts.get(name, 0):
                counts[name] = reported[name]
        if reported.get("peak_memory_mib"):  # the figure of a process includes memory that it shares with others
            counts.setdefault("peak_memory_mib", reported["peak_memory_mib"])
        return counts

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> str | None:
        """Continue in a fresh environment restored to a checkpoint. Returns: as `close`, for the old environment."""
        close_error = await self.close()
        self._use(self._make())
        await self.current.restore(task.public(), checkpoint, seed=seed)
        return close_error

    async def reset(self, task: Task, seed: int, additions: Sequence[PromptAddition]) -> list[Message]:
        """Reset the environment. Raises: TypeError if it does not return messages.

        Returns: the opening messages, with the prompt additions.
        """
        method = self.unwrapped.reset
        opening: list[Message] = await awaited(self.current.reset(task.public(), seed=seed), method)
        check_messages(opening, method, "return task.opening()")
        return with_additions(opening, additions)

    async def renew(self, make: Callable[[], Environment]) -> str | None:
        """Continue in a fresh environment, not yet reset.

        Args:
            make: makes this environment, and its replacements after later failures.
        Returns: as `close`, for the old environment.
        """
        close_error = await self.close()
        self._make = make
        self._use(make())
        return close_error

    async def close(self) -> str | None:
        """Close the environment, once. Returns and raises: as `close_environment`."""
        if self._closed:
            return None
        self._closed = True
        return await close_environment(self.current)


async def _unless_prevented(reading: Awaitable[T], substitute: Callable[[], T]) -> T:
    """Return a part of the environment's state, or the substitute if the agent has made it unreadable."""
    try:
        return await reading
    except SandboxExhausted:
        raise
    except ToolError:
        return substitute()


def _history_key(turns: Sequence[Turn]) -> str:
    """Return a key that is equal for equal messages and calls, and never equals an environment's own key."""
    messages = [(turn.message.text, [(call.name, call.arguments) for call in turn.calls]) for turn in turns]
    text = json.dumps(messages, sort_keys=True, default=repr)
    return f"unread {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _last_potential(turns: Sequence[Turn]) -> float | None:
    return turns[-1].potential if turns else None


async def close_environment(environment: Environment) -> str | None:
    """Close an environment and wait for it, even if cancelled meanwhile; the cancellation is raised afterwards.

    Returns: what went wrong while closing, or None. This is a note, not an error, because the episode itself is still
        valid.
    Raises: asyncio.CancelledError
    """
    if type(environment).close is Environment.close and not environment.sandboxes:
        return None  # nothing to free
    loop = asyncio.get_running_loop()
    closing, deadline = loop.create_task(environment.close()), loop.time() + CLOSE_S
    cancellation: asyncio.CancelledError | None = None
    while not closing.done() and (remaining_s := deadline - loop.time()) > 0:
        try:
            await asyncio.wait({closing}, timeout=remaining_s)  # does not cancel the task
        except asyncio.CancelledError as error:
            cancellation = error
    if not closing.done():
        closing.cancel()
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieves a possible error
        note = f"close() took longer than {CLOSE_S:g} s and was given up; something may be left behind"
    elif closing.cancelled():
        note = "close() was cancelled from within"
    elif (failure := closing.exception()) is not None:
        note = f"{type(failure).__name__}: {str(failure)[:2000]}"
    else:
        note = None
    if cancellation is not None:
        raise cancellation
    return note
