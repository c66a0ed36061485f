"""Measures how far each token's hidden state is from where states move in successful episodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import override

from agentgym import Trajectory
from agentgym.training.signals import SignalProvider, SignalSources

from .hidden_states import hidden_states, own_spans, without_adapter

FILE = "state_flow.pt"
"""File with the network in a checkpoint's folder."""

TIME = 0.8
"""The point of time, between noise (0) and state (1), at which a deviation is measured."""


class VelocityNetwork(torch.nn.Module):
    """Predict the velocity from noise to a state, given a point between them and the previous token's state."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2 * width + 1, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
            torch.nn.SiLU(),
            torch.nn.Linear(width, width),
        )

    def errors(
        self, states: torch.Tensor, before: torch.Tensor, noise: torch.Tensor, time: torch.Tensor
    ) -> torch.Tensor:
        """Return [n] mean squared velocity errors. `states`, `before`, `noise`: [n, d]; `time`: [n, 1], 0 to 1."""
        point = time * states + (1 - time) * noise
        predicted = self.layers(torch.cat([point, before, time], 1))
        error: torch.Tensor = ((predicted - (states - noise)) ** 2).mean(1)
        return error


class StateFlow(SignalProvider):
    """Compute `flow_deviations`: one non-negative number per own token; empty before the first success.

    The velocity network learns by flow matching on the tokens of each batch's successful episodes, after the batch was
    judged. States are divided by their root mean square. All tokens are measured with the same noise.

    Args:
        model: the trained model.
        learning_rate, epochs: for training the network. batch_size: number of tokens per step. draws: number of noise
            draws.
        seed: the seed of the network's weights, batches and noise.
    Source: RLFR, arXiv:2510.10201: the deviation at the time 0.8, times 0.8 / 0.2, as in the authors' code. That code
        first learns from stored expert episodes, and reads several layers; this class learns while training, and reads
        the last layer.
    """

    provides: ClassVar[tuple[str, ...]] = ("flow_deviations",)
    reads_text_only: ClassVar[bool] = True
    needs_whole_model: ClassVar[bool] = True

    def __init__(
        self,
        model: Any,
        *,
        learning_rate: float = 1e-3,
        epochs: int = 2,
        batch_size: int = 256,
        draws: int = 4,
        seed: int = 0,
    ) -> None:
        self._model, self._epochs, self._batch_size, self._draws = model, epochs, batch_size, draws
        width = without_adapter(model).config.get_text_config().hidden_size
        self._device = next(model.parameters()).device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = VelocityNetwork(width).to(self._device)
        self._optimiser = torch.optim.AdamW(self.network.parameters(), lr=learning_rate, weight_decay=0.0)
        self._order = np.random.default_rng(seed)
        self._noise = torch.randn(draws, width, generator=torch.Generator().manual_seed(seed)).to(self._device)
        self._episodes = 0  # number of episodes that the network has learnt from
        self._successes: list[tuple[torch.Tensor, torch.Tensor]] = []  # turns of the last batch

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> StateFlow:
        return cls(sources.model, **sources.network_options)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        deviations: list[Any] = [[[] for _ in t.turns] for t in trajectories]
        self._successes = []
        for row, trajectory, states in hidden_states(self._model, trajectories):
            states = states * states.square().mean(1, keepdim=True).clamp(min=1e-12).rsqrt()
            turns = [(states[start:end], states[start - 1 : end - 1]) for start, end in own_spans(trajectory)]
            if (trajectory.success or 0.0) >= 1.0:
                self._successes += turns
            if self._episodes:
                deviations[row] = [self.deviations(*turn).cpu().double().numpy() for turn in turns]
        return {"flow_deviations": deviations}

    @torch.no_grad()
    def deviations(self, states: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Return [n] deviations of the [n, d] states of tokens, given the previous tokens' states `before`."""
        time = torch.full((len(states), 1), TIME, device=self._device)
        errors = [self.network.errors(states, before, noise.expand_as(states), time) for noise in self._noise]
        return torch.stack(errors).mean(0) * TIME / (1 - TIME)

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Learn from the successful episodes of the last batch. Returns: the mean loss, and the number of episodes."""
        count = float(sum(t.valid and (t.success or 0.0) >= 1.0 for t in trajectories))
        if not self._successes:
            return {"flow/episodes": count}
        states, before = (torch.cat(parts) for parts in zip(*self._successes, strict=True))
        losses = [self._step(states[rows], before[rows]) for rows in self._batches(len(states))]
        self._episodes += int(count)
        return {"flow/loss": float(np.mean(losses)), "flow/episodes": count}

    def _batches(self, count: int) -> list[np.ndarray]:
        """Return the rows of each step, for `epochs` shuffled passes over all rows."""
        orders = [self._order.permutation(count) for _ in range(self._epochs)]
        return [
            order[start : start + self._batch_size] for order in orders for start in range(0, count, self._batch_size)
        ]

    def _step(self, states: torch.Tensor, before: torch.Tensor) -> float:
        noise = torch.from_numpy(self._order.standard_normal(states.shape)).to(states)
        time = torch.from_numpy(self._order.random((len(states), 1))).to(states)
        loss = self.network.errors(states, before, noise, time).mean()
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self._optimiser.step()
        return float(loss.detach())

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        state = {
            "weights": self.network.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "order": json.dumps(self._order.bit_generator.state),
            "episodes": self._episodes,
        }
        torch.save(state, folder / FILE)

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder."""
        if (folder / FILE).is_file():
            state = torch.load(folder / FILE, weights_only=True, map_location=self._device)
            self.network.load_state_dict(state["weights"])
            self._optimiser.load_state_dict(state["optimiser"])
            self._order.bit_generator.state = json.loads(state["order"])
            self._episodes = state["episodes"]
