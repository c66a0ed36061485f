"""Measures the effective rank of an episode's hidden states, and how it changes, relative to running means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import override

from agentgym import Trajectory
from agentgym.training.signals import SignalProvider, SignalSources

from .hidden_states import hidden_states, own_spans

FILE = "state_ranks.json"
"""File with the running means in a checkpoint's folder."""

DEVIATIONS = ("rank_deviations", "rank_velocity_deviations", "rank_acceleration_deviations")
MAX_DEVIATION = 5.0
"""The bound on relative deviations."""


class StateRanks(SignalProvider):
    """Compute deviations of rank, rank velocity and rank acceleration: one number per trajectory, between -5 and 5.

    Each is (value - m) / |m|, with m the running mean of the value over earlier batches; 0 before the first batch.
    `rank_scales` is 1 minus the running mean of success, the same for all trajectories of a batch; 0.5 before the first
    batch.

    Args:
        model: the trained model. renewal: the weight of the last batch in a running mean.
        every: number of own tokens between two ranks of an episode; 0 takes a rank after each turn.
    Source: VERL, arXiv:2509.23808; the constants are those of the authors' code, where `every` is 20.
    """

    provides: ClassVar[tuple[str, ...]] = (*DEVIATIONS, "rank_scales")
    switches: ClassVar[tuple[str, ...]] = ("rank_every",)
    reads_text_only: ClassVar[bool] = True
    needs_whole_model: ClassVar[bool] = True

    def __init__(self, model: Any, *, renewal: float = 0.7, every: int = 0) -> None:
        self._model, self._renewal, self._every = model, renewal, every
        self._means: list[float] | None = None
        self._success = 0.5
        self._last = np.zeros((0, 3))  # one row per valid trajectory of the last batch

    @classmethod
    @override
    def make(cls, sources: SignalSources) -> StateRanks:
        return cls(sources.model, every=sources.options.rank_every)

    def signals(self, trajectories: Sequence[Trajectory], step: int) -> Mapping[str, list[Any]]:
        deviations = np.zeros((len(trajectories), 3))
        measured = []
        for row, trajectory, states in hidden_states(self._model, trajectories):
            spans = own_spans(trajectory)
            ranks = ranks_of_chunks(states, spans, self._every) if self._every else ranks_after_turns(states, spans)
            measured.append(rank_dynamics(ranks))
            if self._means is not None:
                usual = np.array(self._means)
                deviations[row] = np.clip(
                    (measured[-1] - usual) / (np.abs(usual) + 1e-8), -MAX_DEVIATION, MAX_DEVIATION
                )
        self._last = np.array(measured).reshape(-1, 3)
        scales = {"rank_scales": [1.0 - self._success] * len(trajectories)}
        return {name: deviations[:, index].tolist() for index, name in enumerate(DEVIATIONS)} | scales

    def update(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Update the running means with the last batch. Returns: the last batch's means."""
        judged = [t.outcome["success"] for t in trajectories if t.valid and "success" in t.outcome]
        if judged:
            self._success = (1 - self._renewal) * self._success + self._renewal * float(np.mean(judged))
        if not len(self._last):
            return {}
        means = self._last.mean(0)
        before = means if self._means is None else np.array(self._means)
        self._means = ((1 - self._renewal) * before + self._renewal * means).tolist()
        return dict(
            zip(("states/rank", "states/rank_velocity", "states/rank_acceleration"), means.tolist(), strict=True)
        )

    def save(self, folder: Path) -> None:
        """Write the state into a checkpoint's folder."""
        state = {"means": self._means, "success": self._success}
        (folder / FILE).write_text(json.dumps(state), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Restore the state from a checkpoint's folder."""
        if (folder / FILE).is_file():
            state = json.loads((folder / FILE).read_text(encoding="utf-8"))
            if not isinstance(state, dict):  # saved before mean success existed
                state = {"means": state, "success": 0.5}
            self._means, self._success = state["means"], state["success"]


def ranks_after_turns(states: torch.Tensor, spans: Sequence[tuple[int, int]]) -> list[float]:
    """Return [T] effective ranks of the states at the agent's own tokens up to the end of each turn.

    Args:
        states: [L, d] states at all tokens. spans: the span of each turn's own tokens.
    """
    own = [states[start:end] for start, end in spans]
    return [effective_rank(torch.cat(own[: turn + 1])) for turn in range(len(own))]


def ranks_of_chunks(states: torch.Tensor, spans: Sequence[tuple[int, int]], every: int) -> list[float]:
    """Return effective ranks of the states at the first `every` own tokens, the first 2 x `every`, ..., and all.

    Args:
        states: [L, d] states at all tokens. spans: the span of each turn's own tokens.
    """
    own = torch.cat([states[start:end] for start, end in spans]) if spans else states[:0]
    ends = [*range(every, len(own), every), len(own)] if len(own) else []
    return [effective_rank(own[:end]) for end in ends]


def effective_rank(states: torch.Tensor) -> float:
    """Return exp of the entropy of the normalised singular values of the centred [n, d] states; 0 if all are equal.

    k orthogonal states of equal length have rank k - 1. Source: Roy and Vetterli 2007, "The effective rank".
    """
    if len(states) < 2:
        return 0.0
    centred = (states - states.mean(0)).double()
    values = torch.linalg.svdvals(centred)
    total = float(values.sum())
    if total <= 1e-8:
        return 0.0
    shares = values / total
    return float(torch.special.entr(shares).sum().exp())


def rank_dynamics(ranks: Sequence[float]) -> NDArray[np.float64]:
    """Return [3]: the last rank, the velocity and the acceleration.

    The velocity is the mean, over all ranks but the first, of the rank minus the mean of all earlier ranks. The
    acceleration is the mean change of these differences. Each is 0 if there are too few ranks.
    """
    array = np.array(ranks, np.float64)
    if not len(array):
        return np.zeros(3)
    before = np.cumsum(array)[:-1] / np.arange(1, len(array))
    differences = array[1:] - before
    changes = np.diff(differences)
    return np.array([array[-1], *(float(part.mean()) if len(part) else 0.0 for part in (differences, changes))])
