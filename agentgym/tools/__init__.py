"""Tools: typed functions, or anything with a JSON Schema, that the agent may call.

definition.py  Tool and the decorator `@tool`
arguments.py   the JSON Schema of the arguments, and validation of what the model wrote
output.py      a tool's return value as message content
"""

from agentgym.moved import moved_names

from .arguments import WrongArguments

__all__ = ["WrongArguments"]


__getattr__ = moved_names(__name__)
