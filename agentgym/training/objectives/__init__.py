"""What a training step minimises: an objective, and terms that are added to it.

An objective turns the tokens of a batch into one loss for each episode; a term is one more loss with a weight. Both are
functions of `TokenBatch`, registered under the kinds `objectives` and `loss_terms`; `train.objective` and
`[train.terms]` name them.
"""

from __future__ import annotations

from agentgym.training.objectives.contract import (
    Needs,
    RowLosses,
    TokenBatch,
    TrlLoss,
    WeightedTerm,
    define_loss,
    k3,
    losses_by_row,
    make_objective,
    make_term,
    make_terms,
    needs_of,
    objective_share,
)

__all__ = [
    "Needs",
    "RowLosses",
    "TokenBatch",
    "TrlLoss",
    "WeightedTerm",
    "define_loss",
    "k3",
    "losses_by_row",
    "make_objective",
    "make_term",
    "make_terms",
    "needs_of",
    "objective_share",
]
