"""Tools: typed functions, or anything with a JSON Schema, that the agent may call.

definition.py  Tool, and the decorator `@tool`
arguments.py   JSON Schema of the arguments, and the check of what the model wrote
output.py      what a tool returned, as content of a message
"""

from .arguments import WrongArguments, replace_lone_surrogates
from .definition import Tool, ToolOptions, collect_tools, tool, tools_by_name
from .output import render_output

__all__ = [
    "Tool",
    "ToolOptions",
    "WrongArguments",
    "collect_tools",
    "render_output",
    "replace_lone_surrogates",
    "tool",
    "tools_by_name",
]
