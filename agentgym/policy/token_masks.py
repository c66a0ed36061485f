"""Computes log-probabilities and entropies of the masked distribution for tokens that a logit hook restricted.

TRL's fused head returns log-probabilities and entropies for the full distribution, and no logits. To correct them, only
the logits of the tokens that a mask names are computed. With log Z = logit - log p of the sampled token, and q the
probability of the refused tokens:
log p' = log p - log(1 - q), and H' = (H + sum over the refused of p log p) / (1 - q) + log(1 - q).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from agentgym.errors import AgentGymError
from agentgym.policy.adapters import own_model
from agentgym.trajectory import TokenMask
from agentgym.trajectory.record import Trajectory

if TYPE_CHECKING:
    from agentgym.policy.separate_rows import SeparateRows

MaskedRow = Sequence[tuple[int, int, TokenMask]]
"""A trajectory's masks: (start, end, mask), where start and end (exclusive) count tokens from the prompt's end."""
_SCALES = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")


def masked_row(trajectory: Trajectory) -> MaskedRow:
    """Return the masks of a trajectory with their positions after the prompt; empty for a failed trajectory."""
    if not trajectory.valid:
        return ()
    return [
        (start + begin, start + end, mask)
        for turn, (start, _) in zip(trajectory.turns, trajectory.turn_spans(), strict=True)
        for begin, end, mask in turn.masks
    ]


class TokenMasks:
    """The masks of the rows of the next forward pass.

    Args:
        temperature: the divisor of the logits.

    Attributes:
        rows: the masks of each row. completion_length: number of tokens after the prompt, with padding.
        separate_rows: maps the pass's sequences to these rows, if trajectories have several.
    """

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self.rows: Sequence[MaskedRow] = ()
        self.completion_length = 0
        self.separate_rows: SeparateRows | None = None

    def apply(self, model: Any, outputs: Any, hidden: torch.Tensor, scored: torch.Tensor, labels: torch.Tensor) -> None:
        """Replace log-probabilities and entropies in `outputs` by the masked distribution's.

        Args:
            model: a transformers model. outputs: TRL's fused head's results, [1, n] for the scored tokens in order.
            hidden: [1, n, d] states that predict the scored tokens. scored: [B, L] True on scored tokens.
            labels: [1, n] the scored tokens.
        """
        positions = self._positions(scored)
        if not positions:
            return
        head = _plain_head(model)
        logps, entropies = outputs.log_probs[0].clone(), outputs.entropy
        entropies = None if entropies is None else entropies[0].clone()
        for mask, numbers in positions.items():
            at = torch.tensor(numbers, device=logps.device)
            named = torch.tensor(mask.ids, device=logps.device)
            states, tokens = hidden[0, at].float(), labels[0, at]
            logits = _logits(head, states, named) / self._temperature
            entropy = None if entropies is None else entropies[at].float()
            if mask.allowed:
                logp, entropy = _among_allowed(logits, (named == tokens[:, None]).int().argmax(-1), entropy)
            else:
                chosen = _logits(head, states[:, None], tokens[:, None]) / self._temperature
                logp, entropy = _without_refused(logits, chosen[:, 0], logps[at].float(), entropy)
            logps[at] = logp.to(logps.dtype)
            if entropies is not None and entropy is not None:
                entropies[at] = entropy.to(entropies.dtype)
        outputs.log_probs = logps[None]
        if entropies is not None:
            outputs.entropy = entropies[None]

    def _positions(self, scored: torch.Tensor) -> dict[TokenMask, list[int]]:
        """Return for each mask the indices of its tokens among the scored tokens."""
        positions: dict[TokenMask, list[int]] = defaultdict(list)
        if not any(self.rows):
            return positions
        is_scored = (scored if self.separate_rows is None else self.separate_rows.join(scored)).cpu()
        number = (is_scored.flatten().cumsum(0) - 1).view(is_scored.shape)
        before = is_scored.shape[1] - self.completion_length  # the column that predicts the first token
        for row, masks in enumerate(self.rows):
            for begin, end, mask in masks:
                columns = range(before + begin, before + end)
                positions[mask] += [int(number[row, column]) for column in columns if is_scored[row, column]]
        return {mask: numbers for mask, numbers in positions.items() if numbers}


def _logits(head: Any, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return [n, k] float32 logits of n states: of the same k tokens for states [n, d], of each state's own tokens [n,
    k] for states [n, 1, d].
    """
    weight = head.weight[tokens].float()
    logits = states @ weight.T if weight.dim() == 2 else (states * weight).sum(-1)
    return logits if head.bias is None else logits + head.bias[tokens].float()


def _among_allowed(
    logits: torch.Tensor, chosen: torch.Tensor, entropy: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return log-probability and entropy among the allowed tokens; `chosen` [n] indexes the sampled token."""
    logps = logits.log_softmax(-1)
    logp = logps.gather(-1, chosen[:, None])[:, 0]
    return logp, None if entropy is None else -(logps.exp() * logps).sum(-1)


def _without_refused(
    logits: torch.Tensor, chosen: torch.Tensor, logp: torch.Tensor, entropy: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return log-probability and entropy without the refused tokens, computed from the full distribution's.

    Args:
        logits: [n, k] logits of the refused tokens. chosen: [n] logits of the sampled tokens.
        logp: [n] log-probabilities of the sampled tokens.
    """
    logps = logits - (chosen - logp)[:, None]
    log_left = torch.log1p(-logps.exp().sum(-1))
    if entropy is not None:
        entropy = (entropy + (logps.exp() * logps).sum(-1)) / log_left.exp() + log_left
    return logp - log_left, entropy


def _plain_head(model: Any) -> Any:
    """Return the output layer. Raises: AgentGymError if the logits are not its plain output."""
    own = own_model(model)
    head, configuration = own.get_output_embeddings(), own.config.get_text_config()
    scales = [name for name in _SCALES if getattr(configuration, name, None) not in (None, 1.0)]
    if type(head) is not torch.nn.Linear or scales:
        raise AgentGymError(
            f"The model {type(own).__name__} cannot be trained on tokens that a logit hook restricted: "
            + (f"it scales its logits ({scales[0]})." if scales else f"its output layer is a {type(head).__name__}.")
            + " Remove policy.logit_hook from the recipe."
        )
    return head
