"""For maintainers: the error of an estimator's credit on tasks where the true credit is known.

bifurcation.py   the tasks, in which one turn decides: sampling, true credit, and every signal an estimator can need
measures.py      error, signs, focus and noise of the credit, with intervals
learning.py      how fast a small policy learns with it
report.py        the whole benchmark for a list of estimators
subtasks.py      chains of sub-tasks, of which all have to be right: the noise of the gradient, and steps to learn them
"""

from agentgym.credit.bench.bifurcation import BifurcationTask, SampledGroup
from agentgym.credit.bench.learning import LearningSpeed, measure_learning
from agentgym.credit.bench.measures import BootstrapInterval, CreditMeasures, measure_credit
from agentgym.credit.bench.report import BenchmarkRow, run_benchmark
from agentgym.credit.bench.subtasks import SubtaskChain, signal_to_noise, steps_to

__all__ = [
    "BenchmarkRow",
    "BifurcationTask",
    "BootstrapInterval",
    "CreditMeasures",
    "LearningSpeed",
    "SampledGroup",
    "SubtaskChain",
    "measure_credit",
    "measure_learning",
    "run_benchmark",
    "signal_to_noise",
    "steps_to",
]
