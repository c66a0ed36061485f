"""Branches, which give a saved trajectory another ending, and replays.

A branch repeats the turns before its fork word for word and token for token, checks that the environment answers as
recorded, and lets a policy continue. If the environment answers differently (a clock, a changed file), the branch
fails with ReplayDiverged and is not used.

    forks = [Fork(trajectory, turn=2)]
    async for branch in manager.branch(forks, group_size=4): ...
    await manager.replay(trajectory)             # None, or the first divergence
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from agentgym.environment import EnvironmentWrapper
from agentgym.environment.contract import Environment
from agentgym.environment.state import Checkpoint, Outlook
from agentgym.errors import PolicyError, ReplayDiverged
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.policy.contract import FinishReason, Policy, Reply, Request
from agentgym.task.definition import Task
from agentgym.text import counted
from agentgym.trajectory import ForkPoint
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a branch leaves a trajectory: before turn `turn`. 0 is the start, `len(turns)` is the end.

    `checkpoint`: the environment before that turn, if one was kept; the branch continues from it. Without a checkpoint,
    the calls of the earlier turns are run again.
    Raises: ValueError if the trajectory has no such turn; CreditError if it has several rows.
    """

    trajectory: Trajectory
    turn: int
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        self.trajectory.require_one_row("a branch")
        if not 0 <= self.turn <= len(self.trajectory.turns):
            raise ValueError(
                f"Fork.turn = {self.turn} is not possible: {self.trajectory.id!r} has {len(self.trajectory.turns)} "
                "turns. Give the number of a turn, counted from 0, or the number of turns to fork after the last."
            )

    @staticmethod
    def tree_labels(trajectories: Sequence[Trajectory]) -> list[list[str]]:
        """Return the label of each turn's tree node: branches share the labels of the turns they repeat.

        For `Group.from_arrays(branches=...)`. In a branch of a branch, a turn's label names the trajectory that first
        sampled it.
        """
        trajectories_by_id = {trajectory.id: trajectory for trajectory in trajectories}

        def label(trajectory: Trajectory, turn: int) -> str:
            while (fork := trajectory.provenance.branch) is not None and turn < fork.turn:
                parent = trajectories_by_id.get(fork.trajectory)
                if parent is None or parent is trajectory:
                    return f"{fork.trajectory}:{turn}"
                trajectory = parent
            return f"{trajectory.id}:{turn}"

        return [[label(trajectory, turn.index) for turn in trajectory.turns] for trajectory in trajectories]

    @property
    def point(self) -> ForkPoint:
        """The fork in the form recorded in a branch's provenance."""
        return ForkPoint(self.trajectory.id, self.turn)

    def fail_if_diverged(self, branch: Trajectory) -> None:
        """Mark a branch failed if the states of its repeated turns differ from the record's."""
        if branch.valid and (divergence := trajectory_divergence(self.trajectory, branch, self.turn)) is not None:
            branch.stop_reason, branch.outcome = StopReason.INFRA_ERROR, {}
            branch.error = f"ReplayDiverged: {divergence}"


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a replay first differs from its record.

    Attributes:
        turn: the first turn whose outcome differs; -1 for the opening messages.
        what: `opening`, `result`, `state` or `ending`.
        expected, got: the recorded and the replayed value, as text.
    """

    turn: int
    what: str
    expected: str
    got: str

    def __str__(self) -> str:
        subject = "The opening" if self.turn < 0 else f"Turn {self.turn}"
        return f"{subject} differs in its {self.what}: recorded {self.expected:.300}, replayed {self.got:.300}"


class ReplayPolicy(Policy):
    """Repeats the turns before a fork, then hands over to another policy.

    If that policy reads tokens and the prefix matches the record, the recorded tokens are repeated exactly, with their
    log-probabilities and version; otherwise its renderer encodes the recorded messages.
    """

    def __init__(self, fork: Fork, successor: Policy) -> None:
        self.fork, self.successor = fork, successor
        self.name, self.renderer = successor.name, successor.renderer
        self.version, self.context_tokens = successor.version, successor.context_tokens
        self.repeats = successor.repeats

    async def generate(self, request: Request) -> Reply:
        """Return the recorded reply; from the fork on, the other policy's. Raises: ReplayDiverged before sampling."""
        turn, record = request.turn, self.fork.trajectory
        if turn > self.fork.turn:
            return await self.successor.generate(request)
        if (divergence := message_divergence(record, request.messages, turn)) is not None:
            raise ReplayDiverged(f"The replay of {record.id!r} has diverged from its record. {divergence}")
        if turn == self.fork.turn:
            return await self.successor.generate(request)
        recorded = record.turns[turn]
        reply = Reply(recorded.message, finish_reason=cast(FinishReason, recorded.finish_reason))
        reply.policy_version = recorded.policy_version
        if self.renderer is not None:
            if request.prefix_ids is not None and list(request.prefix_ids) == _prefix_ids(record, turn):
                reply.token_ids, reply.logprobs = list(recorded.token_ids), list(recorded.logprobs) or None
                reply.version_changes = recorded.version_changes
            else:
                reply.token_ids = self.renderer.encode(request.with_call_ids(recorded.message, self.renderer))
        return reply

    async def repeat(self, request: Request, token_ids: Sequence[int]) -> None:
        if request.turn >= self.fork.turn:  # the turns before were not sampled
            await self.successor.repeat(request, token_ids)

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        return await self.successor.score(prefix_ids, continuation_ids)

    def episode_started(self, episode: str) -> None:
        self.successor.episode_started(episode)

    def episode_ended(self, episode: str) -> None:
        self.successor.episode_ended(episode)


