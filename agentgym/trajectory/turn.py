"""A turn: one agent message and the results it caused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from agentgym.messages import Call, Message, Result


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a turn's characters, with a judge's value for them.

    Attributes:
        start, end: the half-open range of characters in the argument of a call or in the message's text.
        value: a finite number; the judge defines its meaning, for example 1 for a line that failed.
        call: index of the message's call that contains the span; None for the text of the message.
        argument: name of that call's text argument.
    """

    start: int
    end: int
    value: float = 1.0
    call: int | None = None
    argument: str = ""

    def text(self, message: Message) -> str:
        """Return the whole text that `start` and `end` index. Raises: ValueError if the message has no such text."""
        if self.call is None:
            return message.text
        calls = message.calls
        value = calls[self.call].arguments.get(self.argument) if 0 <= self.call < len(calls) else None
        if not isinstance(value, str):
            raise ValueError(f"the argument {self.argument!r} of call {self.call} has no text")
        return value


@dataclass(frozen=True, slots=True)
class TokenMask:
    """The tokens that could be sampled at a position: only `ids` if `allowed`, else all but `ids`."""

    ids: tuple[int, ...]
    allowed: bool


@dataclass(slots=True)
class Turn:
    """One agent message and the results it caused: the unit of credit."""

    index: int
    """The number of the turn, 0 for the first."""
    message: Message
    """The message that the agent wrote."""
    calls: Sequence[Call] = ()
    """The calls in the message."""
    results: Sequence[Result] = ()
    """The results of the calls, in the order of the calls."""
    token_ids: list[int] = field(default_factory=list)
    """The tokens of the message exactly as sampled, the end-of-turn token included; empty without a renderer."""
    logprobs: list[float] = field(default_factory=list)
    """The log-probabilities of these tokens under the sampling distribution; empty without a renderer."""
    observation_ids: list[int] = field(default_factory=list)
    """Tokens inserted after the turn: results and the next generation prompt. Empty after the last turn, so that a
    trajectory ends with the agent's own token."""
    replies: Sequence[Message] = ()
    """Messages that the environment added after the results. If an external program plays the agent: the program's own
    messages, and the results that it reworded, as tool messages."""
    policy_version: int = 0
    """The version of the weights that sampled the turn's first token, the oldest version in the turn."""
    rewards: dict[str, float] = field(default_factory=dict)
    """The turn-level components of the reward by name; an absent component is missing, not 0."""
    state_key: str | None = None
    """A hash of the canonical state before the turn; None if the environment has no state key."""
    value: float | None = None
    """The critic's value before the turn, if known."""
    potential: float | None = None
    """The environment's potential before the turn, if known."""
    finish_reason: str = "stop"
    """Why the message ended; `length` if a budget truncated it, `content_filter` if the model's server did."""
    generate_s: float = 0.0
    """The wall time for generating the message, in seconds."""
    tools_s: float = 0.0
    """The wall time of the tools in seconds."""
    usage: dict[str, float] = field(default_factory=dict)
    """The resources that the turn used, by name; an absent one is 0 or was not counted. Sandboxes: `cpu_s`, `wall_s`,
    `written_bytes`, `started` in the turn, `peak_memory_mib` so far, `processes` and `disk_bytes` after it (see
    agentgym.sandbox.Usage). API: `prompt_tokens`, `completion_tokens`. Tools: `cost`."""
    spans: Sequence[Span] = ()
    """The parts of the message to which the reward gave values."""
    masks: Sequence[tuple[int, int, TokenMask]] = ()
    """Where a logit hook restricted sampling: (first token, token after the last, mask). `logprobs` refer to the masked
    distribution."""
    version_changes: Sequence[tuple[int, int]] = ()
    """Pairs (token, version) if the weights changed within the turn: this version sampled from that token on. Empty
    for nearly every turn."""
    policy: str = ""
    """The name of the policy that wrote the turn, if not the trajectory's policy but its guide or the frozen policy of
    a role; else empty."""
    role: str = ""
    """The agent's role in the turn, if the episode has several; else empty."""
    row: int = 0
    """The number of the row that contains the turn, see Row."""

    @property
    def last_version(self) -> int:
        """Version of the weights that sampled the turn's last token."""
        return self.version_changes[-1][1] if self.version_changes else self.policy_version

    def token_versions(self) -> NDArray[np.int64]:
        """Return [L] the version of the weights that sampled each of the turn's own tokens."""
        versions = np.full(len(self.token_ids), self.policy_version, np.int64)
        for token, version in self.version_changes:
            versions[token:] = version
        return versions

    def observation(self) -> list[Message]:
        """Return the messages that the policy read after its own message: the results and the replies.

        An external program that plays the agent may reword a result, which then counts as a reply. It may also make
        calls that are not in the policy's message; the policy does not read the results of those.
        """
        reworded = {reply.call_id for reply in self.replies if reply.role == "tool"}
        own_calls = self.calls[len(self.message.calls) :]
        unread = reworded | {call.id for call in own_calls}
        return [*(result.message() for result in self.results if result.call_id not in unread), *self.replies]

    @property
    def void(self) -> bool:
        """Whether the turn has no call that could be run."""
        for call in self.calls:  # noqa: SIM110  each turn asks, and a generator takes longer
            if call.error is None:
                return False
        return True
