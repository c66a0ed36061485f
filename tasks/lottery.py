"""Moved to `agentgym.tasks.generator`; this path works until 0.3.0."""

from agentgym.deprecation import renamed_attributes

__getattr__ = renamed_attributes(
    __name__,
    {"Lottery": "agentgym.tasks.generator.TaskGenerator", "Place": "agentgym.tasks.generator.TaskSlot"},
)
