"""Our task sets for verifiers, as the module of two lines that the how-to page shows."""

from agentgym.bridges.verifiers import AgentgymEnv, AgentgymHarness, AgentgymTaskset

__all__ = ["AgentgymEnv", "AgentgymHarness", "AgentgymTaskset"]
