"""Sandboxes: isolated machines for the dangerous part of an environment. One contract, several backends.

contract.py, limits.py   what every backend promises          metering.py   adds up what sandboxes use
namespaces/  docker/     the backends                         pool/         sandboxes kept ready, of either backend
host/                    the host's side: talks to a guest    guest/        what runs inside every sandbox
rootfs/                  root file systems from images        network/      the only way out, if a spec asks for one
allow_list.py            the names a sandbox may reach        link.py       the socket to a guest (read_pace.py)
snapshot_cache.py        prepares slow snapshots once per backend
wrapper.py               SandboxWrapper, for a sandbox that forwards its calls to another one
toolchain_check.py       whether a language's compiler and interpreter work in a sandbox

The names below are public, the modules are not. Backends, the pool and the proxy are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names
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
from agentgym.sandbox.limits import LIMITS, SandboxSpec
from agentgym.sandbox.metering import SandboxMeter, combine_usage, metered, usage_counts, usage_since
from agentgym.sandbox.snapshot_cache import shared_snapshot
from agentgym.sandbox.toolchain_check import toolchain_fault
from agentgym.sandbox.wrapper import SandboxWrapper

if TYPE_CHECKING:
    from agentgym.sandbox.allow_list import AllowList
    from agentgym.sandbox.docker import DockerBackend
    from agentgym.sandbox.guest.root import AGENT_ID
    from agentgym.sandbox.host.sessions import SessionLog, replay_sessions
    from agentgym.sandbox.namespaces import NamespacesBackend
    from agentgym.sandbox.network.account import NetworkLimits
    from agentgym.sandbox.network.proxy import Proxy, SandboxNetwork
    from agentgym.sandbox.pool import Pool, PoolStats
    from agentgym.sandbox.rootfs import cache_folder

_HOME = {
    "AGENT_ID": "guest.root",
    "AllowList": "allow_list",
    "DockerBackend": "docker",
    "NamespacesBackend": "namespaces",
    "NetworkLimits": "network.account",
    "Pool": "pool",
    "PoolStats": "pool",
    "Proxy": "network.proxy",
    "SandboxNetwork": "network.proxy",
    "SessionLog": "host.sessions",
    "cache_folder": "rootfs",
    "replay_sessions": "host.sessions",
}

__all__ = [
    "AGENT_ID",
    "LIMITS",
    "AllowList",
    "Backend",
    "Capabilities",
    "Channel",
    "Connection",
    "DockerBackend",
    "ExecResult",
    "Layer",
    "NamespacesBackend",
    "NetworkLimits",
    "Pool",
    "PoolStats",
    "Proxy",
    "Running",
    "Sandbox",
    "SandboxMeter",
    "SandboxNetwork",
    "SandboxSpec",
    "SandboxWrapper",
    "SessionLog",
    "Snapshot",
    "Usage",
    "cache_folder",
    "combine_usage",
    "metered",
    "replay_sessions",
    "shared_snapshot",
    "toolchain_fault",
    "usage_counts",
    "usage_since",
]


__getattr__ = lazy_names(__name__, _HOME)
