"""The policy gradient from its formulas, in float64: nothing here comes from the objectives, estimators or the trainer.

Every loss has a gradient of the form sum over own tokens of c x grad log pi. An objective below gives the coefficients
c by its derivative on paper, so no loss is written down, and none is differentiated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from credit_reference import Array, others, return_from

from agentgym import Trajectory

EPSILON = 0.2


# Probabilities


def rows_of(trajectory: Trajectory) -> list[tuple[list[int], list[int]]]:
    """The token ids of each row, and the positions of the agent's tokens in it."""
    rows = []
    for number, prompt in enumerate([trajectory.prompt_ids, *(row.prompt_ids for row in trajectory.further_rows)]):
        ids, own = list(prompt), []
        for turn in trajectory.turns:
            if turn.row == number:
                own += range(len(ids), len(ids) + len(turn.token_ids))
                ids += [*turn.token_ids, *turn.observation_ids]
        rows.append((ids, own))
    return rows


def scores_of(model: Any, trajectory: Trajectory, temperature: float = 1.0) -> torch.Tensor:
    """(L,) float64 log-probabilities of the agent's tokens, turn after turn: each row alone, without padding."""
    by_row = []
    for ids, own in rows_of(trajectory):
        logits = model(torch.tensor([ids[: max(own, default=0) + 1]])).logits[0] / temperature
        chosen = logits.log_softmax(-1)[[i - 1 for i in own], [ids[i] for i in own]]
        by_row.append(iter(chosen))
    return torch.stack([next(by_row[turn.row]) for turn in trajectory.turns for _ in turn.token_ids])


def in_float64(model: Any) -> Any:
    """A copy of the weights in float64 and evaluation mode."""
    return copy.deepcopy(model).double().eval()


# Objectives


@dataclass
class Episode:
    """An episode's own tokens, one entry each: log-probabilities now, when sampled, at the start of the update, and
    under the reference; and what the objectives of outcomes read. A failed episode has no tokens.
    """

    trajectory: Trajectory
    now: Array
    sampled: Array
    start: Array
    reference: Array
    advantages: Array
    expert: Trajectory

    @property
    def ratio(self) -> Array:
        return np.exp(self.now - self.sampled)

    @property
    def length(self) -> int:
        return len(self.now)

    @property
    def success(self) -> float:
        return self.trajectory.outcome["success"]


Batch = list[list[Episode]]
"""Groups of episodes, failed ones included."""


def _clipped(ratio: Array, advantages: Array, low: float = EPSILON, high: float = EPSILON) -> Array:
    """Coefficients of -min(r A, clip(r) A): -r A, or 0 where the clip has taken over."""
    stopped = ((advantages > 0) & (ratio > 1 + high)) | ((advantages < 0) & (ratio < 1 - low))
    return np.where(stopped, 0.0, -ratio * advantages)


def _of_sequence(e: Episode, low: float, high: float) -> Array:
    ratio = np.full(e.length, np.exp((e.now - e.sampled).sum() / max(e.length, 1)))
    return _clipped(ratio, e.advantages, low, high)


def _sapo(e: Episode) -> Array:
    heat = np.where(e.advantages > 0, 1.0, 1.05)
    gate = 1 / (1 + np.exp(-heat * (e.ratio - 1)))
    return -4 * gate * (1 - gate) * e.ratio * e.advantages


def _vespo(e: Episode) -> Array:
    w = np.exp((e.now - e.sampled).sum())
    k, lam = np.where(e.advantages >= 0, 2.0, 3.0), np.where(e.advantages >= 0, 3.0, 2.0)
    return -np.exp(lam) * w**k * np.exp(-lam * w) * e.advantages


def _topr(e: Episode) -> Array:
    of_episode = min(np.exp((e.now - e.sampled).sum()), 1.0)
    return -np.where(e.advantages < 0, of_episode, 1.0) * e.advantages


def _decoupled(e: Episode) -> Array:
    weight = np.minimum(np.exp(e.start - e.sampled), 5.0)
    return weight * _clipped(np.exp(e.now - e.start), e.advantages)


