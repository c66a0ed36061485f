"""Environments: what the agent acts on, and its tools.

contract.py        Environment, which every environment subclasses
wrapper.py         EnvironmentWrapper, around another environment
guest_module.py    code of a package that runs inside a sandbox
observed_state.py  what an agent has read, as a state
"""

from agentgym.environment.contract import Checkpoint, ContextChange, Environment
from agentgym.environment.guest_module import GuestModule, GuestObject, GuestStopped
from agentgym.environment.observed_state import ObservedState
from agentgym.environment.wrapper import EnvironmentWrapper

__all__ = [
    "Checkpoint",
    "ContextChange",
    "Environment",
    "EnvironmentWrapper",
    "GuestModule",
    "GuestObject",
    "GuestStopped",
    "ObservedState",
]
