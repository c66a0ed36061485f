"""`agentgym/tau2-v1`: the domains of tau2-bench, whose tools run in the sandbox, and a customer with tools of its own.

environment.py  the environment
guest           what runs inside the sandbox, in place of the packages that the domains import
"""

from .environment import Tau2

__all__ = ["Tau2"]
