"""Choose the weights of the task sets in a mixture: `runs.py` trains with several mixtures, `quadratic.py` fits their
scores.
"""

from .quadratic import QuadraticFit, fit_quadratic
from .runs import MixtureSearch, search_mixture

__all__ = ["MixtureSearch", "QuadraticFit", "fit_quadratic", "search_mixture"]