BY_TOKEN: dict[str, tuple[Callable[[Episode], Array], str]] = {
    "grpo": (lambda e: _clipped(e.ratio, e.advantages), "episode"),
    "bnpo": (lambda e: _clipped(e.ratio, e.advantages), "tokens"),
    "dr_grpo": (lambda e: _clipped(e.ratio, e.advantages), "constant"),
    "dapo": (lambda e: _clipped(e.ratio, e.advantages, high=0.28), "tokens"),
    "cispo": (lambda e: -np.minimum(e.ratio, 5.0) * e.advantages, "tokens"),
    "sapo": (_sapo, "episode"),
    "vespo": (_vespo, "tokens"),
    "gspo": (lambda e: _of_sequence(e, 3e-4, 4e-4), "episode"),
    "luspo": (lambda e: _of_sequence(e, 2e-3, 2.5e-3), "sum"),
    "reinforce": (lambda e: -e.advantages, "constant"),
    "topr": (_topr, "constant"),
    "ppo": (lambda e: _clipped(e.ratio, e.advantages), "constant"),
    "decoupled_ppo": (_decoupled, "constant"),
    "stable_reinforce": (lambda e: _clipped(e.ratio, e.advantages) * (np.abs(e.advantages) <= 3.0), "constant"),
    "critique_grpo": (lambda e: -e.ratio * e.advantages, "constant"),
}
"""Coefficients of an episode's tokens, and what a sum over its tokens is divided by."""


def _nft(group: list[Episode]) -> list[Array]:
    q = np.mean([e.success for e in group])
    if not 0 < q < 1:
        return [np.zeros(e.length) for e in group]
    weight, coefficients = np.sqrt((1 - q) / q), []
    for e in group:
        left = np.maximum((1 - q * e.ratio) / (1 - q), 1.0)
        coefficients.append(-weight * (np.ones(e.length) if e.success else -q * e.ratio / (1 - q) / left))
    return coefficients


def _pacs(group: list[Episode]) -> list[Array]:
    scores = [(e.now - e.sampled).sum() for e in group]
    errors = [1 / (1 + np.exp(-(s - others(scores, i)))) - group[i].success for i, s in enumerate(scores)]
    return [np.full(e.length, errors[i] - (sum(errors) - errors[i]) / (len(group) - 1)) for i, e in enumerate(group)]


def _pairwise_ppo(group: list[Episode]) -> list[Array]:
    scores, slopes = [(e.now - e.sampled).sum() for e in group], np.zeros(len(group))
    for i, better in enumerate(group):
        for j, worse in enumerate(group):
            advantage, ratio = max(better.success - worse.success, 0.0) / 2, np.exp(scores[i] - scores[j])
            if advantage and ratio <= 1 + EPSILON:
                slopes[i] -= ratio * advantage / (len(group) - 1)
                slopes[j] += ratio * advantage / (len(group) - 1)
    return [np.full(e.length, slope) for e, slope in zip(group, slopes, strict=True)]


OPTIMAL_VALUE = 0.4


def _apo(group: list[Episode], beta: float = 1e-3) -> list[Array]:
    return [
        np.full(
            e.length,
            2 * beta * (beta * (e.now - e.reference).sum() - (return_from(e.trajectory, 0) - OPTIMAL_VALUE)),
        )
        for e in group
    ]


def _compared_with_expert(group: Sequence[Trajectory], expert: Trajectory) -> Array:
    """The returns of a group and of its expert, the last, in their deviations (ddof 0)."""
    returns = np.array([return_from(t, 0) for t in (*group, expert)])
    return (returns - returns.mean()) / (returns.std() + 1e-6)


def _grao(group: list[Episode]) -> list[Array]:
    compared = _compared_with_expert([e.trajectory for e in group], group[0].expert)
    return [np.full(e.length, -1.6 * compared[i]) for i, e in enumerate(group)]


def _grao_of_expert(group: Sequence[Trajectory], expert: Trajectory) -> float:
    compared = _compared_with_expert(group, expert)
    return float(-(0.5 * compared[-1] - 0.6 * compared[:-1].mean()))


BY_GROUP: dict[str, tuple[Callable[[list[Episode]], list[Array]], str]] = {
    "nft": (_nft, "constant"),
    "pacs": (_pacs, "sum"),
    "pairwise_ppo": (_pairwise_ppo, "sum"),
    "apo": (_apo, "sum"),
    "grao": (_grao, "constant"),
}
"""The same for objectives that read outcomes in place of advantages: of the valid episodes of a group."""

KL_DIVISORS = {"pacs": "constant", "pairwise_ppo": "constant", "apo": "constant"}


