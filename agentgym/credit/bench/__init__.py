"""How good is an estimator's credit? Measured where the truth is known, on tasks in which one turn of many decides.

bifurcation.py   the tasks: sampling, true credit, and every signal an estimator can ask for
measures.py      error against the truth, signs, focus and noise, with intervals
learning.py      how fast a small policy learns with it
report.py        all of it, for all registered estimators
"""

from agentgym.credit.bench.bifurcation import BifurcationTask, SampledGroup
from agentgym.credit.bench.learning import LearningSpeed, measure_learning
from agentgym.credit.bench.measures import BootstrapInterval, CreditMeasures, measure_credit
from agentgym.credit.bench.report import BenchmarkRow, run_benchmark

__all__ = [
    "BenchmarkRow",
    "BifurcationTask",
    "BootstrapInterval",
    "CreditMeasures",
    "LearningSpeed",
    "SampledGroup",
    "measure_credit",
    "measure_learning",
    "run_benchmark",
]
