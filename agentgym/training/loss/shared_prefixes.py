"""Computes what sequences of a batch begin with in common only once, with its gradient, and no padding.

The sequences are laid out as a tree in a single row, where each token attends to the tokens that lead to it. So a
group's prompt is computed once, and so is a conversation that is continued in several ways. Source: Liu et al. 2025,
"Prefix Grouper", arXiv:2506.05433, which computes prefixes and what follows them apart, with padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.modeling_outputs import BaseModelOutputWithPast

from agentgym.policy.adapters import own_model
from agentgym.policy.grouped_attention import GROUPED
from agentgym.policy.key_values import can_share
from agentgym.policy.role_adapters import role_adapters_of
from agentgym.training.loss.microbatches import RowSizes
from agentgym.training.model.sharding import is_sharded

MIN_SAVED = 128
"""A batch is computed as always if a tree saves fewer tokens, padding included; our choice."""
_KEYS_OF_A_TOKEN = 4096
"""Attending to this number of keys takes about as long as everything else that a model computes for a token.

In a row of its own, a sequence does not attend to the keys of other sequences, which are computed and discarded. Our
choice, for models of about 0.5 B parameters.
"""
_COST_OF_A_PASS = 512
"""Overhead of one more forward pass, as the number of tokens computed in the same time; our choice."""
_MASKED = ("sdpa", "eager", GROUPED)
"""The kinds of attention that take any mask."""
_PLAIN_INPUTS = {"input_ids", "attention_mask", "use_cache"}

Tokens = NDArray[np.int64]


def why_unshared(model: Any, attention: str | None = None) -> str | None:
    """Return why the prefixes of a model's sequences are not shared, as a clause; None if they are.

    Args:
        model: a causal language model of transformers, with or without an adapter.
        attention: the name of its attention; by default, of that which it has now.
    """
    own = own_model(model)
    attention = attention or own.config._attn_implementation
    if hasattr(own.config, "vision_config"):
        return "the model reads images"
    if not can_share(own.config):
        return "its layers keep more than the keys and values of all tokens"
    if "local" in getattr(own.config, "attention_layers", ()):
        return "some of its layers attend to the nearest tokens of a row"
    if attention not in _MASKED:
        return f"{attention} takes no mask of which tokens attend to which"
    if "position_ids" not in signature(own.base_model.forward).parameters or getattr(own.config, "alibi", False):
        return "it counts positions itself"
    if getattr(own.config, "output_router_logits", False):
        return "its loss reads which experts each token was sent to"
    if is_sharded(own):
        return "its weights are sharded"
    if role_adapters_of(model) is not None:
        return "each role has an adapter"
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
    """A batch of sequences as trees of tokens, of which each is computed once.

    Attributes:
        passes: the tokens, [n], of each forward pass. positions: [n] the place of each in its sequence, from 0.
    """

    def __init__(self, sequences: Sequence[Tokens]) -> None:
        self._paths: list[Tokens] = [np.zeros(0, int)] * len(sequences)  # of each sequence: its tokens in all passes
        pieces: list[list[tuple[Tokens, Tokens]]] = []  # of each pass: new tokens of a sequence, and its whole path
        size, total, before, path = 0, 0, np.zeros(0, int), np.zeros(0, int)
        for index in sorted(range(len(sequences)), key=lambda index: sequences[index].astype(">i8").tobytes()):
            tokens = sequences[index]
            common = _common(before, tokens)
            new = len(tokens) - common
            # what is discarded: each of the new tokens with each of the others, and the reverse
            is_wasteful = 2 * size * new > (common + _COST_OF_A_PASS) * _KEYS_OF_A_TOKEN
            if not pieces or (is_wasteful and common <= MIN_SAVED):  # little is computed again
                pieces.append([])
                size, common, new = 0, 0, len(tokens)
            path = np.concatenate([path[:common], np.arange(total, total + new)])
            pieces[-1].append((tokens[common:], path))
            self._paths[index], before = path, tokens
            size, total = size + new, total + new
        self.passes = [np.concatenate([tokens for tokens, _ in of_pass]) for of_pass in pieces]
        self.positions = [
            np.concatenate([np.arange(len(path) - len(tokens), len(path)) for tokens, path in of_pass])
            for of_pass in pieces
        ]
        self._pieces = pieces

    @property
    def masks(self) -> Iterator[NDArray[np.bool_]]:
        """Yield [n, n] of each pass: whether a token, first, attends to another."""
        return map(_mask, self._pieces)

    @property
    def size(self) -> int:
        """Return the number of tokens that are computed."""
        return sum(map(len, self.passes))

    def states(self, backbone: Callable[..., Any], config: Any, device: torch.device) -> torch.Tensor:
        """Return [tokens, d] the last hidden states of the tokens of all passes."""
        states = []
        for tokens, positions, attends in zip(self.passes, self.positions, self.masks, strict=True):
            mask = torch.from_numpy(attends).to(device)[None, None]
            if config._attn_implementation == "eager":
                mask = torch.zeros(mask.shape, device=device).masked_fill(~mask, torch.finfo(torch.float32).min)
            ids, position_ids = (torch.from_numpy(each).to(device)[None] for each in (tokens, positions))
            outputs = backbone(input_ids=ids, attention_mask=mask, position_ids=position_ids, use_cache=False)
            states.append(outputs.last_hidden_state[0])
        return torch.cat(states)

    def places(self, width: int) -> NDArray[np.int64]:
        """Return [sequences, width] the index in `states` of each sequence's tokens; 0 after its last."""
        places = np.zeros((len(self._paths), width), int)
        for row, path in zip(places, self._paths, strict=True):
            row[: len(path)] = path
        return places


def shared_states(
    backbone: Callable[..., Any], config: Any, ids: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor | None:
    """Return [N, W, d] the last hidden states of sequences, with shared prefixes computed once; states of padding are
    arbitrary.

    Args:
        backbone: a model without its output layer. config: the model's configuration.
        ids: [N, W] tokens. mask: [N, W] 1 on each sequence's tokens, which are contiguous.
    Returns: None if too little is saved.
    """
    own = mask.bool().cpu().numpy()
    shared = SharedPrefixes([row[is_own] for row, is_own in zip(ids.cpu().numpy(), own, strict=True)])
    if shared.size + MIN_SAVED > ids.numel():
        return None
    tokens = np.clip(np.arange(ids.shape[1]) - own.argmax(1)[:, None], 0, None)
    places = np.take_along_axis(shared.places(ids.shape[1]), tokens, 1)
    states = shared.states(backbone, config, ids.device)
    return states.index_select(0, torch.from_numpy(places.ravel()).to(states.device)).view(*ids.shape, -1)


def _mask(pieces: Sequence[tuple[Tokens, Tokens]]) -> NDArray[np.bool_]:
    """Return [n, n] whether a token of a pass, first, attends to another. `pieces`: new tokens, and the whole path."""
    begin = int(pieces[0][1][0]) if len(pieces[0][1]) else 0
    size = sum(len(tokens) for tokens, _ in pieces)
    mask = np.zeros((size, size), bool)
    for tokens, path in pieces:
        own, before = np.split(path - begin, [len(path) - len(tokens)])[::-1]
        mask[own[:, None], before] = True
        mask[own[:, None], own] = np.tri(len(own), dtype=bool)
    return mask


def _common(first: Tokens, other: Tokens) -> int:
    """Return the length of the common prefix of two sequences."""
    length = min(len(first), len(other))
    differs = first[:length] != other[:length]
    return int(differs.argmax()) if differs.any() else length