def coefficients(objective: str, batch: Batch, *, max_length: int, kl: float = 0.0) -> list[list[Array]]:
    """The coefficient of each own token's score in the gradient of the mean loss of a batch, with KL(pi, reference).

    Of w (r - 1 - log r), w = pi / mu and r = reference / pi, the derivative is w (log pi - log reference).
    """
    episodes = [e for group in batch for e in group]
    tokens = sum(e.length for e in episodes)

    def divisor(kind: str, e: Episode) -> float:
        by_episode = {"episode": max(e.length, 1), "constant": max_length, "sum": 1}
        return float(tokens if kind == "tokens" else len(episodes) * by_episode[kind])

    rows = []
    for group in batch:
        if objective in BY_TOKEN:
            function, kind = BY_TOKEN[objective]
            values = [function(e) for e in group]
        else:
            by_group, kind = BY_GROUP[objective]
            valid = iter(by_group([e for e in group if e.trajectory.valid]))
            values = [next(valid) if e.trajectory.valid else np.zeros(0) for e in group]
        of_kl = [kl * e.ratio * (e.now - e.reference) / divisor(KL_DIVISORS.get(objective, kind), e) for e in group]
        rows.append([v / divisor(kind, e) + d for v, d, e in zip(values, of_kl, group, strict=True)])
    return rows


# The gradient


class GradientReference:
    """Groups of episodes under a float64 copy of a model, and the gradient of any objective.

    Args:
        model: the trained model. groups: its episodes, whose log-probabilities are those of the sampling policy.
        experts: an expert's episode of each group. reference: the reference model; by default the model itself.
    """

    def __init__(
        self,
        model: Any,
        groups: Sequence[Sequence[Trajectory]],
        *,
        experts: Sequence[Trajectory],
        temperature: float = 1.0,
        reference: Any = None,
    ) -> None:
        self.model, self._groups, self._temperature = in_float64(model), groups, temperature
        self._experts = experts
        with torch.no_grad():
            frozen = self.model if reference is None else in_float64(reference)
            self._reference = [[self._scores(frozen, t) for t in group] for group in groups]
        self._start = [[scores.detach() for scores in group] for group in self._of_model()]

    def gradient(
        self,
        objective: str,
        estimate: Callable[[Sequence[Trajectory]], list[Array]],
        *,
        max_length: int,
        kl: float = 0.0,
    ) -> dict[str, torch.Tensor]:
        """The gradient of each parameter that has one."""
        now = self._of_model()
        batch: Batch = []
        for number, group in enumerate(self._groups):
            valid = [t for t in group if t.valid]
            advantages = iter(estimate(valid))
            batch.append([])
            for i, t in enumerate(group):
                by_turn = next(advantages) if t.valid else np.zeros(len(t.turns))
                count = len(now[number][i])
                batch[-1].append(
                    Episode(
                        t,
                        now[number][i].detach().numpy(),
                        np.array([logp for turn in t.turns for logp in turn.logprobs][:count]),
                        self._start[number][i].numpy(),
                        self._reference[number][i].numpy(),
                        np.repeat(by_turn, [len(turn.token_ids) for turn in t.turns])[:count],
                        self._experts[number],
                    )
                )
        given = coefficients(objective, batch, max_length=max_length, kl=kl)
        scores = torch.cat([scores for group in now for scores in group])
        weights = torch.from_numpy(np.concatenate([values for group in given for values in group]))
        weighted = (scores * weights).sum()
        if objective == "grao":
            for group, expert in zip(self._groups, self._experts, strict=True):
                factor = _grao_of_expert([t for t in group if t.valid], expert) / max_length / len(self._groups)
                weighted = weighted + factor * self._scores(self.model, expert).sum()
        named = [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]
        slopes = torch.autograd.grad(weighted, [p for _, p in named], allow_unused=True)
        return {name: slope for (name, _), slope in zip(named, slopes, strict=True) if slope is not None}

    def step(self, gradient: dict[str, torch.Tensor], rate: float) -> None:
        """Take a step of gradient descent."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in gradient:
                    parameter -= rate * gradient[name]

    def _of_model(self) -> list[list[torch.Tensor]]:
        return [[self._scores(self.model, t) for t in group] for group in self._groups]

    def _scores(self, model: Any, t: Trajectory) -> torch.Tensor:
        return scores_of(model, t, self._temperature) if t.valid else torch.zeros(0, dtype=torch.float64)
