"""Moved: `shared_snapshot` is a public name of `agentgym.sandbox`; this path works until 0.3.0."""

from agentgym.deprecation import renamed_attributes

__getattr__ = renamed_attributes(__name__, {"shared_snapshot": "agentgym.sandbox.shared_snapshot"})
