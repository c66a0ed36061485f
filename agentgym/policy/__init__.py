"""What answers: served, local, API and scripted policies behind one contract, and the call formats they write."""

from agentgym.policy.contract import Policy, Renderer, Reply, Request, Sampling

__all__ = ["Policy", "Renderer", "Reply", "Request", "Sampling"]
