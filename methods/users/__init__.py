"""Simulated users: a person who wants something and tells it bit by bit, for any environment.

behaviour.py    mistakes, noise and impatience, by seed
simulated.py    SimulatedUser: a policy that plays a persona with a goal
environment.py  with_user: any environment, with a user who answers through `respond`
"""

from .behaviour import UserBehaviour
from .environment import UserEnvironment, with_user
from .simulated import END, SimulatedUser

__all__ = ["END", "SimulatedUser", "UserBehaviour", "UserEnvironment", "with_user"]
