"""`agentgym/tau2-v1`: the domains of tau2-bench, whose tools run in the sandbox, and a customer with its own tools.

environment.py  the environment
guest           runs inside the sandbox, instead of the packages that the domains import
"""

from .environment import Tau2

__all__ = ["Tau2"]
