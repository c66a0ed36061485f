"""The weights of a mixture chosen by small runs: `runs.py` trains with several, `quadratic.py` fits their scores."""

from agentgym.training.mixing.quadratic import QuadraticFit, fit_quadratic
from agentgym.training.mixing.runs import MixtureSearch, search_mixture

__all__ = ["MixtureSearch", "QuadraticFit", "fit_quadratic", "search_mixture"]
