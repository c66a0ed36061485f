"""Learning from episodes that were played before: those of this run, of other runs, or imported ones.

step_critic.py   the probability of success before each turn
token_values.py  values of tokens, to decode by them
conservative_q.py  the same, bootstrapped from likely tokens alone, and episodes ranked by them
actor.py         a policy trained on stored turns with known advantages
"""

from agentgym.moved import moved_names

__getattr__ = moved_names(__name__)
