"""Isolated machines for the dangerous part of an environment: one contract, several backends.

contract.py, limits.py   what every backend promises          metering.py   adding up what sandboxes use
namespaces/  docker/     the backends                         pool/         sandboxes kept ready, from either
host/                    the near side: a guest spoken to     guest/        the far side: what runs in every sandbox
images/                  root file systems                    network/      the only way out, where a spec asks for one
prepared.py              snapshots that are costly to make, made once for each backend
"""

from agentgym.sandbox.contract import (
    Backend,
    Capabilities,
    Channel,
    Connection,
    ExecResult,
    Layer,
    Running,
    Sandbox,
    Snapshot,
    Usage,
)
from agentgym.sandbox.limits import SandboxSpec

__all__ = [
    "Backend", "Capabilities", "Channel", "Connection", "ExecResult", "Layer", "Running", "Sandbox", "SandboxSpec",
    "Snapshot", "Usage",
]  # fmt: skip
