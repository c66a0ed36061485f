"""The batched sampling loop: many conversations, one local model, token in and token out.

Rows join and leave the batch at any token (continuous batching: Yu et al. 2022, Orca, OSDI). Of rows that join
together, equal prefixes are computed once, and so are beginnings that new conversations share. A forward pass
computes few tokens of them at a time. Keys and values of earlier turns are reused. A row whose request was cancelled
leaves at the next token.

Hand-written instead of transformers' own continuous batching, because each row samples with its own seed and reuses
the keys and values of its earlier turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicCache

from agentgym.policy.decode_request import DecodeRequest, RowSource
from agentgym.policy.key_values import (
    Block,
    KVPrefix,
    PlainRows,
    RowSlots,
    RunningRows,
    block_of,
    can_share,
    uniform,
)
from agentgym.policy.logit_hooks.contract import note_mask
from agentgym.policy.prefill import (
    alike_groups,
    columns_in_parts,
    last_column,
    part_tokens,
    rows_in_parts,
    shared_length,
)
from agentgym.policy.sampling import check_finite, draw, restrict, uniforms
from agentgym.policy.stopping import stopped_between_layers
from agentgym.policy.swap_lock import SwapLock
from agentgym.trajectory import TokenMask

SHARE_FROM = 8  # shortest common prefix of the prompts that is computed separately


class Decoder:
    """Samples from one model.

    Args:
        model: a causal language model of transformers.
        pad_token_id: fills the left side; never attended to.
        eos_token_ids: any of these ends a row.
        max_tokens: the most tokens for whose keys and values memory is reserved, unless the rows need more.
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
        max_tokens: int = 2**17,
        swap_lock: SwapLock | None = None,
        read_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self.model, self.pad_token_id, self.max_tokens = model, pad_token_id, max_tokens
        self.swap_lock, self.read_version = swap_lock or SwapLock(), read_version
        self.version = 0  # version of the weights that computed the last logits
        self.ends = frozenset(eos_token_ids)
        self.shares = can_share(model.config)

    def run(self, source: RowSource) -> None:
        """Sample every row to its end. The caller has put the model into eval mode.

        Raises: PolicyError if no row is awaited any longer.
        """
        # Quantised layers may replace their own tensors, which training could not use if made in inference mode.
        quantised = getattr(self.model, "is_quantized", False)
        batch = _Batch(self, source)
        stops = stopped_between_layers(self.model, lambda: any(map(source.is_awaited, [*batch.rows, *batch.joining])))
        with torch.no_grad() if quantised else torch.inference_mode(), stops:
            while True:
                if (batch.is_open or not batch.rows) and (new := source.take(batch.rows)):
                    batch.join(new)
                if not batch.rows:
                    return
                for row in batch.step():
                    source.finish(row)

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
                logits_to_keep=last_column(ids),
            )
        logits: torch.Tensor = out.logits[:, -1]
        return logits


