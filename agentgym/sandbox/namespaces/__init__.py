"""The default backend: namespaces, seccomp and control groups, without a daemon.

backend.py    makes sandboxes by orders to a spawner      stacking.py   has a spawner keep the layers of snapshots
spawner.py    starts and ends a spawner                   census.py     what runs on this machine, and what was left
packages.py   which files a module to preload needs
"""

from agentgym.sandbox.namespaces.backend import NamespacesBackend

__all__ = ["NamespacesBackend"]
