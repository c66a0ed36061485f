"""The spans that a reward named, as a token-level signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from agentgym import CreditError, Policy, Trajectory, Turn
from agentgym.training.signals import SignalProvider, SignalSources

from .token_spans import token_ranges, written_range


class NamedSpans(SignalProvider):
    """Compute `span_values`: for each of a turn's own tokens, the value of its span; NaN outside of all spans.

    A token belongs to a span that it overlaps. Of overlapping spans, the last one counts. A span that does not occur
    exactly once in the agent's text is left out, and counted in `spans/left_out`.

    Args:
        policy: its renderer's tokenizer maps tokens to characters.
    Raises: CreditError for a policy without a tokenizer.
    """

    provides: ClassVar[tuple[str, ...]] = ("span_values",)

    def __init__(self, policy: Policy) -> None:
        self._tokenizer = getattr(policy.renderer, "tokenizer", None)
        if self._tokenizer is None:
            raise CreditError(
                f"{policy.name} has no tokenizer, so spans of characters cannot be mapped to tokens. Use a local "
                "model, or one on a vLLM server."
            )
        self._named = self._left_out = 0

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> NamedSpans:
        return cls(sources.policy)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        self._named = self._left_out = 0
        return {"span_values": [[self._values(turn) if t.valid else [] for turn in t.turns] for t in trajectories]}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Return the numbers of named spans and of left-out spans in the last batch."""
        return {"spans/named": float(self._named), "spans/left_out": float(self._left_out)}

    def _values(self, turn: Turn) -> list[float] | np.ndarray:
        if not turn.spans:
            return []
        values = np.full(len(turn.token_ids), np.nan)
        text, ranges = token_ranges(self._tokenizer, turn.token_ids)
        self._named += len(turn.spans)
        for span in turn.spans:
            written = written_range(text, turn.message, span)
            if written is None:
                self._left_out += 1
                continue
            inside = [begin < written[1] and end > written[0] for begin, end in ranges]
            values[inside] = span.value
        return values
