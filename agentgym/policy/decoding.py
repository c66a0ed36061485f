"""The batched sampling loop: many conversations, one local model, token in and token out.

Prompts are padded on the left. A prefix shared by all prompts is computed once, and so is a prompt shared by several
rows. Keys and values of earlier turns are reused. Finished rows leave the batch.

Hand-written instead of transformers' own continuous batching, because each row samples with its own seed and reuses
the keys and values of its earlier turns.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicCache

from agentgym.errors import PolicyError
from agentgym.policy.contract import FinishReason, Sampling
from agentgym.policy.key_values import Block, KVPrefix, can_share, parts_of, uniform
from agentgym.policy.logit_hooks.contract import note_mask
from agentgym.policy.sampling import draw, restrict, uniforms
from agentgym.policy.swap_lock import SwapLock
from agentgym.trajectory import TokenMask

SHARE_FROM = 8  # shortest common prefix of the prompts that is computed separately
DROP_AT = 0.5  # finished rows are dropped once at most this share of the batch is running


SCORED_AT_ONCE = 2**27  # logits, in float64: 1 GiB


@dataclass(slots=True)
class DecodeRequest:
    """One request on its way through a batch.

    Attributes:
        prefix: tokens to continue.
        limit: how many tokens may be sampled.
        role: the role whose adapter is used, if the model has one per role; the same for all rows of a batch.
        past: keys and values from an earlier turn, if they cover the start of the prefix.
        keep: whether to keep a KVPrefix for the next turn.
        ended: given the tokens so far, whether a stop text has been written (see CallFormat.stop).
        hook: returns the tokens that may follow (see LogitHook).
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
    keep: bool = False
    ended: Callable[[list[int]], bool] | None = None
    hook: Callable[[list[int]], TokenMask | None] | None = None
    tilt: Callable[[list[int], torch.Tensor], torch.Tensor] | None = None
    masks: list[tuple[int, int, TokenMask]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason = "length"
    left: KVPrefix | None = None
    version: int = 0
    version_changes: list[tuple[int, int]] = field(default_factory=list)

    def append(self, token: int, logprob: float, version: int) -> None:
        """Append a token sampled by weights of this version."""
        if not self.tokens:
            self.version = version
        elif version != (self.version_changes[-1][1] if self.version_changes else self.version):
            self.version_changes.append((len(self.tokens), version))
        self.tokens.append(token)
        self.logprobs.append(logprob)


def batches_within(rows: Sequence[DecodeRequest], max_tokens: int) -> list[list[DecodeRequest]]:
    """Split the rows, in order, into batches of at most `max_tokens` keys and values; a longer row is on its own."""
    batches: list[list[DecodeRequest]] = []
    longest = 0
    for row in rows:
        longest = max(longest, len(row.prefix) + row.limit)
        if not batches or longest * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            longest = len(row.prefix) + row.limit
        batches[-1].append(row)
    return batches


class Decoder:
    """Samples from one model.

    Args:
        model: a causal language model of transformers.
        pad_token_id: fills the left side; never attended to.
        eos_token_ids: any of these ends a row.
        weights: a key that differs between different weights of the model.
        swap_lock: held during each forward pass, so that weights are replaced only between two passes.
        read_version: returns the version of the model's weights.

    When weights are replaced, the rows continue: keys and values from the old weights are used until the turn ends, and
    tokens keep their versions. A later turn recomputes the keys and values.
    """

    def __init__(
        self,
        model: Any,
        pad_token_id: int,
        eos_token_ids: Sequence[int],
        *,
        weights: Hashable = None,
        swap_lock: SwapLock | None = None,
        read_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self.model, self.pad_token_id, self.weights = model, pad_token_id, weights
        self.swap_lock, self.read_version = swap_lock or SwapLock(), read_version
        self.version = 0  # version of the weights that computed the last logits
        self.ends = frozenset(eos_token_ids)
        self.shares = can_share(model.config)

    def run(self, rows: Sequence[DecodeRequest]) -> None:
        """Sample every row to its end. The caller has put the model into eval mode."""
        # Quantised layers may replace their own tensors, which training could not use if made in inference mode.
        quantised = getattr(self.model, "is_quantized", False)
        with torch.no_grad() if quantised else torch.inference_mode():
            batch = _Batch(self, rows)
            batch.prefill()
            while batch.rows:
                batch.step()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
        """Return [B, V] the logits after the last column."""
        with self.swap_lock.computing():
            self.version = self.read_version()
            out = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        logits: torch.Tensor = out.logits[:, -1]
        return logits


class _Batch:
    """The rows that still run, and the tensors of their forward pass."""

    def __init__(self, decoder: Decoder, rows: Sequence[DecodeRequest]) -> None:
        self.decoder = decoder
        self.rows = list(rows)
        self.device = decoder.model.device
        self.block: Block | None = None
        self.cache: Any = None
        self.longest = max(row.limit for row in rows)
        self.logits = torch.empty(0)
        self.mask = torch.empty(0)  # [B, columns] of the prefixes, and of all tokens that may be sampled
        self.width = 0  # columns of the prefixes
        self.lengths = torch.tensor([len(row.prefix) for row in rows], device=self.device)
        self.steps = 0
        chance = np.zeros((len(rows), self.longest))
        for index, row in enumerate(rows):
            chance[index, : row.limit] = uniforms(row.sampling, row.limit)
        self.chance = torch.from_numpy(chance).to(self.device)
        self.is_hooked = any(row.hook is not None for row in rows)
        self.mask_ids: dict[int, tuple[TokenMask, torch.Tensor]] = {}  # by id() of the mask, which is kept alive here
        self.temperature = self._column([row.sampling.temperature for row in rows])
        self.top_p = self._column([row.sampling.top_p for row in rows])

    def prefill(self) -> None:
        """Compute the logits after each prefix. Equal prefixes are computed once and then repeated."""
        places: dict[tuple[int, ...], int] = {}
        source = [places.setdefault(tuple(row.prefix), len(places)) for row in self.rows]
        first = dict(zip(reversed(source), reversed(self.rows), strict=True))
        unique = [first[index] for index in range(len(places))]
        pasts = self._pasts(unique) if self.decoder.shares else [None] * len(unique)
        self._forward_prefixes(unique, pasts)
        if len(unique) < len(self.rows):
            order = torch.tensor(source, device=self.device)
            self.logits, self.mask = self.logits[order], self.mask[order]
            if self.block is not None:
                self.block.keep(order)
            else:
                self.cache.batch_select_indices(order)

    def _pasts(self, rows: Sequence[DecodeRequest]) -> list[KVPrefix | None]:
        """Return the keys and values that each row already has, from earlier turns or from the shared prefix."""
        pasts = [row.past for row in rows]
        fresh = [row.prefix for row in rows if row.past is None]
        if not fresh:
            return pasts
        begin = _beginning(min(fresh), max(fresh))[: min(map(len, fresh)) - 1]
        if len(begin) < SHARE_FROM or len(fresh) == 1:
            return pasts
        shared = self._compute_past(begin)
        return [shared if past is None else past for past in pasts]

    def _compute_past(self, ids: list[int]) -> KVPrefix | None:
        cache = DynamicCache(config=self.decoder.model.config)
        row = torch.tensor([ids], device=self.device)
        self.decoder.forward(row, torch.ones_like(row), torch.arange(len(ids), device=self.device)[None], cache)
        if not uniform(cache):
            self.decoder.shares = False
            return None
        return KVPrefix(ids, torch.stack(parts_of(cache))[:, 0])

    def _forward_prefixes(self, rows: Sequence[DecodeRequest], pasts: Sequence[KVPrefix | None]) -> None:
        done = [0 if past is None else len(past.ids) for past in pasts]
        fresh = [row.prefix[start:] for row, start in zip(rows, done, strict=True)]
        before, width = max(done), max(map(len, fresh))
        ids = np.full((len(rows), width), self.decoder.pad_token_id)
        mask = np.zeros((len(rows), before + width + self.longest), np.int64)
        positions = np.zeros((len(rows), width), np.int64)
        for index, (start, new) in enumerate(zip(done, fresh, strict=True)):
            ids[index, width - len(new) :] = new
            mask[index, before - start : before] = 1
            mask[index, before + width - len(new) :] = 1  # ... and everything that will be sampled
            positions[index, width - len(new) :] = np.arange(start, start + len(new))
        self.mask, self.width = torch.from_numpy(mask).to(self.device), before + width
        seen = self.mask[:, : self.width]
        tensors = torch.from_numpy(ids).to(self.device), torch.from_numpy(positions).to(self.device)
        like = next((past.block for past in pasts if past is not None), None)
        if like is None:
            self.cache = DynamicCache(config=self.decoder.model.config)
            self.logits = self.decoder.forward(tensors[0], seen, tensors[1], self.cache)
            if self.decoder.shares and uniform(self.cache):
                parts = parts_of(self.cache)
                self.block = Block(len(parts), parts[0], len(rows), width + self.longest)
                for part, filled in zip(self.block.data, parts, strict=True):
                    part[..., :width, :] = filled
                self.block.used, self.cache = width, self.block.cache
            return
        self.block = Block(len(like), like[0], len(rows), before + width + self.longest)
        for index, (past, start) in enumerate(zip(pasts, done, strict=True)):
            if past is not None:
                self.block.data[:, index, :, before - start : before] = past.block
        self.block.used, self.cache = before, self.block.cache
        self.logits = self.decoder.forward(tensors[0], seen, tensors[1], self.cache)
        self.block.advance(width)

    def step(self) -> None:
        """Draw one token for every row, retire the finished ones, and run the model on the rest."""
        if self.is_hooked:
            self._mask_logits()
        tokens, logprobs = draw(self.logits, self.chance[:, self.steps], self.temperature, self.top_p)
        drawn = zip(self.rows, tokens.tolist(), logprobs.tolist(), strict=True)
        running = [self._record(row, token, logprob) for row, token, logprob in drawn]
        self.steps += 1
        if not all(running):
            tokens = self._retire(tokens, torch.tensor(running))
        if self.rows:
            self._advance(tokens)

    def _mask_logits(self) -> None:
        """Apply each row's tilt to its logits, and set the tokens that its hook forbids to -inf."""
        self.logits = self.logits.clone()
        for row, logits in zip(self.rows, self.logits, strict=True):
            if row.hook is None or row.finish_reason == "stop" or len(row.tokens) >= row.limit:
                continue
            if row.tilt is not None:
                logits.copy_(row.tilt(row.tokens, logits))
            if (mask := row.hook(row.tokens)) is None:
                continue
            if id(mask) not in self.mask_ids:
                self.mask_ids[id(mask)] = mask, torch.tensor(mask.ids, device=self.device)
            ids = self.mask_ids[id(mask)][1]
            restrict(logits, ids, allowed=mask.allowed)
            note_mask(row.masks, len(row.tokens), mask)

    def _record(self, row: DecodeRequest, token: int, logprob: float) -> bool:
        """Append a token to a row. Returns: whether the row continues. An ended row is left unchanged."""
        if row.finish_reason == "stop" or len(row.tokens) >= row.limit:
            return False
        if not np.isfinite(logprob):
            raise PolicyError(
                "The model gave NaN or infinite logits: either its weights diverged, or its dtype overflows. Try "
                "dtype = 'float32', or an earlier checkpoint."
            )
        row.append(token, logprob, self.decoder.version)
        if token in self.decoder.ends or (row.ended is not None and row.ended(row.tokens)):
            row.finish_reason = "stop"
        return row.finish_reason != "stop" and len(row.tokens) < row.limit

    def _retire(self, tokens: torch.Tensor, running: torch.Tensor) -> torch.Tensor:
        for index in (~running).nonzero()[:, 0].tolist():
            row = self.rows[index]
            if row.keep and row.left is None and self.block is not None:
                columns = self.mask[index, : self.width + self.steps - 1].nonzero()[:, 0]
                known = [*row.prefix, *row.tokens][: len(columns)]
                row.left = KVPrefix(known, self.block.take(index, columns), self.decoder.weights)
        left = int(running.sum())
        if left > DROP_AT * len(self.rows):
            return tokens
        running_rows = running.nonzero()[:, 0].to(self.device)
        self.rows = [row for row, runs in zip(self.rows, running.tolist(), strict=True) if runs]
        if not self.rows:
            return tokens
        self.mask, self.lengths = self.mask[running_rows], self.lengths[running_rows]
        self.chance = self.chance[running_rows]
        self.temperature, self.top_p = self.temperature[running_rows], self.top_p[running_rows]
        if self.block is not None:
            self.block.keep(running_rows)
        else:
            self.cache.batch_select_indices(running_rows)
        return tokens[running_rows]

    def _advance(self, tokens: torch.Tensor) -> None:
        positions = (self.lengths + self.steps - 1)[:, None]
        seen = self.mask[:, : self.width + self.steps]
        self.logits = self.decoder.forward(tokens[:, None], seen, positions, self.cache)
        if self.block is not None:
            self.block.advance(1)

    def _column(self, values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64, device=self.device)


def _beginning(first: list[int], other: list[int]) -> list[int]:
    """Return the common prefix of two lists. The smallest and largest of many lists give the prefix that all share."""
    for index, (a, b) in enumerate(zip(first, other, strict=False)):
        if a != b:
            return first[:index]
    return min(first, other, key=len)


def of_chosen(logprobs: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return [B, L] the log-probabilities of the tokens [B, L], out of [B, L, V]."""
    return logprobs.gather(2, tokens[..., None])[..., 0]


def entropy_of_top(logprobs: torch.Tensor, tokens: torch.Tensor, *, top: int) -> torch.Tensor:
    """Return [B, L] -sum of p log p in nats over the `top` largest probabilities, from [B, L, V] log-probabilities."""
    likeliest = logprobs.topk(min(top, logprobs.shape[-1])).values.exp()
    return -torch.special.xlogy(likeliest, likeliest).sum(-1)


@torch.no_grad()
def score(
    model: Any,
    pad_token_id: int,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    read: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = of_chosen,
) -> list[list[float]]:
    """Return the natural-log probability of each continuation token after its prefix, teacher-forced, temperature 1.

    Args:
        pairs: (prefix, continuation), each of at least one token. The pairs are split into several batches if their
            logits would fill the memory.
        read: maps log-probabilities and tokens to the values returned; see `of_chosen`.
    """
    columns = max(len(rest) for _, rest in pairs) + 1
    rows = max(1, SCORED_AT_ONCE // (columns * model.config.get_text_config().vocab_size))
    starts = range(0, len(pairs), rows)
    return [scores for start in starts for scores in _score(model, pad_token_id, pairs[start : start + rows], read)]


def _score(
    model: Any,
    pad_token_id: int,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    read: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> list[list[float]]:
    width = max(len(prefix) + len(rest) for prefix, rest in pairs)
    longest = max(len(rest) for _, rest in pairs)
    ids = np.full((len(pairs), width), pad_token_id)
    mask = np.zeros((len(pairs), width), np.int64)
    for index, (prefix, rest) in enumerate(pairs):
        ids[index, width - len(prefix) - len(rest) :] = [*prefix, *rest]
        mask[index, width - len(prefix) - len(rest) :] = 1
    tokens, held = (torch.from_numpy(array).to(model.device) for array in (ids, mask))
    out = model(
        input_ids=tokens,
        attention_mask=held,
        position_ids=(held.cumsum(1) - 1).clamp(min=0),
        use_cache=False,
        logits_to_keep=longest + 1,
    )
    logprobs = torch.log_softmax(out.logits[:, :-1].to(torch.float64), dim=-1)
    values: list[list[float]] = read(logprobs, tokens[:, -longest:]).tolist()
    return [row[longest - len(rest) :] for row, (_, rest) in zip(values, pairs, strict=True)]
