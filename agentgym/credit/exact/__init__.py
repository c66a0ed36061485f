"""The bias of an estimator, not estimated but computed: sums over every group there can be.

problems.py   small decision problems, given as all their trajectories with probabilities and scores
signals.py    what each of them can be told beside: states, critics, components
evidence.py   potentials, gold answers, hindsight, replays
trees.py      every tree that branching can grow
bias.py       the distance of an estimator's mean gradient from the true one
"""

from agentgym.credit.exact.bias import GradientBias, bias_of
from agentgym.credit.exact.problems import Problem, ProblemPath

__all__ = ["GradientBias", "Problem", "ProblemPath", "bias_of"]
