"""Environments: what the agent acts on, and its tools.

contract.py      Environment, which every environment subclasses
state.py         descriptions of its state: Checkpoint, Outlook, ObservedState
contexts.py      HasContexts, for an agent that can continue with a new prompt
running.py       how a call becomes a result
sandboxes.py     the sandboxes of an environment, and their usage
workspace.py     the sandbox and folder in which an agent program works
wrapper.py       EnvironmentWrapper, around another environment
guest_module.py  code of a package that runs inside a sandbox
old_names.py     members under their names in 0.2
"""

from agentgym.environment.contexts import ContextChange, HasContexts
from agentgym.environment.wrapper import EnvironmentWrapper
from agentgym.moved import moved_names

__all__ = [
    "ContextChange",
    "EnvironmentWrapper",
    "HasContexts",
]


__getattr__ = moved_names(__name__)
