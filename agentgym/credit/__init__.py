"""Credit: from a group of trajectories to one advantage per turn. numpy only, float64.

    from agentgym.credit import Group, estimator
    group = Group.from_arrays(outcomes=[1, 0], turn_rewards=[[0.5, 0.0], [0.0]])
    advantages = estimator("return_to_go", gamma=1.0)(group)   # one float64 array per trajectory

To read, from the top down:

contract.py          Estimator, define_estimator, estimator: what an estimator declares, and the rules that hold for all
group.py             Group: the signals of the trajectories of one task, each declared once
batch.py             from the trajectories of a batch to groups, credit, and advantages per token
estimators/          one estimator per file, registered in the entry-point group `agentgym.estimators`
wrappers/            change the input or output of an estimator: estimator("return_to_go | off_policy(mode='mis')")
arithmetic.py        what estimators share: returns, baselines, whitening, values of a critic

signals.py           kinds of signal             recorded_signals.py  signals that a trajectory already holds
options.py           types of options            composition.py       parses "estimator | wrapper"

The estimators and wrappers of published work are in methods/credit, registered under their names as well.

audit.py compares the credit of a run with counterfactual credit. `agentgym.testing.exact` computes the bias of an
estimator.
"""

from agentgym.credit import arithmetic
from agentgym.credit.batch import credit_of, spread_over_tokens
from agentgym.credit.contract import BiasClass, CreditWarning, Estimator, define_estimator, estimator
from agentgym.credit.group import Group
from agentgym.credit.named_parts import load_named_part
from agentgym.credit.options import Baseline, Ddof, Scale
from agentgym.credit.signals import Array
from agentgym.moved import moved_names

__all__ = [
    "Array",
    "Baseline",
    "BiasClass",
    "CreditWarning",
    "Ddof",
    "Estimator",
    "Group",
    "Scale",
    "arithmetic",
    "credit_of",
    "define_estimator",
    "estimator",
    "load_named_part",
    "spread_over_tokens",
]


__getattr__ = moved_names(__name__)