class ExhaustedPolicy(Policy):
    """A policy that never answers, for the replay of a whole record, which ends before the policy is asked."""

    name = "replay"

    async def generate(self, request: Request) -> Reply:
        raise PolicyError("The replay needs one more turn, but its record has ended.")


class RestoredEnvironment(EnvironmentWrapper):
    """A fresh environment, restored to a fork's checkpoint. It answers the turns before the fork from the record.

    Before the fork, nothing is run again; from the fork on, the environment itself answers.

    Args:
        environment: made for this branch alone.
        fork: the record, the turn of the fork, and the checkpoint taken before that turn.
        turns: the recorded turns to answer from the record.
        restores: whether the fork follows these turns; otherwise a hook renews the environment first, and the
            checkpoint is not restored.
    """

    is_transparent = True

    def __init__(self, environment: Environment, fork: Fork, turns: Sequence[Turn], *, restores: bool) -> None:
        super().__init__(environment)
        self._fork, self._restores = fork, restores
        self._remaining = deque(turns)
        self._recorded: Turn | None = None  # the turn being repeated
        self._results: deque[Result] = deque()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        if self._restores:
            assert self._fork.checkpoint is not None
            await self._environment.restore(task, self._fork.checkpoint, seed=seed)
        else:
            await self._environment.reset(task, seed=seed)
        return list(self._fork.trajectory.opening)

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self._remaining.clear()
        self._recorded = None
        await self._environment.restore(task, checkpoint, seed=seed)

    async def state_key(self) -> str | None:
        """Return the state key. The loop reads it before each turn, so this call moves on to the next recorded turn."""
        self._recorded = self._remaining.popleft() if self._remaining else None
        self._results = deque(self._recorded.results if self._recorded else ())
        return self._recorded.state_key if self._recorded else await self._environment.state_key()

    async def potential(self) -> float | None:
        return self._recorded.potential if self._recorded else await self._environment.potential()

    async def outlook(self) -> Outlook | None:
        return None if self._recorded else await self._environment.outlook()

    async def checkpoint(self) -> Checkpoint | None:
        return None if self._recorded else await self._environment.checkpoint()

    async def call(self, call: Call) -> Result:
        return self._results.popleft() if self._recorded else await self._environment.call(call)

    async def respond(self, message: Message) -> list[Message]:
        return list(self._recorded.replies) if self._recorded else await self._environment.respond(message)


def message_divergence(record: Trajectory, messages: Sequence[Message], turn: int) -> Divergence | None:
    """Return the first difference between a conversation before turn `turn` and the recorded conversation."""
    if (expected := list(record.opening)) != (got := list(messages[: len(expected)])):
        return Divergence(-1, "opening", _text(expected), _text(got))
    start = len(record.opening)
    for recorded in record.turns[:turn]:
        expected = [recorded.message, *recorded.observation()]
        got = list(messages[start : start + len(expected)])
        if expected != got:
            return Divergence(recorded.index, "result", _text(expected[1:]), _text(got[1:]))
        start += len(expected)
    return None


def trajectory_divergence(record: Trajectory, replay: Trajectory, turns: int) -> Divergence | None:
    """Return the first difference in the opening, in the first `turns` turns, or in the state after those turns."""
    if (expected := list(record.opening)) != (got := list(replay.opening)):
        return Divergence(-1, "opening", _text(expected), _text(got))
    for recorded, replayed in zip(record.turns[: turns + 1], replay.turns[: turns + 1], strict=False):
        if recorded.state_key is not None and recorded.state_key != replayed.state_key:
            return Divergence(max(recorded.index - 1, 0), "state", recorded.state_key, str(replayed.state_key))
        if recorded.index < turns and (expected := recorded.observation()) != (got := replayed.observation()):
            return Divergence(recorded.index, "result", _text(expected), _text(got))
    return None


def ending_divergence(record: Trajectory, replay: Trajectory) -> Divergence | None:
    """Return how the end of a replay of the whole record differs from the recorded end; None if they are equal."""
    last = max(len(record.turns) - 1, 0)
    if len(replay.turns) != len(record.turns):
        return Divergence(
            last, "ending", counted(len(record.turns), "turn"), f"{counted(len(replay.turns), 'turn')} ({replay.error})"
        )
    by_budget = record.stop_reason is None or record.stop_reason.truncated
    if record.stop_reason != replay.stop_reason and not by_budget:
        return Divergence(last, "ending", str(record.stop_reason), f"{replay.stop_reason} ({replay.error})")
    return None


def _prefix_ids(record: Trajectory, turn: int) -> list[int]:
    """Return the token ids that the policy read before turn `turn`."""
    ids = list(record.prompt_ids)
    for recorded in record.turns[:turn]:
        ids += [*recorded.token_ids, *recorded.observation_ids]
    return ids


def _text(messages: Sequence[Message]) -> str:
    return repr([f"{message.role}: {message.text}" for message in messages])
