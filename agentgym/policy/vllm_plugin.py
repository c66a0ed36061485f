"""A logits processor that vLLM loads, `vllm serve --logits-processors agentgym.policy.vllm_plugin:GrammarMasks`.

The processor runs in the server's processes, in an environment with vLLM, and applies the masks that a request asks
for. An error in it would end the server. So it ends a reply that it cannot mask, and the client rejects that reply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import torch
from transformers import AutoTokenizer
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from agentgym.errors import PolicyError
from agentgym.policy.logit_hooks.served_masks import (
    OTHER_TOKENS,
    PROBE,
    SAME_TOKENS,
    ServedGrammar,
    grammar_in,
)
from agentgym.policy.logit_hooks.token_automaton import AutomatonHook, TokenAutomaton, TokenTable
from agentgym.policy.sampling import restrict
from agentgym.trajectory import TokenMask

MAX_GRAMMARS = 64
"""The number of grammars whose masks are kept in memory at once."""
RowProcessor = Callable[[list[int], torch.Tensor], torch.Tensor]


class GrammarMasks(AdapterLogitsProcessor):
    """Masks of the grammar that a request names in its extra arguments; requests without a grammar are not changed.

    Raises: PolicyError, when the server starts, for a tokenizer other than byte-level BPE.
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        model = vllm_config.model_config
        tokenizer = AutoTokenizer.from_pretrained(
            model.tokenizer, revision=model.tokenizer_revision, trust_remote_code=model.trust_remote_code
        )
        self._table = lru_cache(maxsize=4)(partial(TokenTable, tokenizer))
        self._fingerprint = self._table(()).fingerprint
        self._masks = lru_cache(maxsize=MAX_GRAMMARS)(self._masks_of)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Check a request in the server's front end, which returns an error as its answer. Raises: ValueError."""
        grammar_in(sampling_params.extra_args)

    def is_argmax_invariant(self) -> bool:
        return False

    def new_req_logits_processor(self, params: Any) -> RowProcessor | None:
        """Return a function that masks the logits [V] of one request, given its sampled tokens."""
        extra_arguments = params.extra_args or {}
        if PROBE in extra_arguments:
            token = SAME_TOKENS if extra_arguments[PROBE] == self._fingerprint else OTHER_TOKENS
            return partial(_only, [token])
        grammar = grammar_in(extra_arguments)
        return None if grammar is None else self._masks(grammar).follow()

    def _masks_of(self, grammar: ServedGrammar) -> _Masks:
        return _Masks(TokenAutomaton(grammar.grammar(), self._table(grammar.end_ids)))


class _Masks:
    """The masks of one grammar, and their token ids as tensors."""

    def __init__(self, automaton: TokenAutomaton) -> None:
        self._automaton = automaton
        self._ids: dict[int, tuple[TokenMask, torch.Tensor]] = {}  # by the id of a mask that lives as long as the entry

    def follow(self) -> RowProcessor:
        """Return a function that masks the logits of one request."""
        return partial(self._apply, AutomatonHook(self._automaton))

    def _apply(self, hook: AutomatonHook, tokens: list[int], logits: torch.Tensor) -> torch.Tensor:
        try:
            mask = hook(tokens)
        except PolicyError:
            return _only(self._automaton.table.end_ids, tokens, logits)
        if mask is not None:
            if id(mask) not in self._ids:
                self._ids[id(mask)] = mask, torch.tensor(mask.ids, device=logits.device)
            restrict(logits, self._ids[id(mask)][1], allowed=mask.allowed)
        return logits


def _only(allowed: Any, _: list[int], logits: torch.Tensor) -> torch.Tensor:
    restrict(logits, torch.tensor(list(allowed), device=logits.device), allowed=True)
    return logits
