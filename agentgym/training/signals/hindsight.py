"""How much likelier each turn is to one who knows how the episode ended."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from agentgym.policy.contract import Policy
from agentgym.training.rollouts import Rollouts
from agentgym.training.signals.gold_answer import prefixes
from agentgym.training.signals.provider import Rows
from agentgym.trajectory import Trajectory, Turn

SUCCESS_AT = 0.5
SAYS = {True: "This attempt succeeds.\n", False: "This attempt fails.\n"}
"""What hindsight reads before the prompt."""


class PromptedHindsight:
    """`hindsight`: log pi(turn | outcome, what came before) - log pi(turn | what came before), in nats a turn.

    The policy itself is asked again with the outcome in front of the prompt. A policy that does not understand the
    sentence gives noise: for small models `LearnedHindsight` is the better one.
    Args:
        policy: scores given tokens. `encode`: from text to its token ids. `rollouts`: whose event loop it lives on.
    Source: HCAPO, arXiv:2603.08754 (the model itself as the hindsight estimator).
    """

    provides: tuple[str, ...] = ("hindsight",)

    def __init__(self, policy: Policy, rollouts: Rollouts, encode: Callable[[str], list[int]]) -> None:
        self._policy, self._rollouts = policy, rollouts
        self._said = {good: encode(text) for good, text in SAYS.items()}

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        """Raises: PolicyError from the model."""
        pairs: list[tuple[list[int], list[int]]] = []
        for trajectory, turn, prefix in _turns(played):
            pairs += [(prefix, turn.token_ids), ([*self._said[_good(trajectory)], *prefix], turn.token_ids)]
        scored = [float(np.sum(one)) for one in self._rollouts.score(self._policy, pairs)]
        gains = (knowing - before for before, knowing in zip(scored[::2], scored[1::2], strict=True))
        return {"hindsight": _filled(played, gains)}

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        return {}


class LearnedHindsight:
    """`hindsight` by a copy of the model that learns to say the run's own turns, half the time with the outcome in
    front of the prompt: both probabilities are its own, so that what it has not learnt cancels.

    Args:
        model: a causal language model of transformers; it is copied. `encode`: from text to its token ids.
        learning_rate, epochs, batch_size: of its training. `seed`: of the order of batches.
    Source: Harutyunyan et al. 2019, arXiv:1912.02503, return-conditional form; the shared network: our own.
    """

    provides: tuple[str, ...] = ("hindsight",)

    def __init__(
        self,
        model: Any,
        encode: Callable[[str], list[int]],
        *,
        learning_rate: float = 1e-3,
        epochs: int = 2,
        batch_size: int = 16,
        seed: int = 0,
    ) -> None:
        self._model = copy.deepcopy(model)
        for parameter in self._model.parameters():
            parameter.requires_grad_(True)
        self._said = {good: encode(text) for good, text in SAYS.items()}
        self._optimiser = torch.optim.AdamW(self._model.parameters(), lr=learning_rate, weight_decay=0.0)
        self._epochs, self._batch_size = epochs, batch_size
        self._order = np.random.default_rng(seed)

    def signals(self, played: Sequence[Trajectory], step: int) -> Mapping[str, Rows]:
        valid = [t for t in played if t.valid]
        self._model.eval()
        gains: list[float] = []
        for start in range(0, len(valid), self._batch_size):
            batch = valid[start : start + self._batch_size]
            with torch.no_grad():
                before, knowing = (self._logprobs(batch, [told] * len(batch)) for told in (False, True))
            for t, plain, told in zip(batch, before, knowing, strict=True):
                gains += [float((told - plain)[begin:end].sum()) for begin, end in t.turn_spans()]
        return {"hindsight": _filled(played, iter(gains))}

    def update(self, played: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: the loss of the first pass, in nats per token."""
        valid = [t for t in played if t.valid]
        if not valid:
            return {}
        self._model.train()
        first: list[float] = []
        for epoch in range(self._epochs):
            order = self._order.permutation(len(valid))
            told = self._order.random(len(valid)) < 0.5
            for start in range(0, len(order), self._batch_size):
                rows = order[start : start + self._batch_size]
                batch = [valid[row] for row in rows]
                scored = self._logprobs(batch, [bool(told[row]) for row in rows])
                said = [one[begin:end] for t, one in zip(batch, scored, strict=True) for begin, end in t.turn_spans()]
                loss = -torch.cat(said).mean()
                self._optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
                self._optimiser.step()
                if epoch == 0:
                    first.append(float(loss.detach()))
        return {"hindsight/loss": float(np.mean(first))}

    def _logprobs(self, played: Sequence[Trajectory], told: Sequence[bool]) -> list[torch.Tensor]:
        """Of every token after the prompt, one tensor per trajectory; with the outcome in front where `told`."""
        device = next(self._model.parameters()).device
        rows: list[list[int]] = []
        spoken = [len(t.arrays().ids) - len(t.prompt_ids) for t in played]
        for trajectory, known in zip(played, told, strict=True):
            ahead = self._said[_good(trajectory)] if known else []
            rows.append([*ahead, *trajectory.arrays().ids.tolist()])
        longest = max(map(len, rows))
        ids, mask = torch.zeros((2, len(rows), longest), dtype=torch.long)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = torch.tensor(row)
            mask[at, : len(row)] = 1
        logits = self._model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.float()
        logprobs = torch.log_softmax(logits[:, :-1], dim=-1).gather(-1, ids[:, 1:, None].to(device)).squeeze(-1)
        ends = [len(row) - 1 for row in rows]
        return [logprobs[at, end - count : end] for at, (end, count) in enumerate(zip(ends, spoken, strict=True))]


def _good(trajectory: Trajectory) -> bool:
    return trajectory.outcome_reward >= SUCCESS_AT


def _turns(played: Sequence[Trajectory]) -> list[tuple[Trajectory, Turn, list[int]]]:
    """Every turn of every valid trajectory, with the token ids before it."""
    return [(t, turn, prefix) for t in played if t.valid for turn, prefix in zip(t.turns, prefixes(t), strict=False)]


def _filled(played: Sequence[Trajectory], gains: Iterator[float]) -> Rows:
    """One number a turn from an iterator over the turns of the valid trajectories; 0 for the others."""
    return [[next(gains) if t.valid else 0.0 for _ in t.turns] for t in played]
