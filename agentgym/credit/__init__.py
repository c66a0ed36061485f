"""Credit: from a group of trajectories to one advantage per turn.

    from agentgym.credit import Group, estimator
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0.5, 0.0], [0.0]])
    advantages = estimator("return_to_go", gamma=1.0)(group)   # one float64 array per trajectory

numpy only, float64.

estimators/      one a file, each registered in the entry-point group `agentgym.estimators`
wrappers/        what changes an estimator's input or output: estimator("return_to_go | gated(threshold=1.0)")
exact/           the bias of an estimator, computed           bench/           its credit against a known truth
group.py         the signals of one group, validated          returns.py      what a turn or an episode was worth
kinds.py         the kinds of signal there are                statistics.py   baselines and spreads over trajectories
signals.py       checks of what is given                      gathering.py    the same over turns with the same label
declaration.py   what an estimator declares, and the edge     whitening.py    one mean and spread for turns of a batch
                 rules that hold for all of them              critics.py      what a critic predicted before each turn
options.py       options of estimators, checked when set      truncation.py   other outcomes for truncated episodes
composition.py   estimators and wrappers in one line          branches.py     the tree that shared beginnings form
shaping.py       a turn's own credit beside the group's       counterfactual.py   leave-one-out and Shapley values
audit.py         agreement with counterfactual credit
"""

from agentgym.credit.contract import (
    Credit,
    CreditWarning,
    Estimator,
    batch_advantages,
    define_estimator,
    estimator,
)
from agentgym.credit.group import Group

__all__ = ["Credit", "CreditWarning", "Estimator", "Group", "batch_advantages", "define_estimator", "estimator"]
