"""For maintainers: the error of an estimator's credit on tasks where the true credit is known.

bifurcation.py   tasks in which one turn decides: sampling, true credit, and every signal that estimators use
measures.py      error, signs, focus and noise of the credit, with intervals
learning.py      how fast a small policy learns from the credit
report.py        the whole benchmark for a list of estimators
markdown.py, tables.py, page.py   the tables of the documents and of the terminal, and the page with plots
"""

from research.credit_bench.bifurcation import BifurcationTask, SampledGroup
from research.credit_bench.learning import LearningSpeed, measure_learning
from research.credit_bench.measures import BootstrapInterval, CreditMeasures, measure_credit
from research.credit_bench.report import BenchmarkRow, run_benchmark

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
