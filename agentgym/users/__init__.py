"""Simulated users: somebody who wants something and tells it bit by bit, for any environment.

behaviour.py    mistakes, noise and impatience, by seed
simulated.py    SimulatedUser: a policy that plays a persona with a goal
environment.py  with_user: any environment, with a user who answers through `respond`
"""

from agentgym.users.behaviour import UserBehaviour
from agentgym.users.environment import UserEnvironment, with_user
from agentgym.users.simulated import END, SimulatedUser

__all__ = ["END", "SimulatedUser", "UserBehaviour", "UserEnvironment", "with_user"]
