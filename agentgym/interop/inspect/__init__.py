"""For users of Inspect (`inspect_ai`): our sandboxes as `sandbox="agentgym"`, and our task sets as tasks of theirs.

Inspect imports this package by the entry-point group `inspect_ai`, in the Python environment where both are installed.
Nothing else of agentgym imports it.
"""

from __future__ import annotations

from agentgym.interop.inspect.sandbox import InspectSandbox, InspectSandboxConfig
from agentgym.interop.inspect.task import play

__all__ = ["InspectSandbox", "InspectSandboxConfig", "play"]
