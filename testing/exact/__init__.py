"""Computes the exact bias of an estimator for `check_estimator`, as sums over every possible group.

problems.py   small decision problems, given as all their trajectories with probabilities and scores
signals.py    the signals of these trajectories, such as states, values, components, potentials, hindsight, replays
bias.py       the distance of an estimator's mean gradient from the true one, over every possible tree of branches
"""

from agentgym.moved import lazy_names

__all__ = []


__getattr__ = lazy_names(__name__, {})
