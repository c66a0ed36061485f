"""The hindsight signal: how much likelier each turn becomes given the episode's outcome."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym import Policy, Trajectory, Turn
from agentgym.training import Rollouts, TrainingPlan
from agentgym.training.signals import SignalProvider, SignalSources

from .gold_answer import prefixes

FILE = "hindsight.pt"
"""File with the state of LearnedHindsight in a checkpoint's folder."""
SUCCESS_AT = 0.5
OUTCOME_TEXTS = {True: "This attempt succeeds.\n", False: "This attempt fails.\n"}
"""The text that is put before the prompt, by whether the episode succeeded."""


class Hindsight(SignalProvider):
    """Base of the two estimates of `hindsight`; train.signals.hindsight chooses one."""

    provides: ClassVar[tuple[str, ...]] = ("hindsight",)
    reads_text_only: ClassVar[bool] = True
    reads_one_context: ClassVar[bool] = True

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> Hindsight:
        if sources.options.hindsight == "prompted":
            return PromptedHindsight(sources.policy, sources.rollouts, sources.encode)
        return LearnedHindsight(sources.model, sources.encode, **sources.network_options)

    @classmethod
    @override
    def requires(cls, plan: TrainingPlan) -> Iterator[str]:
        if (sharding := plan.hardware.sharding) is not None and plan.train.signals.hindsight == "learnt":
            yield (
                f"machine.sharding = {sharding!r}: train.estimator = {plan.train.estimator!r} learns hindsight with a "
                "copy of the whole model in the first process. Set train.signals.hindsight = 'prompted'."
            )


class PromptedHindsight(Hindsight):
    """Compute `hindsight`: log pi(turn | outcome, prefix) - log pi(turn | prefix), in nats per turn.

    The policy itself scores each turn again with the outcome before the prompt. A policy that does not understand this
    sentence gives noise: prefer `LearnedHindsight` for small models.

    Args:
        policy: scores given tokens.
        encode: maps text to the policy's token ids.
        rollouts: provides the event loop of the policy.
    Source: HCAPO, arXiv:2603.08754 (the model itself as the hindsight estimator).
    """

    def __init__(self, policy: Policy, rollouts: Rollouts, encode: Callable[[str], list[int]]) -> None:
        self._policy, self._rollouts = policy, rollouts
        self._outcome_ids = {good: encode(text) for good, text in OUTCOME_TEXTS.items()}

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        """Score each turn with and without the outcome before the prompt. Raises: PolicyError from the model."""
        pairs: list[tuple[list[int], list[int]]] = []
        for trajectory, turn, prefix in _turns_with_prefix(trajectories):
            pairs += [(prefix, turn.token_ids), ([*self._outcome_ids[_succeeded(trajectory)], *prefix], turn.token_ids)]
        turn_logprobs = [float(np.sum(logprobs)) for logprobs in self._rollouts.score(self._policy, pairs)]
        gains = (
            with_outcome - without_outcome
            for without_outcome, with_outcome in zip(turn_logprobs[::2], turn_logprobs[1::2], strict=True)
        )
        return {"hindsight": _rows_of(trajectories, gains)}


