"""The trained model's last hidden states at every token of an episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from agentgym import Trajectory


def hidden_states(model: Any, trajectories: Sequence[Trajectory]) -> Iterator[tuple[int, Trajectory, torch.Tensor]]:
    """Yield the hidden states of the valid trajectories one by one, without gradient.

    The states come from the current weights in this process, whatever sampled the tokens.

    Args:
        model: a transformers causal language model, with or without an adapter.
    Yields: the row, the trajectory, and [L, d] float32 states at all its tokens, including the prompt's.
    """
    backbone = without_adapter(model).base_model
    device = next(backbone.parameters()).device
    was_training = backbone.training
    backbone.eval()
    try:
        for row, trajectory in enumerate(trajectories):
            if trajectory.valid:
                states = []
                for context in trajectory.rows():
                    ids = torch.tensor(context.arrays().ids, device=device)[None]
                    with torch.no_grad():
                        states.append(backbone(input_ids=ids, use_cache=False).last_hidden_state[0].float())
                yield row, trajectory, torch.cat(states)
    finally:
        backbone.train(was_training)


def without_adapter(model: Any) -> Any:
    """Return the transformers model beneath an adapter; a model without an adapter is returned unchanged."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def own_spans(trajectory: Trajectory) -> list[tuple[int, int]]:
    """Return start and end of each turn's own tokens, counted from the start of the prompt."""
    before = len(trajectory.prompt_ids)
    return [(before + start, before + end) for start, end in trajectory.turn_spans()]
