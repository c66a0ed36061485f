"""Branches: other endings of a saved trajectory; and its replay.

A branch says the turns before its fork again, word for word and token for token, checks that the world
answers as it did then, and lets a policy go on. A world that answers otherwise (a clock, a changed file) is no
place to compare from: the branch fails with ReplayDiverged, and is not used.

    forks = [Fork(trajectory, turn=2)]
    async for other in manager.branch(forks, samples=4): ...
    await manager.replay(trajectory)             # None, or the first divergence
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.environment import Checkpoint
from agentgym.errors import PolicyError, ReplayDiverged
from agentgym.messages import Message
from agentgym.policy.contract import Policy, Reply, Request
from agentgym.trajectory import Trajectory, Turn


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a branch leaves a trajectory: before its turn `turn`. 0 is from the start, `len(turns)` is its end.

    `checkpoint`: of the world before that turn, where one was kept; the branch goes on from it. Without one the calls
    of the turns before are run again.
    Raises: ValueError for a turn that the trajectory does not have.
    """

    trajectory: Trajectory
    turn: int
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.turn <= len(self.trajectory.turns):
            raise ValueError(
                f"Fork.turn is {self.turn} in {self.trajectory.id!r}, which has {len(self.trajectory.turns)} turns: "
                "a fork lies before one of them, counted from 0, or after the last."
            )


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a replay first differs from its record.

    Attributes:
        turn: the first turn whose outcome differs; -1 for the opening messages.
        what: `opening`, `result`, `state`, `ending`.
        expected, got: the record's and the replay's, as text.
    """

    turn: int
    what: str
    expected: str
    got: str

    def __str__(self) -> str:
        place = "The opening" if self.turn < 0 else f"Turn {self.turn}"
        return f"{place} differs in its {self.what}: recorded {self.expected:.300}, replayed {self.got:.300}"


class Recorded(Policy):
    """Says the turns before a fork again, then hands over to another policy.

    Where that policy reads tokens and the record has the same ones, they are repeated exactly, with the
    log-probabilities and the version they were sampled with; else its renderer encodes the recorded messages.
    """

    def __init__(self, fork: Fork, then: Policy) -> None:
        self.fork, self.then = fork, then
        self.name, self.renderer = then.name, then.renderer
        self.version, self.context_tokens = then.version, then.context_tokens

    async def generate(self, request: Request) -> Reply:
        """The recorded reply, or the other policy's. Raises: ReplayDiverged before any token is sampled."""
        turn, record = request.turn, self.fork.trajectory
        if turn > self.fork.turn:
            return await self.then.generate(request)
        if (found := heard_otherwise(record, request.messages, turn)) is not None:
            raise ReplayDiverged(f"The replay of {record.id!r} cannot be compared with its record. {found}")
        if turn == self.fork.turn:
            return await self.then.generate(request)
        said = record.turns[turn]
        reply = Reply(said.message, finish_reason="length" if said.finish_reason == "length" else "stop")
        reply.policy_version = said.policy_version
        if self.renderer is not None:
            if request.prefix_ids is not None and list(request.prefix_ids) == _prefix(record, turn):
                reply.token_ids, reply.logprobs = list(said.token_ids), list(said.logprobs) or None
            else:
                reply.token_ids = self.renderer.encode(said.message)
        return reply

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        return await self.then.score(prefix_ids, continuation_ids)

    def episode_started(self, episode: str) -> None:
        self.then.episode_started(episode)

    def episode_ended(self, episode: str) -> None:
        self.then.episode_ended(episode)


class Ended(Policy):
    """Has nothing to say: for a replay of the whole record, which ends before it is asked."""

    name = "replay"

    async def generate(self, request: Request) -> Reply:
        raise PolicyError("The record has ended, and the replay has not.")


def heard_otherwise(record: Trajectory, messages: Sequence[Message], turn: int) -> Divergence | None:
    """The first difference between a conversation before turn `turn` and the record's."""
    if (expected := list(record.opening)) != (got := list(messages[: len(expected)])):
        return Divergence(-1, "opening", _text(expected), _text(got))
    at = len(record.opening)
    for said in record.turns[:turn]:
        expected = [said.message, *(result.message() for result in said.results), *said.replies]
        got = list(messages[at : at + len(expected)])
        if expected != got:
            return Divergence(said.index, "result", _text(expected[1:]), _text(got[1:]))
        at += len(expected)
    return None


def differs(record: Trajectory, played: Trajectory, turns: int) -> Divergence | None:
    """The first difference in the opening, the results and states of `turns` turns, and the state after them."""
    if (expected := list(record.opening)) != (got := list(played.opening)):
        return Divergence(-1, "opening", _text(expected), _text(got))
    for then, now in zip(record.turns[: turns + 1], played.turns[: turns + 1], strict=False):
        if then.state_key is not None and then.state_key != now.state_key:
            return Divergence(max(then.index - 1, 0), "state", then.state_key, str(now.state_key))
        if then.index < turns and (found := _other_results(then, now)) is not None:
            return found
    return None


def _other_results(then: Turn, now: Turn) -> Divergence | None:
    expected = [*(result.message() for result in then.results), *then.replies]
    got = [*(result.message() for result in now.results), *now.replies]
    return None if expected == got else Divergence(then.index, "result", _text(expected), _text(got))


def ended_otherwise(record: Trajectory, played: Trajectory) -> Divergence | None:
    """How the end of a whole replay differs from the record's."""
    last = max(len(record.turns) - 1, 0)
    if len(played.turns) != len(record.turns):
        return Divergence(last, "ending", f"{len(record.turns)} turns", f"{len(played.turns)} turns ({played.error})")
    by_budget = record.stop_reason is None or record.stop_reason.truncated
    if record.stop_reason != played.stop_reason and not by_budget:
        return Divergence(last, "ending", str(record.stop_reason), f"{played.stop_reason} ({played.error})")
    return None


def tree_labels(trajectories: Sequence[Trajectory]) -> list[list[str]]:
    """The tree node that each turn is: branches share the labels of the turns they repeat.

    For `Group.from_arrays(branches=...)`. A branch of a branch is followed down to where a turn was first sampled.
    """
    known = {trajectory.id: trajectory for trajectory in trajectories}

    def label(trajectory: Trajectory, turn: int) -> str:
        while (origin := trajectory.provenance.get("branch")) and turn < origin["turn"]:
            parent = known.get(origin["of"])
            if parent is None or parent is trajectory:
                return f"{origin['of']}:{turn}"
            trajectory = parent
        return f"{trajectory.id}:{turn}"

    return [[label(trajectory, turn.index) for turn in trajectory.turns] for trajectory in trajectories]


def _prefix(record: Trajectory, turn: int) -> list[int]:
    """The token ids the policy had seen before it wrote turn `turn`."""
    ids = list(record.prompt_ids)
    for said in record.turns[:turn]:
        ids += [*said.token_ids, *said.observation_ids]
    return ids


def _text(messages: Sequence[Message]) -> str:
    return repr([f"{message.role}: {message.text}" for message in messages])
