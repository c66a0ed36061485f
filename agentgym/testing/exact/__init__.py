"""For `check_estimator`: the bias of an estimator, computed exactly by sums over every possible group.

problems.py   small decision problems, given as all their trajectories with probabilities and scores
signals.py    the signals of these trajectories, such as states, values, components, potentials, hindsight, replays
trees.py      every tree that branching can grow in a problem
bias.py       the distance between an estimator's mean gradient and the true gradient
"""

from agentgym.testing.exact.bias import GradientBias, bias_of
from agentgym.testing.exact.problems import Problem, ProblemPath

__all__ = ["GradientBias", "Problem", "ProblemPath", "bias_of"]
