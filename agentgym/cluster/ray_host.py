"""An actor on a node of a Ray cluster. Ray places it, carries its heartbeats and ends it; calls go to it directly."""

from __future__ import annotations

import asyncio
import secrets
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from agentgym.cluster.call_stream import KEY_BYTES, CallServer, CallStream, Streams, connect
from agentgym.cluster.host_link import HostLink, HostNode, in_short
from agentgym.cluster.ray_nodes import NAMESPACE, SLOWEST_S, facts_of, fault_in, import_ray, worker_name
from agentgym.errors import NodeLost

HEARTBEATS = "heartbeats"
"""The concurrency group in which an actor answers heartbeats on a separate thread, even if its event loop is busy."""


def start_actor(
    cls: type, node: HostNode, *arguments: Any, groups: dict[str, int] | None = None, outlives_driver: bool = False
) -> Any:
    """Return an actor on a node. It reserves no CPU, so that its episodes' tools can use all.

    Args:
        arguments: the arguments of the class.
        groups: concurrency groups, as threads by name, for calls that must not wait for others.
        outlives_driver: whether it outlives this process, and so must end itself.
    Raises: NodeLost if this process has left the cluster: Ray would start another one.
    """
    ray = import_ray()
    if not ray.is_initialized():
        raise NodeLost("This process has left the cluster.")
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


class CalledDirectly:
    """Mixin of an actor's class: the driver can call its methods over a direct connection."""

    async def listen(self, address: str, key: bytes) -> int:
        """Start listening for calls on an address of this host. Returns: the port."""
        return await CallServer(self, key).listen(address)


class RayHost:
    """An actor whose class is CalledDirectly, as the RemoteHost of a HostLink.

    Args:
        address: the address of its node.
    """

    def __init__(self, actor: Any, address: str) -> None:
        self.actor, self._address = actor, address
        self._key = secrets.token_bytes(KEY_BYTES)
        self._port: Future[int] | None = None
        self._lock = threading.Lock()
        self._streams: WeakKeyDictionary[asyncio.AbstractEventLoop, CallStream] = WeakKeyDictionary()

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the actor from a coroutine, without waiting."""
        loop = asyncio.get_running_loop()
        stream = self._streams.get(loop)
        if stream is None:
            stream = self._streams[loop] = CallStream(self._connect)
        return stream.call(method, *arguments)

    async def _connect(self) -> Streams:
        with self._lock:
            if self._port is None:
                self._port = self.actor.listen.remote(self._address, self._key).future()
        try:
            port = await asyncio.shield(asyncio.wrap_future(self._port))  # other event loops wait for it too
        except import_ray().exceptions.RayError as error:
            raise NodeLost(in_short(error)) from error
        return await connect(self._address, port, self._key)

    def beat(self) -> Future[Any]:
        """Call `beat` of the actor, which even a busy host answers."""
        beat: Future[Any] = self.actor.beat.options(concurrency_group=HEARTBEATS).remote().future()
        return beat

    def end(self) -> None:
        """End the process. Call this on a dedicated thread, since Ray's own threads would wait for ever."""
        for loop, stream in [*self._streams.items()]:
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(stream.close)
        if (ray := import_ray()).is_initialized():  # else Ray would start a new cluster for the call
            with suppress(Exception):  # it may be gone
                ray.kill(self.actor, no_restart=True)


async def check(link: HostLink, backend: str | None) -> str:
    """Return why an actor's node cannot be used; "" if it can. Raises: NodeLost if the actor broke."""
    assert isinstance(link.host, RayHost)
    facts = await facts_of(link.host.actor, backend, SLOWEST_S)
    if "broken" in facts:
        raise NodeLost(fault_in(facts))
    return fault_in(facts)
