"""Tools: typed functions, or anything with a JSON Schema, that the agent may call.

definition.py  Tool and the decorator `@tool`
arguments.py   the JSON Schema of the arguments, and validation of what the model wrote
shown.py       what a model is shown: a tool's schema, and its return value as message content
"""

from agentgym.moved import moved_names

from .arguments import WrongArguments, replace_lone_surrogates

__all__ = ["WrongArguments", "replace_lone_surrogates"]


__getattr__ = moved_names(__name__)
