"""An actor on a node of a Ray cluster, and the way of its calls."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from agentgym.cluster.host_link import HostNode, in_short
from agentgym.cluster.ray_activity import worker_name
from agentgym.cluster.ray_nodes import NAMESPACE, import_ray
from agentgym.errors import NodeFailed, NodeLost

HEARTBEATS = "heartbeats"
"""The concurrency group of an actor that answers heartbeats on a thread of its own, however busy its event loop is."""


def start_actor(
    cls: type, node: HostNode, *arguments: Any, groups: dict[str, int] | None = None, outlives_driver: bool = False
) -> Any:
    """An actor on a node. It reserves no processor: one that did would keep the tools of its episodes waiting.

    Args:
        arguments: of the class.
        groups: threads of their own, by name, for calls that must not wait for the others.
        outlives_driver: whether it must end itself.
    """
    ray = import_ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return (
        ray.remote(concurrency_groups=groups or {})(cls)
        .options(
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1000,
            name=worker_name(node.id),
            namespace=NAMESPACE,
            lifetime="detached" if outlives_driver else None,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node.id, soft=False),
        )
        .remote(*arguments)
    )


class RayHost:
    """An actor, as the RemoteHost of a HostLink."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """As RemoteHost."""
        answer: Future[Any] = Future()

        def settle(done: Future[Any]) -> None:
            error = done.exception()
            answer.set_result(done.result()) if error is None else answer.set_exception(_explained(error))

        try:
            getattr(self._actor, method).remote(*arguments).future().add_done_callback(settle)
        except import_ray().exceptions.RayError as error:
            answer.set_exception(_explained(error))
        return answer

    def beat(self) -> Future[Any]:
        """As RemoteHost."""
        beat: Future[Any] = self._actor.beat.options(concurrency_group=HEARTBEATS).remote().future()
        return beat

    def end(self) -> None:
        """As RemoteHost. On a thread for this alone: Ray waits for its cluster, and for ever on a thread of its own."""
        if (ray := import_ray()).is_initialized():  # else Ray would start a cluster of its own for the call
            with suppress(Exception):  # it may be gone
                ray.kill(self._actor, no_restart=True)


def _explained(error: BaseException) -> BaseException:
    """An error of Ray's as NodeFailed or NodeLost, with its reason; any other as it is."""
    exceptions = import_ray().exceptions
    if not isinstance(error, exceptions.RayError):
        return error
    is_there = isinstance(error, exceptions.RayTaskError)
    explained = NodeFailed(in_short(error.cause)) if is_there else NodeLost(in_short(error))
    explained.__cause__ = error
    return explained
