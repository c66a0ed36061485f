"""Protocols: the order in which an agent may call tools and answer, as a formula over the turns of an episode.

    from . import Protocol
    Protocol("U(not submit, test) and G(implies(final, False))")   # test before submit, and never just talk

formulas.py   linear temporal logic over finite traces: reading a formula, and stepping through a trace
episodes.py a formula over an episode's turns: which step each turn is, and which steps may follow
"""

from .episodes import Protocol, step_of
from .formulas import accepts, parse, step

__all__ = ["Protocol", "accepts", "parse", "step", "step_of"]
