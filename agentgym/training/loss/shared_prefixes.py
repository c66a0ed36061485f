"""Computes a prefix only once, with its gradient, if several sequences of a batch share it.

The keys and values of a shared prefix are expanded to its sequences, and gradients flow back through them. The prefixes
are found among the tokens: a group's prompt, a system message of several prompts, a conversation that is continued in
several ways. Source: Liu et al. 2025, "Prefix Grouper", arXiv:2506.05433.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.modeling_outputs import BaseModelOutputWithPast

from agentgym.policy.adapters import own_model
from agentgym.policy.key_values import can_share
from agentgym.policy.role_adapters import role_adapters_of
from agentgym.training.loss.microbatches import RowSizes, cheapest_cuts
from agentgym.training.model.sharding import is_sharded

MIN_SAVED = 128
"""Prefixes need a further forward pass, which must save at least this number of tokens, with padding; our choice."""
_PLAIN_INPUTS = {"input_ids", "attention_mask", "use_cache"}

Tokens = NDArray[np.int64]


def why_unshared(model: Any) -> str | None:
    """Return why the prefixes of a model's sequences are not shared, as a clause; None if they are.

    Args:
        model: a causal language model of transformers, with or without an adapter.
    """
    own = own_model(model)
    if hasattr(own.config, "vision_config"):
        return "the model reads images"
    if not can_share(own.config):
        return "its layers keep more than the keys and values of all tokens"
    if getattr(own.config, "output_router_logits", False):
        return "its loss reads which experts each token was sent to"
    if is_sharded(own):
        return "its weights are sharded"
    if role_adapters_of(model) is not None:
        return "each role has an adapter"
    if own.training and own.is_activation_checkpointing:
        return "machine.gradient_checkpointing keeps no keys and values"
    if own.training and [layer for layer in own.modules() if isinstance(layer, torch.nn.Dropout) and layer.p > 0]:
        return "each sequence has a dropout of its own"
    return None


def row_sizes(model: Any, batch: Mapping[str, torch.Tensor]) -> RowSizes:
    """Return the sizes of rows in a model's forward pass, with the prompts that it shares. `batch`: see RowSizes.of."""
    sizes = RowSizes.of(batch)
    return sizes if why_unshared(model) is None else RowSizes.unshared(sizes.lengths)


@contextmanager
def prefixes_shared(model: Any) -> Iterator[None]:
    """Make a model's backbone, inside the block, compute shared prefixes once. Its last hidden states stay the same.

    A model for which `why_unshared` gives a reason computes as always.
    """
    if why_unshared(model) is not None:
        yield
        return
    own = own_model(model)
    backbone = own.base_model
    replaced, compute = vars(backbone).get("forward"), backbone.forward

    def forward(*args: Any, **inputs: Any) -> Any:
        given = {name for name, value in inputs.items() if value is not None}  # peft passes further inputs as None
        is_plain = not args and {"input_ids", "attention_mask"} <= given <= _PLAIN_INPUTS
        states = shared_states(compute, own.config, inputs["input_ids"], inputs["attention_mask"]) if is_plain else None
        return compute(*args, **inputs) if states is None else BaseModelOutputWithPast(last_hidden_state=states)

    backbone.forward = forward
    try:
        yield
    finally:
        del backbone.forward
        if replaced is not None:
            backbone.forward = replaced


