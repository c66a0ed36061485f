"""`nlpo`: during reinforcement, sample only tokens that a slow copy of the policy considers likely."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers.cache_utils import DynamicCache

from agentgym import Policy, PolicyError
from agentgym.policy import Request
from agentgym.policy.logit_hooks import LogitHook
from agentgym.trajectory import TokenMask

if TYPE_CHECKING:  # rendering imports tokenizers
    from agentgym.policy import TemplateRenderer

FILE = "nlpo.pt"


class Nlpo:
    """Samples from the fewest tokens to which a slow copy of the policy gives the total probability `top_p`.

    The copy computes at temperature 1. It has the policy's weights at the start of reinforcement, and takes over the
    policy's current weights every `refresh_every` steps. Outside of reinforcement nothing is restricted. Each sampled
    token costs a forward pass of the copy, without batching.

    Args:
        policy: the policy whose model is copied.
        top_p: the total probability above; between 0 and 1, both excluded.
        refresh_every: the number of steps after which the copy takes over the policy's weights.
        at_least: at least this many of the likeliest tokens may be sampled.
    Raises: PolicyError for options out of range, and for a model with an adapter.
    Source: NLPO, Ramamurthy et al. 2023, arXiv:2210.01241. Constants: the recipe in the README of RL4LMs, the
        authors' code, has top-p 0.9, 20 updates between copies, and at least 100 tokens; here `at_least` is 1 by
        default.
    """

    def __init__(
        self,
        renderer: TemplateRenderer,
        end_ids: Sequence[int],
        *,
        policy: Policy,
        top_p: float = 0.9,
        refresh_every: int = 20,
        at_least: int = 1,
    ) -> None:
        if not 0 < top_p < 1 or refresh_every < 1 or at_least < 1:
            raise PolicyError(
                f"The logit hook 'nlpo' cannot use top_p = {top_p}, refresh_every = {refresh_every}, at_least = "
                f"{at_least}. Give a top_p between 0 and 1, and counts of at least 1."
            )
        self._policy, self._renderer = policy, renderer
        self._top_p, self._refresh_every, self._at_least = top_p, refresh_every, at_least
        self._slow: Any = None
        self._period = 0

    def __call__(self, request: Request) -> LogitHook | None:
        if self._slow is None:
            return None
        if (period := self._policy.version // self._refresh_every) != self._period:
            self._copy_weights()
            self._period = period
        prefix = request.prefix_ids or self._renderer.prompt(request.messages, request.tools)
        return _NucleusOfCopy(self._slow, prefix, self._top_p, self._at_least)

    def begin(self) -> None:
        """Copy the policy at the start of reinforcement."""
        if hasattr(self._model, "peft_config"):
            raise PolicyError(
                "The logit hook 'nlpo' copies the whole model, so it cannot be used where only an adapter is "
                "trained. Train all weights, or leave the hook out."
            )
        self._slow = copy.deepcopy(self._model).eval().requires_grad_(False)
        vars(self._slow).pop("forward", None)  # a trainer's own `forward` would compute with the original model
        self._period = self._policy.version // self._refresh_every

    def save(self, folder: Path) -> None:
        """Write the copy into a checkpoint folder."""
        if self._slow is not None:
            torch.save({"period": self._period, "weights": self._slow.state_dict()}, folder / FILE)

    def restore(self, folder: Path) -> None:
        """Continue from a checkpoint. Raises: PolicyError if it holds no copy."""
        if not (folder / FILE).is_file():
            raise PolicyError(
                f"{folder} does not contain the saved copy of the model that the logit hook 'nlpo' needs. Start the "
                "run anew."
            )
        self.begin()
        state = torch.load(folder / FILE, weights_only=True, map_location=self._model.device)
        self._slow.load_state_dict(state["weights"])
        self._period = state["period"]

    @property
    def _model(self) -> Any:
        return self._policy.model  # type: ignore[attr-defined]  # a policy with logit hooks has one

    @torch.no_grad()
    def _copy_weights(self) -> None:
        for slow, current in zip(self._slow.parameters(), self._model.parameters(), strict=True):
            slow.copy_(current)


class _NucleusOfCopy:
    """The hook of one request."""

    def __init__(self, model: Any, prefix: Sequence[int], top_p: float, at_least: int) -> None:
        self._model, self._top_p, self._at_least = model, top_p, at_least
        self._unread, self._sampled = list(prefix), 0
        self._cache = DynamicCache(config=model.config)

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        row = [*self._unread, *tokens[self._sampled :]]
        self._unread, self._sampled = [], len(tokens)
        with torch.no_grad():
            ids = torch.tensor([row], device=self._model.device)
            last = torch.tensor([len(row) - 1], device=self._model.device)
            logits = self._model(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=last).logits
        return nucleus(logits[0, -1], self._top_p, self._at_least)


def nucleus(logits: torch.Tensor, top_p: float, at_least: int = 1) -> TokenMask | None:
    """Return a mask of the fewest likeliest tokens that together have the probability `top_p`; None if all tokens are
    needed.
    """
    ordered, order = logits.double().softmax(-1).sort(descending=True, stable=True)
    inside = ordered.cumsum(-1) - ordered < top_p
    inside[:at_least] = True
    count = int(inside.sum())
    if count == len(order):
        return None
    if count <= len(order) // 2:
        return TokenMask(tuple(sorted(order[:count].tolist())), allowed=True)
    return TokenMask(tuple(sorted(order[count:].tolist())), allowed=False)
