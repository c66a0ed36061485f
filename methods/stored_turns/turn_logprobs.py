"""Log-probabilities of stored turns under the current model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from .transitions import TurnTransition

BATCH_TOKENS = 16_384


def token_logprobs(model: Any, batch: Sequence[TurnTransition], *, temperature: float = 1.0) -> list[torch.Tensor]:
    """Return float32 log-probabilities of each turn's tokens, with gradient, in nats.

    Args:
        model: a transformers causal language model.
        temperature: the divisor of the logits.
    """
    device, longest = model.device, max(transition.own_end for transition in batch)
    ids, mask = np.zeros((2, len(batch), longest), np.int64)
    for row, transition in enumerate(batch):
        ids[row, : transition.own_end] = transition.ids[: transition.own_end]
        mask[row, : transition.own_end] = 1
    tokens, attended = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
    logits = model(input_ids=tokens, attention_mask=attended, use_cache=False).logits
    rows = []
    for row, transition in enumerate(batch):
        begin, end = transition.own_begin, transition.own_end
        logprobs = torch.log_softmax(logits[row, begin - 1 : end - 1].float() / temperature, dim=-1)
        rows.append(logprobs.gather(-1, tokens[row, begin:end, None])[:, 0])
    return rows


@torch.no_grad()
def turn_logprobs(
    model: Any, transitions: Sequence[TurnTransition], *, temperature: float = 1.0, autocast: Any = None
) -> list[float]:
    """Return each turn's summed log-probability, in nats, without gradient. `autocast`: the dtype to compute in."""
    totals = [0.0] * len(transitions)
    was_training = model.training
    model.eval()  # dropout would change the log-probabilities
    with torch.autocast(model.device.type, dtype=autocast, enabled=autocast is not None):
        for numbers in batches(transitions, BATCH_TOKENS):
            rows = token_logprobs(model, [transitions[number] for number in numbers], temperature=temperature)
            for number, logprobs in zip(numbers, rows, strict=True):
                totals[number] = float(logprobs.double().sum())
    model.train(was_training)
    return totals


def batches(transitions: Sequence[TurnTransition], max_tokens: int) -> Iterator[list[int]]:
    """Yield indices of transitions in batches of at most `max_tokens` tokens with padding.

    A longer transition is a batch of its own.
    """
    batch: list[int] = []
    for number in sorted(range(len(transitions)), key=lambda number: transitions[number].own_end):
        if batch and transitions[number].own_end * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
