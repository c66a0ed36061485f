"""Attention on a CPU for models whose query heads share keys and values (grouped-query attention).

transformers copies keys and values once for each query head before several tokens attend to them. Here the query heads
that share them are laid out as further tokens, which torch computes in a third of the time, gradient included.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "agentgym_grouped"
"""The name of this attention among those of transformers."""


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> Any:
    """Attend as `sdpa` of transformers does.

    Args:
        module: the attention layer.
        query: [B, heads, L, head_dim]. key, value: [B, shared heads, S, head_dim].
        attention_mask: [B or 1, 1, L, S], true or 0 where a token sees a key; None for causal or full attention.
    Returns: [B, L, heads, head_dim], and no weights.
    """
    batch, heads, tokens, head_dim = query.shape
    shared, keys = key.shape[1:3]
    if heads == shared or tokens == 1 or query.device.type != "cpu" or set(options) & {"softcap", "position_bias"}:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )
    mask, is_causal = attention_mask, options.get("is_causal")
    if mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal):
        mask = torch.ones(tokens, keys, dtype=torch.bool).tril()[None, None]
    cast_to = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else query.dtype
    attended = scaled_dot_product_attention(
        query.reshape(batch, shared, -1, head_dim),
        key,
        value,
        attn_mask=None if mask is None else _for_all_heads(mask, heads // shared, cast_to),
        dropout_p=dropout,
        scale=scaling,
    )
    return attended.view(batch, heads, tokens, head_dim).transpose(1, 2).contiguous(), None


def _for_all_heads(mask: torch.Tensor, count: int, dtype: torch.dtype) -> torch.Tensor:
    """Return a mask, [B or 1, 1, L, S], for `count` heads one after another, as torch would add it to the scores.

    The result is stored with the mask for the next layers, so that the backward pass holds it only once.
    """
    stored: dict[tuple[int, torch.dtype], torch.Tensor] = vars(mask).setdefault("_for_all_heads", {})
    if (count, dtype) not in stored:
        added = mask
        if mask.dtype == torch.bool:
            added = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
        stored[count, dtype] = added.repeat(1, 1, count, 1)
    return stored[count, dtype]


def use_grouped_attention(model: Any) -> None:
    """Make a model use `grouped_attention`, if it is on a CPU, attends with `sdpa`, and its query heads share keys."""
    config = model.config
    heads = getattr(config, "num_attention_heads", 0)
    if (
        model.device.type == "cpu"
        and config._attn_implementation == "sdpa"
        and getattr(config, "num_key_value_heads", heads) != heads
        and not config.sub_configs
    ):
        model.set_attn_implementation(GROUPED)


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, sdpa_mask)
