"""How good is an estimator's credit? Measured where the truth is known, on tasks in which one turn of many decides.

bifurcation.py   the tasks: sampling, true credit, and every signal an estimator can ask for
measures.py      error against the truth, signs, focus and noise, with intervals
learning.py      how fast a small policy learns with it
report.py        all of it, for all registered estimators
"""

from agentgym.credit.bench.bifurcation import Bifurcation, Play
from agentgym.credit.bench.learning import Learning, learn
from agentgym.credit.bench.measures import Figure, Measures, measure
from agentgym.credit.bench.report import Row, run

__all__ = ["Bifurcation", "Figure", "Learning", "Measures", "Play", "Row", "learn", "measure", "run"]
