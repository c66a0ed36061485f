"""The policy losses that TRL's GRPOTrainer computes. Their options are those of its GRPOConfig, in [train.trl].

Constants are the papers': a recipe's [train.trl] overrides them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.errors import CreditError
from agentgym.training.objectives.contract import trl_loss

RATIO_BY_EPISODE = "importance_sampling_level"
"""The option of GRPOConfig whose value "sequence" gives each episode one ratio."""
LOSES_TURNS = (
    f"{RATIO_BY_EPISODE} = 'sequence' gives every token of an episode the mean of its turns' advantages, so credit by "
    "turn would be lost. Choose the objective 'gspo' or 'luspo', in which every turn keeps its advantage, or an "
    "estimator with one advantage per episode, such as rloo."
)


def check_turn_credit(level: str, advantages: Sequence[np.ndarray]) -> None:
    """Raise CreditError if an episode's turns have different advantages, but the loss has one ratio per episode.

    Args:
        level: GRPOConfig's option RATIO_BY_EPISODE. advantages: one array of turns per episode.
    """
    if level == "sequence" and any(np.ptp(of_turns) > 0 for of_turns in advantages if len(of_turns)):
        raise CreditError(LOSES_TURNS)


@trl_loss()
def grpo() -> None:
    """Clipped policy gradient, averaged over each episode's tokens: GRPO, arXiv:2402.03300."""


@trl_loss()
def bnpo() -> None:
    """Clipped policy gradient, averaged over all tokens of a batch."""


@trl_loss()
def dr_grpo() -> None:
    """Clipped policy gradient, divided by a constant length: Dr. GRPO, arXiv:2503.20783."""


@trl_loss(epsilon=0.2, epsilon_high=0.28)
def dapo() -> None:
    """Policy gradient clipped at 0.8 and 1.28, averaged over the tokens of all processes: DAPO, arXiv:2503.14476."""


@trl_loss(epsilon_high=5.0)
def cispo() -> None:
    """Policy gradient with importance weights capped at 5 instead of a clipped update: CISPO, arXiv:2506.13585."""


@trl_loss()
def sapo() -> None:
    """Policy gradient through a soft gate instead of a clip: SAPO, arXiv:2511.20347."""


@trl_loss()
def vespo() -> None:
    """Policy gradient with a smooth weight of whole episodes: VESPO, arXiv:2602.10693."""
