"""For `check_estimator`: the bias of an estimator, computed exactly by sums over every possible group.

problems.py   small decision problems, given as all their trajectories with probabilities and scores
signals.py    the signals of these trajectories, such as states, values, components, potentials, hindsight, replays
bias.py       how far an estimator's mean gradient is from the true one, over every tree that branching can grow
"""

from agentgym.testing.exact.bias import GradientBias, bias_of
from agentgym.testing.exact.problems import Problem, ProblemPath

__all__ = ["GradientBias", "Problem", "ProblemPath", "bias_of"]
