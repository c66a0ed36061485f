"""The policy losses that TRL's GRPOTrainer computes. Their options are those of its GRPOConfig, in [train.trl]."""

from __future__ import annotations

from agentgym.training.objectives.contract import TrlLoss


@TrlLoss
def grpo() -> None:
    """Clipped policy gradient, averaged over each episode's tokens: GRPO, arXiv:2402.03300."""


@TrlLoss
def bnpo() -> None:
    """Clipped policy gradient, averaged over all tokens of a batch."""


@TrlLoss
def dr_grpo() -> None:
    """Clipped policy gradient, divided by a constant length: Dr. GRPO, arXiv:2503.20783."""


@TrlLoss
def dapo() -> None:
    """Clipped policy gradient, averaged over the tokens of all processes' batches: DAPO, arXiv:2503.14476."""


@TrlLoss
def cispo() -> None:
    """Policy gradient with the importance weight clipped instead of the update: CISPO, arXiv:2506.13585."""


@TrlLoss
def sapo() -> None:
    """Policy gradient through a soft gate instead of a clip: SAPO, arXiv:2511.20347."""


@TrlLoss
def luspo() -> None:
    """Clipped policy gradient, summed over each episode's tokens: LUSPO, arXiv:2602.05261."""


@TrlLoss
def vespo() -> None:
    """Policy gradient with a smooth weight of whole episodes: VESPO, arXiv:2602.10693."""
