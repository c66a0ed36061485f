"""A turn: one agent message and the results it caused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentgym.messages import Call, Message, Result


@dataclass(frozen=True, slots=True)
class Span:
    """Characters that a turn wrote, with what a judge says of them.

    Attributes:
        start, end: the first character, and the one after the last, in the argument of a call or in the message's text.
        value: finite; its meaning is the judge's, for example 1 for a line that failed.
        call: which of the message's calls it lies in; None for the text of the message.
        argument: name of that call's text argument.
    """

    start: int
    end: int
    value: float = 1.0
    call: int | None = None
    argument: str = ""

    def text(self, message: Message) -> str:
        """Return the whole text that `start` and `end` count in. Raises: ValueError if the message has none there."""
        if self.call is None:
            return message.text
        calls = message.calls
        value = calls[self.call].arguments.get(self.argument) if 0 <= self.call < len(calls) else None
        if not isinstance(value, str):
            raise ValueError(f"the message has no text in the argument {self.argument!r} of call {self.call}")
        return value


@dataclass(frozen=True, slots=True)
class TokenMask:
    """Which tokens could be sampled at a place: those of `ids` alone if `allowed`, else all but those of `ids`."""

    ids: tuple[int, ...]
    allowed: bool


@dataclass(slots=True)
class Turn:
    """One agent message and the results it caused: the unit of credit."""

    index: int
    """The number of the turn, 0 for the first."""
    message: Message
    """What the agent wrote."""
    calls: Sequence[Call] = ()
    """The calls in the message."""
    results: Sequence[Result] = ()
    """The results of the calls, in the order of the calls."""
    token_ids: list[int] = field(default_factory=list)
    """The tokens of the message exactly as sampled, the end-of-turn token included; empty without a renderer."""
    logprobs: list[float] = field(default_factory=list)
    """The log-probabilities of these tokens as they were sampled; empty without a renderer."""
    observation_ids: list[int] = field(default_factory=list)
    """Tokens spliced in after the turn: results and the next generation prompt. It is empty after the last turn, so
    that a trajectory ends on the agent's own token."""
    replies: Sequence[Message] = ()
    """Messages that the environment added after the results. Of a program that plays, what it said; also a result in
    other words than those of the environment, as a tool's message."""
    policy_version: int = 0
    """The version of the weights that sampled the first token, the oldest of the turn."""
    rewards: dict[str, float] = field(default_factory=dict)
    """The turn-level components of the reward by name; an absent component is absent, not 0."""
    state_key: str | None = None
    """A hash of the canonical state before the turn; None where the environment has none."""
    value: float | None = None
    """The critic's value before the turn, where it is known."""
    potential: float | None = None
    """The environment's potential before the turn, where it is known."""
    finish_reason: str = "stop"
    """Why the message ended; `length` where a budget cut it off, `content_filter` where the model's server did."""
    generate_s: float = 0.0
    """The wall time of the message in seconds."""
    tools_s: float = 0.0
    """The wall time of the tools in seconds."""
    usage: dict[str, float] = field(default_factory=dict)
    """What the turn took, by name; what is absent is 0 or was not counted. Of the sandboxes: `cpu_s`, `wall_s`,
    `written_bytes`, `started` in the turn, `peak_memory_mib` so far, `processes` and `disk_bytes` after it (see
    agentgym.sandbox.Usage). Of an API: `prompt_tokens`, `completion_tokens`. Of the tools: their `cost`."""
    spans: Sequence[Span] = ()
    """The parts of the message that the reward named."""
    masks: Sequence[tuple[int, int, TokenMask]] = ()
    """Where a logit hook restricted what could be sampled: the first token, the one after the last, and the mask.
    `logprobs` are those of the masked distribution."""
    version_changes: Sequence[tuple[int, int]] = ()
    """Pairs (token, version) where the weights changed within the turn: from that token on, weights of this version
    sampled. Empty for nearly every turn."""
    policy: str = ""
    """The name of the policy that wrote the turn, where that is not the trajectory's policy but its guide, or the
    frozen policy of a role; else empty."""
    role: str = ""
    """The role that the agent has in the turn, where an episode has several; else empty."""
    row: int = 0
    """The number of the row that the turn lies in, see Row."""

    @property
    def last_version(self) -> int:
        """Version of the weights that sampled the turn's last token."""
        return self.version_changes[-1][1] if self.version_changes else self.policy_version

    def token_versions(self) -> NDArray[np.int64]:
        """[L] for each of the turn's own tokens the version of the weights that sampled it."""
        versions = np.full(len(self.token_ids), self.policy_version, np.int64)
        for token, version in self.version_changes:
            versions[token:] = version
        return versions

    def observation(self) -> list[Message]:
        """Return what the policy read after its message: results and replies.

        A program that plays may send a result in words of its own, which are a reply then, and may make calls that the
        message does not hold, whose results the policy does not read.
        """
        reworded = {reply.call_id for reply in self.replies if reply.role == "tool"}
        own_calls = self.calls[len(self.message.calls) :]
        unread = reworded | {call.id for call in own_calls}
        return [*(result.message() for result in self.results if result.call_id not in unread), *self.replies]

    @property
    def void(self) -> bool:
        """The turn held calls or text, but none that could be run."""
        return not any(call.error is None for call in self.calls)
