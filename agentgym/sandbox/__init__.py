"""Isolated machines for the dangerous part of an environment: one contract, several backends."""

from agentgym.sandbox.contract import Backend, Capabilities, Channel, ExecResult, Sandbox, Snapshot, Usage
from agentgym.sandbox.limits import SandboxSpec

__all__ = ["Backend", "Capabilities", "Channel", "ExecResult", "Sandbox", "SandboxSpec", "Snapshot", "Usage"]
