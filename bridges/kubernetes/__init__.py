"""Kubernetes: sandboxes in pods of a warm pool (kubernetes-sigs/agent-sandbox), as the backend `kubernetes`.

backend.py     KubernetesBackend claims pods through api.py
pod.py         the driver's end of a pod; streams.py, its connection, by exec or to a port
pod_host.py    the program in a pod; pod_listener.py waits for a driver and starts it
messages.py    their messages
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from .backend import KubernetesBackend

__all__ = ["KubernetesBackend"]

__getattr__ = lazy_names(__name__, {"KubernetesBackend": "backend"})
