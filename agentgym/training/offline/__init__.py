"""Learning from episodes that were played before: those of this run, of other runs, or imported ones.

step_critic.py   the probability of success before each turn
token_values.py  values of tokens, to decode by them
conservative_q.py  the same, bootstrapped from likely tokens alone, and episodes ranked by them
dqn.py           an agent that values listed actions
actor.py         a policy trained on stored turns with known advantages
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.training.offline.dqn import DqnPolicy

_HOME = {
    "DqnPolicy": "dqn",
}

__all__ = ["DqnPolicy"]


__getattr__ = lazy_names(__name__, _HOME)
