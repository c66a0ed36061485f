"""The default backend: namespaces, seccomp and control groups, without a daemon.

backend.py    creates sandboxes by requests to a spawner  layer_cache.py  makes a spawner keep the layers of snapshots
spawner.py    starts and ends a spawner process           processes.py    lists sandboxes, cleans up after the dead
"""

from agentgym.sandbox.namespaces.backend import NamespacesBackend as NamespacesBackend  # named by the entry point
