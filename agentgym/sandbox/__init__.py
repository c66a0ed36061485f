"""Sandboxes: isolated machines in which an environment runs untrusted code. One contract, several backends.

contract.py, limits.py   what every backend promises          metering.py   adds up what sandboxes use
namespaces/  docker/     the backends                         pool/         sandboxes kept ready, of either backend
host/                    the host's side: talks to a guest    guest/        what runs inside every sandbox
rootfs/                  root file systems from images        network/      the only way out, if a spec asks for one
allow_list.py            the names a sandbox may reach        link.py       the socket to a guest (read_pace.py)
snapshot_cache.py        prepares slow snapshots once per backend
wrapper.py               SandboxWrapper, for a sandbox that forwards its calls to another one
time_limit.py            what counts as the time of an agent's code, for limits on the host's side
toolchain_check.py       whether a language's compiler and interpreter work in a sandbox

The names below are public, the modules are not. Backends, the pool and the proxy are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names
from agentgym.sandbox.contract import (
    Backend,
    Capabilities,
    Channel,
    ExecResult,
    Running,
    Sandbox,
    Snapshot,
    Usage,
)
from agentgym.sandbox.limits import LIMITS
from agentgym.sandbox.snapshot_cache import shared_snapshot
from agentgym.sandbox.toolchain_check import toolchain_fault

if TYPE_CHECKING:
    from agentgym.sandbox import rootfs
    from agentgym.sandbox.docker.backend import DockerBackend
    from agentgym.sandbox.host.guest_sandbox import replaced_guest
    from agentgym.sandbox.host.snapshots import archive_of, snapshot_of
    from agentgym.sandbox.namespaces.backend import NamespacesBackend
    from agentgym.sandbox.network.proxy import Proxy
    from agentgym.sandbox.pool.pool import Pool
    from agentgym.sandbox.rootfs.store import cache_folder

_HOME = {
    "DockerBackend": "docker",
    "NamespacesBackend": "namespaces",
    "Pool": "pool.pool",
    "Proxy": "network.proxy",
    "archive_of": "host.snapshots",
    "cache_folder": "rootfs.store",
    "replaced_guest": "host.guest_sandbox",
    "snapshot_of": "host.snapshots",
}

__all__ = [
    "LIMITS",
    "Backend",
    "Capabilities",
    "Channel",
    "DockerBackend",
    "ExecResult",
    "NamespacesBackend",
    "Pool",
    "Proxy",
    "Running",
    "Sandbox",
    "Snapshot",
    "Usage",
    "archive_of",
    "cache_folder",
    "replaced_guest",
    "rootfs",
    "shared_snapshot",
    "snapshot_of",
    "toolchain_fault",
]


__getattr__ = lazy_names(__name__, _HOME)
