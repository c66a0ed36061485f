"""Isolated machines for the dangerous part of an environment: one contract, several backends.

contract.py, limits.py   what every backend promises          namespaces.py   the default backend
guest_sandbox.py         the contract, spoken to a guest      machine.py, link.py, replies.py   and how it is spoken to
<<<<<<< HEAD
channel.py, snapshots.py channels; files out and back         spawner.py, packages.py   starting the spawner
census.py                which sandboxes run on this machine, and what dead processes left behind
=======
channel.py, sessions.py  channels; sessions run again         spawner.py, packages.py   starting the spawner
snapshots.py, trees.py   files out and back, as layers        stacking.py   having the spawner keep layers
images.py                root filesystems, kept unpacked      image_*.py   reading the forms they come in
network/                 the proxy on the host: the only way out of a sandbox that asks for a network
>>>>>>> main
guest/                   the far side: spawner, guest, files, and what confines them (standard library only)
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
