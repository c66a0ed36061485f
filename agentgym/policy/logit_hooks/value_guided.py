"""`value_guided`: tokens are sampled by the model's logits plus what a trained network says they are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from agentgym.errors import PolicyError
from agentgym.policy.contract import Request
from agentgym.policy.device import device_of
from agentgym.policy.logit_hooks.contract import LogitHook
from agentgym.policy.logit_hooks.tilts import GuidedTurn
from agentgym.policy.logit_hooks.value_networks import Scaled, load_values

if TYPE_CHECKING:  # rendering needs tokenizers
    from agentgym.policy.rendering import TemplateRenderer


class ValueGuided:
    """Adds `scale` (Q - V), or log E exp(scale x return), to the logits, by what the network in `path` predicts.

    Args:
        path: the checkpoint of a stage `implicit_q` or `outcome_head`.
        scale: beta of the one, 1 / eta of the other; with 0 nothing changes but that tokens beyond the candidates are
            out.
        candidates: how many of the likeliest tokens are valued; 0 values all.
    Raises: PolicyError if there is no such network, or if it is of other tokens.
    """

    tilts: ClassVar[bool] = True

    def __init__(
        self, renderer: TemplateRenderer, end_ids: Sequence[int], *, path: str, scale: float = 1.0, candidates: int = 20
    ) -> None:
        if candidates < 0:
            raise PolicyError(f"The logit hook 'value_guided': candidates = {candidates} is below 0.")
        self._values = Scaled(load_values(path, renderer.tokenizer, device_of("auto")), scale)
        self._renderer, self._candidates = renderer, candidates or None

    def __call__(self, request: Request) -> LogitHook:
        prefix = request.prefix_ids or self._renderer.prompt(request.messages, request.tools)
        return GuidedTurn(self._values, prefix, self._candidates)
