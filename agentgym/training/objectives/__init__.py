"""The loss of a training step: an objective plus weighted terms.

An objective maps the tokens of a batch to one loss per episode; a term is a further loss with a weight. Both are
functions of `TokenBatch`, registered under the kinds `objectives` and `loss_terms`; `train.objective` and
`[train.terms]` name them.
"""

from __future__ import annotations

from agentgym.moved import moved_names
from agentgym.training.objectives.contract import LossRequirements, TokenBatch, define_loss

__all__ = [
    "LossRequirements",
    "TokenBatch",
    "define_loss",
]

__getattr__ = moved_names(__name__)
