"""Learn from stored episodes: from this run, from other runs, or imported.

step_critic.py   the probability of success before each turn
token_values.py  token values for guided decoding
conservative_q.py  token values bootstrapped only from likely tokens, and episodes ranked by them
actor.py         trains a policy on stored turns with known advantages
"""

from agentgym.moved import moved_names

__getattr__ = moved_names(__name__)
