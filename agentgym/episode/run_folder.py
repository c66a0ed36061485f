"""Moved to `agentgym.storage`; this path works until 0.3.0."""

from agentgym.deprecation import renamed_attributes

__getattr__ = renamed_attributes(__name__, {"RunFolder": "agentgym.storage.RunFolder"})