class LearnedHindsight(Hindsight):
    """Compute `hindsight` with a copy of the model, trained on the run's turns, half of them with the outcome first.

    Both probabilities come from this copy, so that errors common to both cancel.

    Args:
        model: a transformers causal language model; it is copied.
        encode: maps text to the model's token ids.
        learning_rate, epochs, batch_size: for training the copy. `seed`: the seed of the batch order.
    Source: Harutyunyan et al. 2019, arXiv:1912.02503, return-conditional form; the shared network: our own.
    """

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
        self._outcome_ids = {good: encode(text) for good, text in OUTCOME_TEXTS.items()}
        self._optimiser = torch.optim.AdamW(self._model.parameters(), lr=learning_rate, weight_decay=0.0)
        self._epochs, self._batch_size = epochs, batch_size
        self._order = np.random.default_rng(seed)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        valid = [t for t in trajectories if t.valid]
        self._model.eval()
        gains: list[float] = []
        for start in range(0, len(valid), self._batch_size):
            batch = valid[start : start + self._batch_size]
            with torch.no_grad():
                without_outcome = self._logprobs(batch, [False] * len(batch))
                with_outcome = self._logprobs(batch, [True] * len(batch))
            for t, plain, informed in zip(batch, without_outcome, with_outcome, strict=True):
                gains += [float((informed - plain)[begin:end].sum()) for begin, end in t.turn_spans()]
        return {"hindsight": _rows_of(trajectories, iter(gains))}

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Fit to the batch. Returns: the loss of the first pass, in nats per token."""
        valid = [t for t in trajectories if t.valid]
        if not valid:
            return {}
        self._model.train()
        first_pass_losses: list[float] = []
        for epoch in range(self._epochs):
            order = self._order.permutation(len(valid))
            shows_outcome = self._order.random(len(valid)) < 0.5
            for start in range(0, len(order), self._batch_size):
                rows = order[start : start + self._batch_size]
                batch = [valid[row] for row in rows]
                batch_logprobs = self._logprobs(batch, [bool(shows_outcome[row]) for row in rows])
                turn_logprobs = [
                    logprobs[begin:end]
                    for t, logprobs in zip(batch, batch_logprobs, strict=True)
                    for begin, end in t.turn_spans()
                ]
                loss = -torch.cat(turn_logprobs).mean()
                self._optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
                self._optimiser.step()
                if epoch == 0:
                    first_pass_losses.append(float(loss.detach()))
        return {"hindsight/loss": float(np.mean(first_pass_losses))}

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        order = json.dumps(self._order.bit_generator.state)
        state = {"weights": self._model.state_dict(), "optimiser": self._optimiser.state_dict(), "order": order}
        torch.save(state, folder / FILE)

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder. An older checkpoint without the file changes nothing."""
        if not (folder / FILE).is_file():
            return
        device = next(self._model.parameters()).device
        state = torch.load(folder / FILE, weights_only=True, map_location=device)
        self._model.load_state_dict(state["weights"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._order.bit_generator.state = json.loads(state["order"])

    def _logprobs(self, trajectories: Sequence[Trajectory], shows_outcome: Sequence[bool]) -> list[torch.Tensor]:
        """Return, per trajectory, the log-probabilities of the tokens after the prompt; where `shows_outcome`, with the
        outcome before the prompt.
        """
        device = next(self._model.parameters()).device
        for trajectory in trajectories:
            trajectory.require_one_row("the hindsight network")
        rows: list[list[int]] = []
        completion_lengths = [len(t.arrays().ids) - len(t.prompt_ids) for t in trajectories]
        for trajectory, shows in zip(trajectories, shows_outcome, strict=True):
            outcome_ids = self._outcome_ids[_succeeded(trajectory)] if shows else []
            rows.append([*outcome_ids, *trajectory.arrays().ids.tolist()])
        longest = max(map(len, rows))
        ids, mask = torch.zeros((2, len(rows), longest), dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row)
            mask[index, : len(row)] = 1
        logits = self._model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits.float()
        logprobs = torch.log_softmax(logits[:, :-1], dim=-1).gather(-1, ids[:, 1:, None].to(device)).squeeze(-1)
        ends = [len(row) - 1 for row in rows]
        return [
            logprobs[index, end - count : end]
            for index, (end, count) in enumerate(zip(ends, completion_lengths, strict=True))
        ]


def _succeeded(trajectory: Trajectory) -> bool:
    return trajectory.outcome_reward >= SUCCESS_AT


def _turns_with_prefix(trajectories: Sequence[Trajectory]) -> list[tuple[Trajectory, Turn, list[int]]]:
    """Return every turn of every valid trajectory, with the token ids before it."""
    return [
        (t, turn, prefix) for t in trajectories if t.valid for turn, prefix in zip(t.turns, prefixes(t), strict=False)
    ]


def _rows_of(trajectories: Sequence[Trajectory], gains: Iterator[float]) -> list[Any]:
    """Return one number per turn, from an iterator over valid trajectories' turns; 0 for invalid trajectories."""
    return [[next(gains) if t.valid else 0.0 for _ in t.turns] for t in trajectories]
