"""The rows that are sampled together: what each asks for, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from agentgym.policy.contract import FinishReason, Sampling
from agentgym.policy.key_values import KVPrefix
from agentgym.trajectory import TokenMask


@dataclass(slots=True)
class DecodeRequest:
    """One request in a batch, and its outcome.

    Attributes:
        prefix: tokens to continue.
        limit: how many tokens may be sampled.
        role: the role whose adapter is used, if the model has one per role; the same for all rows of a batch.
        past: a KVPrefix from an earlier turn, if it covers the start of the prefix.
        weights: a key of the weights that sample the first token; stored in `left`.
        keep: whether to store a KVPrefix in `left` for the next turn.
        ended: returns from the tokens so far whether a stop text was written (see CallFormat.stop).
        hook: returns the tokens that may follow (see LogitHook).
        recorded: a recorded reply, which the row repeats instead of sampling.
        masks: the masks from `hook`, as in agentgym.Turn.
        tilt: changes the logits of the next token, given the tokens so far (see LogitTilt).
        tokens, logprobs, finish_reason, left: the outcome; `left` is the new KVPrefix.
        version: the version of the weights that sampled the first token.
        version_changes: as in agentgym.Turn.
    """

    prefix: list[int]
    sampling: Sampling
    limit: int
    role: str = ""
    past: KVPrefix | None = None
    weights: Hashable = None
    keep: bool = False
    ended: Callable[[list[int]], bool] | None = None
    hook: Callable[[list[int]], TokenMask | None] | None = None
    tilt: Callable[[list[int], torch.Tensor], torch.Tensor] | None = None
    recorded: Sequence[int] = ()
    masks: list[tuple[int, int, TokenMask]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason = "length"
    left: KVPrefix | None = None
    version: int = 0
    version_changes: list[tuple[int, int]] = field(default_factory=list)

    @property
    def longest(self) -> int:
        """Return the largest number of tokens that the row can have at its end, including its prefix."""
        return len(self.prefix) + self.limit

    def append(self, token: int, logprob: float, version: int) -> None:
        """Append a token sampled by weights of this version."""
        if not self.tokens:
            self.version = version
        elif version != (self.version_changes[-1][1] if self.version_changes else self.version):
            self.version_changes.append((len(self.tokens), version))
        self.tokens.append(token)
        self.logprobs.append(logprob)


def fits(row: DecodeRequest, running: Sequence[DecodeRequest], max_tokens: int) -> bool:
    """Return whether a row can join others in a batch of `max_tokens` keys and values. A row alone always fits."""
    longest = max(each.longest for each in [*running, row])
    return not running or longest * (len(running) + 1) <= max_tokens


class RowSource(Protocol):
    """Gives rows to the decoder, and receives those that have ended."""

    def take(self, running: Sequence[DecodeRequest]) -> list[DecodeRequest]:
        """Return rows that join the running ones now; may be empty."""
        ...

    def is_awaited(self, row: DecodeRequest) -> bool:
        """Return whether the request of a row that was taken still waits for it."""
        ...

    def finish(self, row: DecodeRequest) -> None:
        """Receive a row that has ended."""
        ...
