"""Token action values bootstrapped only from likely tokens, and episodes ranked by them: B-Coder."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch

from agentgym import Trajectory

from ..stored_turns.transitions import StoredEpisode
from .fitting import Descent, move_towards, token_rewards, tokens_of
from .networks import AdvantageHead

Behaviour = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A function that returns [B, L, V] next-token logits, without gradient, given [B, L] token ids and their mask."""


def fit_conservative_q(
    network: AdvantageHead,
    episodes: Sequence[StoredEpisode],
    descent: Descent,
    *,
    behaviour: Behaviour,
    top_p: float,
    gamma: float,
    follow: float,
) -> None:
    """Fit Q(s, token) to r + gamma max Q(next s, a), over the tokens a that are likely under the behaviour policy.

    The likely tokens are the smallest set with `top_p` of the probability; with `top_p` near 0, only the likeliest
    token. So no target depends on a token that the policy would hardly write. Q of the next state comes from a slow
    copy. Every token of the agent is a step; the turn's last token gets its reward. The value head is not learnt,
    because guiding and ranking need only differences between tokens.

    Args:
        gamma: the discount per token. follow: how far the slow copy moves in each step.
    Source: B-Coder, Yu et al. 2023, arXiv:2310.03173 (a conservative Bellman operator, whose maximum is over what a
        fixed language model would write). The set of tokens is our definition; its code was not read.
    """
    slow = copy.deepcopy(network)

    def loss_of(batch: list[StoredEpisode]) -> torch.Tensor:
        ids, mask, rows, before, after, ends = tokens_of(batch, network.value.weight.device)
        rewards = torch.tensor(np.concatenate([token_rewards(e) for e in batch]), device=ids.device).float()
        with torch.no_grad():
            likely = likely_tokens(behaviour(ids, mask)[rows, after], top_p)
            following = slow(ids, mask)[0][rows, after].masked_fill(~likely, -torch.inf).amax(-1)
            target = rewards + gamma * torch.where(ends, 0.0, following)
        action = network(ids, mask)[0][rows, before, ids[rows, before + 1]]
        loss: torch.Tensor = ((action - target) ** 2).mean()
        return loss

    descent.fit(network, episodes, loss_of, after_step=lambda: move_towards(slow, network, follow))


def likely_tokens(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return [n, V] whether a token is in the smallest set with `top_p` of the probability; the likeliest always is."""
    ordered, order = torch.softmax(logits.double(), -1).sort(dim=-1, descending=True)
    likely = ordered.cumsum(dim=-1) - ordered < top_p
    likely[:, :1] = True
    return torch.zeros_like(likely).scatter(1, order, likely)


@torch.no_grad()
def mean_value(network: AdvantageHead, trajectory: Trajectory) -> float:
    """Return the mean Q over the agent's own tokens of an episode."""
    trajectory.require_one_row("conservative Q-learning")
    ids = torch.tensor(trajectory.arrays().ids, device=network.value.weight.device)[None]
    actions, _ = network(ids, torch.ones_like(ids))
    before = len(trajectory.prompt_ids)
    columns = before + np.concatenate([np.arange(start, end) for start, end in trajectory.turn_spans()])
    return float(actions[0, columns - 1, ids[0, columns]].mean())
