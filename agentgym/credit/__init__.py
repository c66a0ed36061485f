"""Credit: from a group of trajectories to one advantage per turn.

    from agentgym.credit import Group, estimator
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0.5, 0.0], [0.0]])
    advantages = estimator("return_to_go", gamma=1.0)(group)   # one float64 array per trajectory

One estimator per file, each registered in the entry-point group `agentgym.estimators`. numpy only, float64.

group.py         the signals of one group, validated          returns.py      what a turn or an episode was worth
declaration.py   what an estimator declares, and the edge     statistics.py   baselines and spreads over trajectories
                 rules that hold for all of them              options.py      options of estimators, checked when set
"""

from agentgym.credit.declaration import (
    Credit,
    CreditWarning,
    Estimator,
    batch_advantages,
    declare,
    estimator,
)
from agentgym.credit.group import Group

__all__ = ["Credit", "CreditWarning", "Estimator", "Group", "batch_advantages", "declare", "estimator"]