class SharedPrefixes:
    """A batch of sequences, split into prefixes and the endings that follow them.

    A sequence that equals another one, or is the beginning of one, has no ending of its own: its states are read from
    the other's.

    Attributes:
        prefixes: the tokens of each prefix. endings: the tokens of each ending, which follow its prefix.
        prefix_of: [endings] the index of each ending's prefix.
        starts: [endings] the number of tokens before each ending; 0 if the ending does not read its prefix.
        ending_of: [sequences] the index of the ending that each sequence leads to.
    """

    def __init__(self, sequences: Sequence[Tokens]) -> None:
        order = sorted(range(len(sequences)), key=lambda index: sequences[index].astype(">i8").tobytes())
        distinct: list[Tokens] = []
        self.ending_of = np.zeros(len(sequences), int)
        for index, following in zip(order, [*order[1:], None], strict=True):
            self.ending_of[index], tokens = len(distinct), sequences[index]
            if following is None or _common(tokens, sequences[following]) < len(tokens):
                distinct.append(tokens)
        self.prefixes: list[Tokens] = []
        self.prefix_of, self.starts = (np.zeros(len(distinct), int) for _ in range(2))
        for begin, end, length in _branches(distinct):
            if length:
                self.prefix_of[begin:end], self.starts[begin:end] = len(self.prefixes), length
                self.prefixes.append(distinct[begin][:length])
        self.endings = [tokens[start:] for tokens, start in zip(distinct, self.starts, strict=True)]

    @property
    def size(self) -> int:
        """Return the number of tokens that a pass computes, with padding."""
        return sum(len(part) * max(map(len, part), default=0) for part in (self.prefixes, self.endings))

    def states(self, backbone: Callable[..., Any], config: Any, device: torch.device) -> torch.Tensor:
        """Return [tokens, d] the last hidden states of all prefixes, with padding, and then of all endings."""
        ids, lengths = _padded(self.endings, device)
        positions = torch.arange(ids.shape[1], device=device)
        mask = positions < lengths[:, None]
        if not self.prefixes:
            outputs = backbone(input_ids=ids, attention_mask=mask.long(), use_cache=False)
            return outputs.last_hidden_state.flatten(0, 1)
        prefix_of, starts = (torch.from_numpy(each).to(device) for each in (self.prefix_of, self.starts))
        prefix_ids, prefix_lengths = _padded(self.prefixes, device)
        columns = torch.arange(prefix_ids.shape[1], device=device)
        of_prefixes = backbone(
            input_ids=prefix_ids,
            attention_mask=(columns < prefix_lengths[:, None]).long(),
            past_key_values=(cache := DynamicCache(config=config)),
            use_cache=True,
        )
        of_endings = backbone(
            input_ids=ids,
            attention_mask=torch.cat([columns < starts[:, None], mask], 1).long(),
            position_ids=starts[:, None] + positions,
            past_key_values=Cache(layers=[_PrefixLayer(layer, prefix_of) for layer in cache.layers]),
            use_cache=True,
        )
        return torch.cat([each.last_hidden_state.flatten(0, 1) for each in (of_prefixes, of_endings)])

    def places(self, sequence: NDArray[np.int64], token: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index in `states` of tokens, each given by its sequence and its number there, from 0."""
        ending = self.ending_of[sequence]
        start, prefix = self.starts[ending], self.prefix_of[ending]
        width, prefix_width = (max(map(len, part), default=0) for part in (self.endings, self.prefixes))
        in_ending = len(self.prefixes) * prefix_width + ending * width + token - start
        return np.where(token < start, prefix * prefix_width + token, in_ending)


def shared_states(
    backbone: Callable[..., Any], config: Any, ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor | None:
    """Return [N, W, d] the last hidden states of sequences, with shared prefixes computed once; states of padding are
    arbitrary.

    Args:
        backbone: a model without its output layer. config: the model's configuration.
        ids: [N, W] tokens. mask: [N, W] 1 on each sequence's tokens, which are contiguous.
    Returns: None if too little is shared.
    """
    own = mask.bool().cpu().numpy()
    sequences = [row[is_own] for row, is_own in zip(ids.cpu().numpy(), own, strict=True)]
    shared = SharedPrefixes(sequences)
    if shared.size + MIN_SAVED > ids.numel():
        return None
    tokens = np.clip(np.arange(ids.shape[1]) - own.argmax(1)[:, None], 0, own.sum(1)[:, None] - 1)
    places = shared.places(np.arange(len(ids))[:, None], tokens)
    states = shared.states(backbone, config, ids.device)
    return states.index_select(0, torch.from_numpy(places.ravel()).to(states.device)).view(*ids.shape, -1)


class _PrefixLayer(DynamicLayer):
    """One layer's keys and values of the prefixes, before those of each ending."""

    def __init__(self, prefixes: Any, prefix_of: torch.Tensor) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = prefixes.keys, prefixes.values, True
        self._prefix_of = prefix_of

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
        """Return the keys and values of the endings, each behind those of its prefix."""
        prefix_of = self._prefix_of.to(key_states.device)
        return tuple(
            torch.cat([prefixes.index_select(0, prefix_of), states], 2)
            for prefixes, states in ((self.keys, key_states), (self.values, value_states))
        )


def _branches(sequences: Sequence[Tokens]) -> Iterator[tuple[int, int, int]]:
    """Divide ordered, distinct sequences into branches with a common prefix, so that few tokens are computed.

    Yields: begin and end of each branch, and the length of its prefix. A sequence that shares nothing also gets a
        prefix, if it would otherwise be the longest ending.
    """
    common = np.array([_common(*pair) for pair in pairwise(sequences)], int)

    def costs(begin: int) -> NDArray[np.float64]:
        prefix = np.minimum.accumulate(common[begin:])
        return np.array([0.0, *np.where(prefix > 0, -prefix * np.arange(1, len(prefix) + 1), np.inf)])

    cuts, _ = cheapest_cuts(len(sequences), costs)
    prefixes = [int(common[begin : end - 1].min()) if end - begin > 1 else 0 for begin, end in cuts]
    longest_ending = max(
        (
            len(tokens) - length
            for (begin, end), length in zip(cuts, prefixes, strict=True)
            if length
            for tokens in sequences[begin:end]
        ),
        default=max(map(len, sequences)),
    )
    for (begin, end), length in zip(cuts, prefixes, strict=True):
        yield begin, end, length or max(len(sequences[begin]) - longest_ending, 0)


def _common(first: Tokens, other: Tokens) -> int:
    """Return the length of the common prefix of two sequences."""
    length = min(len(first), len(other))
    differs = first[:length] != other[:length]
    return int(differs.argmax()) if differs.any() else length


def _padded(parts: Sequence[Tokens], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens, padded on the right, [n, longest], and their number, [n]."""
    ids = pad_sequence([torch.from_numpy(part) for part in parts], batch_first=True)
    return ids.to(device), torch.tensor([len(part) for part in parts], device=device)
