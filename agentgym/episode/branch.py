"""Moved to `agentgym.rollout`; this path works until 0.3.0."""

from agentgym.deprecation import renamed_attributes

__getattr__ = renamed_attributes(
    __name__, {name: f"agentgym.rollout.{name}" for name in ("Divergence", "Fork", "tree_labels")}
)
