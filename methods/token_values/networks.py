"""Networks that predict the value of the next token: a copy of a model's body with its own head."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from agentgym import PolicyError

WEIGHTS, SETTINGS = "token_values.pt", "token_values.json"
_ROWS_AT_ONCE = 256


class AdvantageHead(torch.nn.Module):
    """An action value of every token of the vocabulary, and the value of the tokens so far.

    Args:
        body: the body of a causal language model; it is copied.
        hidden: width of its hidden states. vocabulary: number of tokens.
    """

    kind = "advantage"

    def __init__(self, body: Any, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.settings = {"hidden": hidden, "vocabulary": vocabulary}
        self.body = copy.deepcopy(body).requires_grad_(True)
        self.action, self.value = torch.nn.Linear(hidden, vocabulary), torch.nn.Linear(hidden, 1)
        _zero(self.action, self.value)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [B, L, V] action values after each token, and [B, L] values."""
        hidden = self.body(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        return self.action(hidden), self.value(hidden)[..., 0]

    @torch.no_grad()
    def gains(self, ids: Sequence[int], candidates: Sequence[int], scale: float) -> torch.Tensor:
        """Return [n] scale (Q - V) of the candidates after the tokens `ids`."""
        row = torch.tensor([list(ids)], device=self.value.weight.device)
        actions, values = self(row, torch.ones_like(row))
        return scale * (actions[0, -1, list(candidates)] - values[0, -1])


class OutcomeHead(torch.nn.Module):
    """A distribution of the return that follows each token, over equally spaced numbers.

    Args:
        body, hidden: as for AdvantageHead.
        low, high: the least and the largest return. bins: how many numbers between them, both included.
    """

    kind = "outcome"

    def __init__(self, body: Any, hidden: int, low: float, high: float, bins: int) -> None:
        super().__init__()
        self.settings = {"hidden": hidden, "low": low, "high": high, "bins": bins}
        self.body = copy.deepcopy(body).requires_grad_(True)
        self.head = torch.nn.Linear(hidden, bins)
        _zero(self.head)
        self.register_buffer("support", torch.linspace(low, high, bins, dtype=torch.float64))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return [B, L, bins] logits."""
        logits: torch.Tensor = self.head(self.body(input_ids=ids, attention_mask=mask).last_hidden_state.float())
        return logits

    @torch.no_grad()
    def gains(self, ids: Sequence[int], candidates: Sequence[int], scale: float) -> torch.Tensor:
        """Return [n] log E exp(scale x return) after each candidate, with scale = 1 / eta."""
        parts = []
        for start in range(0, len(candidates), _ROWS_AT_ONCE):
            rows = [[*ids, candidate] for candidate in candidates[start : start + _ROWS_AT_ONCE]]
            tokens = torch.tensor(rows, device=self.head.weight.device)
            logprobs = self(tokens, torch.ones_like(tokens))[:, -1].double().log_softmax(-1)
            parts.append(torch.logsumexp(logprobs + scale * self.support, dim=-1))
        return torch.cat(parts)


ValueNetwork = AdvantageHead | OutcomeHead


def save_values(network: ValueNetwork, tokenizer: Any, folder: Path) -> None:
    """Write a network next to the model whose body it copied."""
    torch.save(network.state_dict(), folder / WEIGHTS)
    settings = {"kind": network.kind, "tokens": fingerprint(tokenizer), **network.settings}
    (folder / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")


def load_values(folder: str | Path, tokenizer: Any, device: Any) -> ValueNetwork:
    """Load a network. Raises: PolicyError if there is none, or if it belongs to another vocabulary."""
    from transformers import AutoConfig, AutoModel

    file = Path(folder) / SETTINGS
    if not file.is_file():
        raise PolicyError(
            f"{str(folder)!r} contains no token values ({SETTINGS}). Give a checkpoint that a stage `implicit_q` or "
            "`outcome_head` wrote."
        )
    settings = json.loads(file.read_text(encoding="utf-8"))
    kind, tokens = settings.pop("kind"), settings.pop("tokens")
    if tokens != fingerprint(tokenizer):
        raise PolicyError(
            f"The token values in {str(folder)!r} were trained with another model's tokenizer. Train them with this "
            "one."
        )
    body = AutoModel.from_config(AutoConfig.from_pretrained(folder))
    network: ValueNetwork = (AdvantageHead if kind == AdvantageHead.kind else OutcomeHead)(body, **settings)
    network.load_state_dict(torch.load(Path(folder) / WEIGHTS, weights_only=True, map_location="cpu"))
    network.to(device).eval()
    return network


def fingerprint(tokenizer: Any) -> str:
    """Return a hash of the tokenizer's vocabulary."""
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256(vocabulary.encode()).hexdigest()[:16]


class Scaled:
    """The gains of a network at one scale, in the form that a guided turn uses."""

    def __init__(self, network: ValueNetwork, scale: float) -> None:
        if not math.isfinite(scale) or scale < 0:
            raise PolicyError(f"scale = {scale} is not valid: give a finite number of at least 0.")
        self._network, self._scale = network, scale

    def gains(self, ids: Sequence[int], candidates: Sequence[int]) -> torch.Tensor:
        return self._network.gains(ids, candidates, self._scale)


def _zero(*layers: torch.nn.Linear) -> None:
    for layer in layers:
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
