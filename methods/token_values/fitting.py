"""Token values from stored episodes, for guided decoding: action values as in ILQL, distributions as in Q#."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..stored_turns.transitions import StoredEpisode
from .networks import AdvantageHead, OutcomeHead

OnStep = Callable[[int, float], None]
"""Called with the number of an optimiser step, from 1 on, and its loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """Fit a network to stored episodes by AdamW, with gradients clipped to norm 1.

    Attributes:
        steps: number of optimiser steps.
        batch_size: number of episodes per step.
        learning_rate: the learning rate.
        seed: the seed of the order of the episodes.
        on_step: called after each step; None for no call.
    """

    steps: int
    batch_size: int
    learning_rate: float
    seed: int = 0
    on_step: OnStep | None = None

    def fit(
        self,
        network: torch.nn.Module,
        episodes: Sequence[StoredEpisode],
        loss_of: Callable[[list[StoredEpisode]], torch.Tensor],
        *,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        """Minimise the loss of batches, and call `after_step` after each update of the weights."""
        optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, weight_decay=0.0)
        for step, batch in enumerate(_batches(episodes, self.steps, self.batch_size, self.seed), start=1):
            loss = loss_of(batch)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            after_step()
            if self.on_step is not None:
                self.on_step(step, float(loss.detach()))


@torch.no_grad()
def move_towards(copy: torch.nn.Module, network: torch.nn.Module, share: float) -> None:
    """Move a copy's weights towards its network's weights by a fraction `share` of the distance, 0 to 1."""
    for slow, fast in zip(copy.parameters(), network.parameters(), strict=True):
        slow.lerp_(fast, share)


def fit_implicit_q(
    network: AdvantageHead,
    episodes: Sequence[StoredEpisode],
    descent: Descent,
    *,
    expectile: float,
    gamma: float,
    conservative: float,
    follow: float,
) -> None:
    """Fit Q(s, token) to r + gamma V(next s), and V(s) to an expectile of the slow copy's Q(s, token).

    Every token of the agent is a step; tokens of results are skipped. The last token of a turn gets its reward. Only
    tokens that occur in the episodes are used, so nothing is sampled. With `expectile` 0.5, V is the sampling policy's
    value; towards 1, V is the value of the best tokens that the policy sampled.

    Args:
        expectile: 0 to 1. gamma: the discount per token.
        conservative: the weight of the cross-entropy of Q as logits, which keeps Q low for tokens in no episode.
        follow: how far the slow copy moves in each step.
    Source: ILQL, Snell et al. 2022, arXiv:2206.11871, with one Q head instead of two; its constants were not checked.
    """
    slow = copy.deepcopy(network)

    def loss_of(batch: list[StoredEpisode]) -> torch.Tensor:
        ids, mask, rows, before, after, ends = tokens_of(batch, network.value.weight.device)
        rewards = torch.tensor(np.concatenate([token_rewards(e) for e in batch]), device=ids.device).float()
        chosen = ids[rows, before + 1]
        actions, values = network(ids, mask)
        action, value = actions[rows, before, chosen], values[rows, before]
        with torch.no_grad():
            slow_action = slow(ids, mask)[0][rows, before, chosen]
            target = rewards + gamma * torch.where(ends, 0.0, values[rows, after])
        error = slow_action - value
        value_loss = (torch.where(error < 0, 1 - expectile, expectile) * error**2).mean()
        loss: torch.Tensor = value_loss + ((action - target) ** 2).mean()
        if conservative:
            loss = loss + conservative * torch.nn.functional.cross_entropy(actions[rows, before], chosen)
        return loss

    descent.fit(network, episodes, loss_of, after_step=lambda: move_towards(slow, network, follow))


def fit_outcomes(network: OutcomeHead, episodes: Sequence[StoredEpisode], descent: Descent) -> None:
    """Fit, after every token of the agent, the distribution of the return from the token's turn on.

    The distribution belongs to the policy that played the episodes, which must be the guided policy. The weight of a
    return between two support points of the head is split between both, in proportion to nearness; a return beyond the
    support counts as the nearest end.

    Source: Q#, Zhou et al. 2025, arXiv:2502.20548, learnt only from whole episodes of the reference policy. The paper
        also uses prefixes that the guided policy played.
    """
    support: torch.Tensor = network.support
    spacing = float(support[1] - support[0])

    def loss_of(batch: list[StoredEpisode]) -> torch.Tensor:
        ids, mask, rows, before, _, _ = tokens_of(batch, network.head.weight.device)
        returns = torch.tensor(np.concatenate([_token_returns(e) for e in batch]), device=ids.device)
        closeness = 1 - (returns.clamp(support[0], support[-1])[:, None] - support).abs() / spacing
        target = closeness.clamp(min=0).float()
        return torch.nn.functional.cross_entropy(network(ids, mask)[rows, before + 1], target)

    descent.fit(network, episodes, loss_of)


def _batches(
    episodes: Sequence[StoredEpisode], steps: int, batch_size: int, seed: int
) -> Iterator[list[StoredEpisode]]:
    """Yield one batch per step, in shuffled passes over all episodes."""
    order, queue = np.random.default_rng(seed), list[int]()
    for _ in range(steps):
        if not queue:
            queue = order.permutation(len(episodes)).tolist()
        yield [episodes[number] for number in queue[:batch_size]]
        del queue[:batch_size]


def tokens_of(batch: Sequence[StoredEpisode], device: torch.device) -> tuple[torch.Tensor, ...]:
    """Return the batch's [B, L] ids and mask, and [n] arrays for the agent's tokens in order.

    The arrays are the token's row, the column before it, the column before the agent's next token, and whether the
    episode ends there. A truncated episode does not end.
    """
    longest = max(len(episode.ids) for episode in batch)
    ids, mask = np.zeros((2, len(batch), longest), np.int64)
    rows, before, after, ends = [], [], [], []
    for row, episode in enumerate(batch):
        ids[row, : len(episode.ids)], mask[row, : len(episode.ids)] = episode.ids, 1
        own = np.concatenate([np.arange(begin, end) for begin, end, _ in episode.bounds])
        rows.append(np.full(len(own), row))
        before.append(own - 1)
        after.append(np.append(own[1:] - 1, own[-1]))
        ends.append(np.append(np.zeros(len(own) - 1, bool), episode.ended))
    arrays = (ids, mask, *(np.concatenate(parts) for parts in (rows, before, after, ends)))
    return tuple(torch.from_numpy(array).to(device) for array in arrays)


def token_rewards(episode: StoredEpisode) -> np.ndarray:
    """Return [n] rewards of the agent's tokens: the last token of a turn gets the turn's reward, all others 0."""
    lengths = [end - begin for begin, end, _ in episode.bounds]
    rewards = np.zeros(sum(lengths))
    rewards[np.cumsum(lengths) - 1] = episode.rewards
    return rewards


def _token_returns(episode: StoredEpisode) -> np.ndarray:
    """Return [n] returns of the agent's tokens: the sum of rewards from the token's turn on."""
    to_go = np.cumsum(episode.rewards[::-1])[::-1]
    return np.repeat(to_go, [end - begin for begin, end, _ in episode.bounds])
