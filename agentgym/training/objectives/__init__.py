"""What a training step minimises: an objective, and terms that are added to it.

An objective turns the tokens of a batch into one loss for each episode; a term is one more loss with a weight. Both are
functions of `TokenBatch`, registered under the kinds `objectives` and `loss_terms`; `train.objective` and
`[train.terms]` name them.
"""

from __future__ import annotations

from agentgym.moved import moved_names
from agentgym.training.objectives.contract import LossRequirements, RowLosses, TokenBatch, define_loss, k3

__all__ = [
    "LossRequirements",
    "RowLosses",
    "TokenBatch",
    "define_loss",
    "k3",
]

__getattr__ = moved_names(__name__)