class _Batch:
    """The running rows, and the tensors of their forward pass."""

    def __init__(self, decoder: Decoder, source: RowSource) -> None:
        self.decoder, self.source = decoder, source
        self.device = decoder.model.device
        self.rows: list[DecodeRequest] = []
        self.joining: Sequence[DecodeRequest] = ()
        self.values: RunningRows = RowSlots(decoder.max_tokens)
        self.logits = torch.empty(0)  # [B, V] for each row's next token
        self.versions: list[int] = []  # the version that computed each row's logits
        self.chances: list[np.ndarray] = []  # for each row, one number in [0, 1) per token
        self.temperature = self.top_p = torch.empty(0)  # [B] one per row
        self.is_hooked = False
        self.mask_ids: dict[int, tuple[TokenMask, torch.Tensor]] = {}  # by id() of the mask, which is kept alive here

    @property
    def is_open(self) -> bool:
        """Return whether more rows can join."""
        return isinstance(self.values, RowSlots)

    def join(self, rows: Sequence[DecodeRequest]) -> None:
        """Add rows, and compute the logits after each prefix. Equal prefixes are computed once."""
        self.joining, alike = rows, dict[tuple[int, ...], list[DecodeRequest]]()
        for row in rows:
            alike.setdefault(tuple(row.prefix), []).append(row)
        if not self.decoder.shares or not self._join_in_parts(list(alike.values())):
            self._join_plainly(list(alike.values()))
        self.joining = ()

    def _add(self, rows: Sequence[DecodeRequest], logits: torch.Tensor) -> None:
        """Add rows whose keys and values are stored. `logits`: [rows, V]."""
        self.logits = torch.cat([self.logits, logits]) if self.rows else logits
        self.rows += rows
        self.versions += [self.decoder.version] * len(rows)
        self.chances += [uniforms(row.sampling, row.limit) for row in rows]
        self._read_sampling()

    def _read_sampling(self) -> None:
        self.is_hooked = any(row.hook is not None for row in self.rows)
        self.temperature = self._column([row.sampling.temperature for row in self.rows])
        self.top_p = self._column([row.sampling.top_p for row in self.rows])

    def _join_in_parts(self, alike: Sequence[Sequence[DecodeRequest]]) -> bool:
        """Add rows, computing few tokens at a time, and store keys and values apart for each row.

        Args:
            alike: for each different prefix, the rows that have it.
        Returns: False, with nothing added, if no block can hold the layers' keys and values.
        """
        assert isinstance(self.values, RowSlots)
        prefixes, pasts = [rows[0].prefix for rows in alike], self._pasts([rows[0] for rows in alike])
        self.values.reserve(len(self.joining), max(row.longest for row in self.joining))
        for part, logits, computed in self._computed(prefixes, pasts):
            joining = [(position, row) for position, index in enumerate(part) for row in alike[index]]
            rows = [row for _, row in joining]
            own = (computed[position] for position, _ in joining)
            self.values.join(own, [len(row.prefix) for row in rows], [row.longest for row in rows])
            self._add(rows, logits[[position for position, _ in joining]])
        return self.decoder.shares

    def _computed(
        self, prefixes: Sequence[list[int]], pasts: Sequence[KVPrefix | None]
    ) -> Iterator[tuple[list[int], torch.Tensor, list[torch.Tensor]]]:
        """Compute prefixes, few tokens at a time, until one block cannot hold the layers' keys and values.

        Args:
            pasts: the keys and values that each prefix already has.
        Yields: the indices of some prefixes; [n, V] the logits after each; and the keys and values of each.
        """
        fresh = [len(prefix) - _size(past) for prefix, past in zip(prefixes, pasts, strict=True)]
        for part in rows_in_parts(fresh, part_tokens(self.device)) if self.decoder.shares else []:
            logits, cache, seen = self._compute([prefixes[index] for index in part], [pasts[index] for index in part])
            if not uniform(cache):
                self.decoder.shares = False
                return
            block = block_of(cache)
            yield part, logits, [block[:, row].index_select(2, mask.nonzero()[:, 0]) for row, mask in enumerate(seen)]

    def _join_plainly(self, alike: Sequence[Sequence[DecodeRequest]]) -> None:
        """Add rows to an empty batch with the model's own cache. `alike`: as for `_join_in_parts`."""
        rows = [row for rows in alike for row in rows]
        source = torch.tensor([index for index, same in enumerate(alike) for _ in same], device=self.device)
        logits, cache, _ = self._compute([same[0].prefix for same in alike], [None] * len(alike))
        cache.batch_select_indices(source)
        self.values = PlainRows(cache, [len(row.prefix) for row in rows], self.device)
        self._add(rows, logits[source])

    def _compute(
        self, prefixes: Sequence[list[int]], pasts: Sequence[KVPrefix | None]
    ) -> tuple[torch.Tensor, Cache, torch.Tensor]:
        """Compute prefixes together, padded on the left, some columns at a time.

        Args:
            pasts: the keys and values that each prefix already has.
        Returns: [prefixes, V] the logits after each prefix; the filled cache; and [prefixes, columns] the mask, 1 on a
            prefix's tokens.
        """
        done = list(map(_size, pasts))
        before, width = max(done), max(len(ids) - start for ids, start in zip(prefixes, done, strict=True))
        ids = np.full((len(prefixes), width), self.decoder.pad_token_id)
        mask = np.zeros((len(prefixes), before + width), np.int64)
        positions = np.zeros((len(prefixes), width), np.int64)
        for index, (start, prefix) in enumerate(zip(done, prefixes, strict=True)):
            first = width - len(prefix) + start
            ids[index, first:] = prefix[start:]
            mask[index, before - start : before] = 1
            mask[index, before + first :] = 1
            positions[index, first:] = np.arange(start, len(prefix))
        tokens, seen, places = (torch.from_numpy(array).to(self.device) for array in (ids, mask, positions))
        cache = Block(pasts, before + width) if before else DynamicCache(config=self.decoder.model.config)
        for begin, end in columns_in_parts(len(tokens), width, part_tokens(self.device), cache):
            own = slice(begin, end)
            logits = self.decoder.forward(tokens[:, own], seen[:, : before + end], places[:, own], cache)
        return logits, cache, seen

    def _pasts(self, rows: Sequence[DecodeRequest]) -> list[KVPrefix | None]:
        """Return the keys and values that each row already has: from earlier turns, or of a beginning that new rows
        share. All new rows may share one, and some of them a longer one.
        """
        pasts = [row.past for row in rows]
        fresh = [index for index, past in enumerate(pasts) if past is None]
        prefixes, shared = [rows[index].prefix for index in fresh], None
        if len(fresh) > 1 and (length := shared_length(prefixes)) >= SHARE_FROM:
            shared = self._beginnings([prefixes[0][:length]], None).get(0)
            pasts = [shared if past is None else past for past in pasts]
        groups = [each for each in alike_groups(prefixes, _size(shared)) if each.length >= _size(shared) + SHARE_FROM]
        begins = self._beginnings([prefixes[each.members[0]][: each.length] for each in groups], shared)
        for index, past in begins.items():
            for member in groups[index].members:
                pasts[fresh[member]] = past
        return pasts

    def _beginnings(self, prefixes: Sequence[list[int]], past: KVPrefix | None) -> dict[int, KVPrefix]:
        """Return the keys and values of prefixes, by index; all continue `past`."""
        parts = self._computed(prefixes, [past] * len(prefixes))
        return {
            index: KVPrefix(prefixes[index], own)
            for part, _, all_own in parts
            for index, own in zip(part, all_own, strict=True)
        }

    def step(self) -> list[DecodeRequest]:
        """Draw one token for every row, and run the model on the rows that continue.

        Returns: the rows that ended, or whose request was cancelled.
        """
        if self.is_hooked:
            self._mask_logits()
        chances = [chance[len(row.tokens)] for chance, row in zip(self.chances, self.rows, strict=True)]
        tokens, logprobs = draw(self.logits, self._column(chances), self.temperature, self.top_p)
        drawn = zip(self.rows, tokens.tolist(), logprobs.tolist(), self.versions, strict=True)
        continues = [self._record(*each) and self.source.is_awaited(each[0]) for each in drawn]
        ended = [row for row, goes_on in zip(self.rows, continues, strict=True) if not goes_on]
        if ended:
            self._retire(continues)
        if self.rows:
            self._advance()
        return ended

    def _mask_logits(self) -> None:
        """Apply each row's tilt to its logits, and set the tokens that its hook forbids to -inf."""
        self.logits = self.logits.clone()
        for row, logits in zip(self.rows, self.logits, strict=True):
            if row.hook is None:
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

    def _record(self, row: DecodeRequest, token: int, logprob: float, version: int) -> bool:
        """Append a token to a row. Returns: whether the row continues."""
        check_finite(logprob)
        if row.recorded:
            row.append(row.recorded[len(row.tokens)], logprob, version)
            return len(row.tokens) < len(row.recorded)
        row.append(token, logprob, version)
        if token in self.decoder.ends or (row.ended is not None and row.ended(row.tokens)):
            row.finish_reason = "stop"
        return row.finish_reason != "stop" and len(row.tokens) < row.limit

    def _retire(self, continues: Sequence[bool]) -> None:
        """Remove the rows that ended, and move later rows into their places."""
        for index, (row, goes_on) in enumerate(zip(self.rows, continues, strict=True)):
            if not goes_on and row.keep and isinstance(self.values, RowSlots):
                known = [*row.prefix, *row.tokens][: self.values.lengths[index]]
                row.left = KVPrefix(known, self.values.take(index), row.weights)
        left = sum(continues)
        free = [index for index in range(left) if not continues[index]]
        moving = [index for index in range(left, len(continues)) if continues[index]]
        order = list(range(left))
        for index, old in zip(free, moving, strict=True):
            order[index] = old
        self.rows = [self.rows[old] for old in order]
        self.chances = [self.chances[old] for old in order]
        self.versions = [self.versions[old] for old in order]
        if self.rows:
            self.values.keep(order)
            self._read_sampling()
        else:
            self.values = RowSlots(self.decoder.max_tokens)

    def _advance(self) -> None:
        """Compute the logits of each row's next token."""
        lengths = torch.tensor(self.values.lengths, device=self.device)
        mask, cache = self.values.next_pass(lengths)
        tokens = torch.tensor([row.tokens[-1] for row in self.rows], device=self.device)[:, None]
        self.logits = self.decoder.forward(tokens, mask, lengths[:, None], cache)
        self.values.advance()
        self.versions = [self.decoder.version] * len(self.rows)

    def _column(self, values: Sequence[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64, device=self.device)


def _size(past: KVPrefix | None) -> int:
    return 0 if past is None else len(past.ids)
