"""The docker backend: each sandbox is a hardened container, with our guest as its program.

    host process ──one socket per sandbox, requests and replies──> guest: process 1 of the container ──> agent code
         └──create, start, remove──> Docker daemon ──> runc, crun, ...

Creation is slower than with namespaces (some 0.3 s instead of milliseconds); calls are equally fast. Any
image of the daemon with Python 3.9 or newer can be used. The guest is the container's root with capabilities only to
change user and to kill; agent code is user 1000 without any. With a writable root the guest brings its own Python, and
an overlay of the image and a bounded tmpfs becomes its root. Before any agent code runs, which is user 0 then, it gives
up all but CAP_DAC_OVERRIDE and CAP_FOWNER.
`docker exec` is never used. If this process dies, its guests notice and end, and the daemon removes their containers.
The next backend on this machine, or `clean`, removes the leftovers of a crash during creation.

Not covered: vulnerabilities of the kernel itself (use a runtime with its own kernel), side channels. Users of one
daemon share what the kernel counts per user, unless the daemon maps users (userns-remap); root by name shares it with
the machine's root.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from agentgym.errors import SandboxDied, SandboxError, SandboxUnavailable
from agentgym.sandbox import owner as docker_owner
from agentgym.sandbox.contract import Layer, Running, Snapshot
from agentgym.sandbox.docker.container import (
    ContainerHandle,
    ContainerRuntime,
    bound_socket_buffers,
    environment,
    oom_score_of_peer,
    settings,
)
from agentgym.sandbox.docker.daemon import Daemon, DockerImage, has_own_kernel, missing_limits
from agentgym.sandbox.docker.rendezvous import Rendezvous, SocketDirectory
from agentgym.sandbox.host.guest_backend import GuestBackend
from agentgym.sandbox.host.snapshots import restore
from agentgym.sandbox.limits import SandboxSpec, unenforceable
from agentgym.sandbox.link import Link, in_memory
from agentgym.sandbox.network.proxy import Proxy
from agentgym.sandbox.owner import Owner

_CREATE_S = 60.0
_POLL_S = 1.0  # how often to check that a container is alive until its guest connects
_FORGOTTEN_S = 3600.0  # a stopped container without a known owner counts as orphaned after this time

_IMAGE_LABEL = "agentgym.image"
T = TypeVar("T")


class DockerBackend(GuestBackend):
    """Creates sandboxes as Docker containers."""

    name = "docker"
    has_relay = True
    watches = False

    def __init__(
        self,
        *,
        runtime: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """
        Args:
            runtime: name of an OCI runtime that the daemon knows, such as `crun`; by default the daemon's default.
            folder: an existing directory that this process and the daemon see under the same path, by default the
                directory for temporary files. It holds sockets and the guest's sources.
            proxy: serves sandboxes whose spec asks for a network; by default a new proxy with default limits.
        """
        super().__init__(proxy)
        self.runtime, self._folder = runtime, Path(folder or tempfile.gettempdir())
        self._lock = threading.Lock()
        self._connected: tuple[Daemon, SocketDirectory] | None = None
        self._run = secrets.token_hex(8)

    async def image(self, name: str) -> DockerImage:
        """Return an image of the daemon, without ever pulling it. Raises: SandboxUnavailable if it has none."""
        daemon, _ = self._connection()
        return await _in_thread(daemon, daemon.image, name)

    async def running(self) -> list[Running]:
        """Return every agentgym container of the daemon.

        Containers of another machine or pid namespace have no owner.
        """
        daemon, _ = self._connection()
        listed = await _in_thread(daemon, daemon.containers, docker_owner.LABEL)
        loads = await asyncio.gather(*(_in_thread(daemon, daemon.load_of, container) for container in listed))
        return [
            self._described(container, memory_mib, processes)
            for container, (memory_mib, processes) in zip(listed, loads, strict=True)
        ]

    def _described(self, listed: dict[str, Any], memory_mib: float, processes: int) -> Running:
        owner = Owner.from_labels(listed["Labels"])
        return Running(
            id=listed["Names"][0].strip("/"),
            backend=self.name,
            image=listed["Labels"].get(_IMAGE_LABEL, listed["Image"]),
            owner=owner.pid if owner is not None and owner.alive else 0,
            orphaned=_is_orphaned(listed),
            age_s=max(time.time() - listed["Created"], 0.0),
            memory_mib=memory_mib,
            processes=processes,
        )

    async def clean(self) -> list[str]:
        """Remove containers and directories of ended processes. Returns: one line for each."""
        daemon, _ = self._connection()
        return await _in_thread(daemon, _clean, daemon, self._folder)

    async def close(self) -> None:
        """Close every sandbox and disconnect. The backend may be used again afterwards.

        Raises: SandboxError if the daemon cannot remove a container; everything else is closed anyway.
        """
        try:
            await self._close_sandboxes()
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        with self._lock:
            connected, self._connected = self._connected, None
        if connected is not None and connected[0].owner == os.getpid():
            daemon, directory = connected
            await asyncio.to_thread(daemon.close)
            directory.close()
        await asyncio.to_thread(self._proxy.close)

    def _connection(self) -> tuple[Daemon, SocketDirectory]:
        """Return the daemon and the socket directory of this process; a forked process gets its own."""
        with self._lock:
            if self._connected is None or self._connected[0].owner != os.getpid():
                daemon = Daemon()
                self._connected = daemon, SocketDirectory(self._folder)
                daemon.submit(_clean_quietly, daemon, self._folder)
            return self._connected

    @override
    def _level(self, missing: Mapping[str, str]) -> str:
        return "container"

    @override
    async def _create_guest(self, spec: SandboxSpec, snapshot: Snapshot | None) -> ContainerHandle:
        daemon, directory = self._connection()
        if spec.writable_root and has_own_kernel(await _in_thread(daemon, lambda: daemon.facts), self.runtime):
            raise SandboxUnavailable(
                "SandboxSpec.writable_root needs an overlay file system, which gVisor does not have. Use the runtime "
                "runc or crun, or the backend 'namespaces'."
            )
        image = await _in_thread(daemon, daemon.image, spec.image)
        missing = missing_limits(daemon.facts, self.runtime)
        if not spec.accepts(missing):
            raise unenforceable(missing)
        layers = snapshot.layers if snapshot is not None and spec.writable_root else ()
        guest = await self._start(spec, daemon, directory, image, layers)
        guest.missing = missing
        try:
            if layers:
                guest.base_snapshot = snapshot
            elif snapshot is not None:
                await restore(guest, snapshot)
            if spec.network:
                await guest.open_network(self._proxy, spec.network, spec.transfer_mib)
        except BaseException:
            await guest.close()
            raise
        return guest

    async def _start(
        self,
        spec: SandboxSpec,
        daemon: Daemon,
        directory: SocketDirectory,
        image: DockerImage,
        layers: Sequence[Layer],
    ) -> ContainerHandle:
        name = f"agentgym-{secrets.token_hex(8)}"
        labels = {**directory.owner.labels, _IMAGE_LABEL: spec.image, "agentgym.run": self._run}
        rendezvous = Rendezvous(directory)
        python = await _in_thread(daemon, lambda: directory.python) if spec.writable_root else None
        # the guest mounts its root, which Docker's profile of AppArmor forbids
        confined = any("apparmor" in option for option in daemon.facts.get("SecurityOptions") or ())
        options = ["apparmor=unconfined"] if spec.writable_root and confined else []
        own_kernel = has_own_kernel(daemon.facts, self.runtime)
        container_settings = settings(
            spec,
            image,
            ContainerRuntime(self.runtime, own_kernel),
            code=directory.code,
            rendezvous=rendezvous.folder,
            python=python,
            options=options,
            labels=labels,
            cores=daemon.facts["NCPU"],
        )
        started = daemon.submit(daemon.start, name, container_settings)
        link = None
        try:
            await asyncio.wrap_future(started)
            async with asyncio.timeout(_CREATE_S):
                connection = await _connection_of(rendezvous, daemon, name, image)
                bound_socket_buffers(connection, container_settings["HostConfig"]["Memory"])
                order = {
                    "environment": environment(spec, image),
                    "preload": list(spec.preload),
                    "missing": {},
                    "cores": spec.cpu_cores,
                    # gVisor uses no control groups, so limit at least each process
                    "whole_root": spec.writable_root,
                    "layers": len(layers),
                    "address_space": spec.memory_mib * 2**20 if own_kernel else 0,
                }
                link = Link(connection)
                greeting = link.expect_greeting()
                with oom_score_of_peer(connection) as descriptors, _in_files(layers) as files:
                    link.send_order(order, [*descriptors, *files])
                header, _ = await greeting
            if "error" in header:
                raise SandboxUnavailable(
                    f"The guest process cannot run in the image {image.name!r}: {header.get('text')!s:.2000}"
                )
            return ContainerHandle(link, daemon, name, image)
        except BaseException as error:
            if link is not None:
                link.close("The creation of this sandbox failed or was cancelled.")
            rendezvous.close()
            removal = daemon.submit(_remove_once_started, daemon, name, started)
            if isinstance(error, Exception):  # if the caller was cancelled, do not wait
                await asyncio.shield(asyncio.wrap_future(removal))
            if isinstance(error, SandboxDied | TimeoutError):
                raise SandboxUnavailable(_no_guest(image, str(error) or "it did not answer in time")) from error
            raise
        finally:
            rendezvous.close()


@contextlib.contextmanager
def _in_files(layers: Sequence[Layer]) -> Iterator[list[int]]:
    """Return descriptors of memory files with the archives of layers."""
    descriptors: list[int] = []
    try:
        descriptors.extend(in_memory(layer.data) for layer in layers)
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def _connection_of(rendezvous: Rendezvous, daemon: Daemon, name: str, image: DockerImage) -> socket.socket:
    """Return the guest's connection. Raises: SandboxUnavailable if its container ended first."""
    while True:
        try:
            return await rendezvous.guest(_POLL_S)
        except TimeoutError:
            if (end := await _in_thread(daemon, daemon.end_of, name)) is not None:
                raise SandboxUnavailable(_no_guest(image, end)) from None


def _no_guest(image: DockerImage, end: str) -> str:
    return (
        f"The guest did not come up in a container of the image {image.name!r}: {end}. Its python3 is older than 3.9 "
        f"or broken (try it: docker run --rm --entrypoint python3 {image.name} -V), or the machine is overloaded."
    )


async def _in_thread(daemon: Daemon, function: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.wrap_future(daemon.submit(function, *arguments))


def _remove_once_started(daemon: Daemon, name: str, started: Future[None]) -> None:
    wait([started])
    daemon.remove(name, ending=False)


def _is_orphaned(listed: dict[str, Any]) -> bool:
    owner = Owner.from_labels(listed["Labels"])
    if owner is not None:
        return not owner.alive
    return bool(listed["State"] != "running" and time.time() - listed["Created"] > _FORGOTTEN_S)


def _clean(daemon: Daemon, parent: Path) -> list[str]:
    done = []
    for container in daemon.containers(docker_owner.LABEL):
        if _is_orphaned(container):
            daemon.remove(container["Id"], ending=False)
            done.append(f"removed container {container['Names'][0].strip('/')}, whose owner has ended")
    for path in parent.glob("agentgym-docker-*"):
        owner = Owner.from_folder(path.name)
        with contextlib.suppress(FileNotFoundError):  # another process may clean at the same time
            if owner is not None and not owner.alive and path.lstat().st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
                done.append(f"removed directory {path}, whose owner has ended")
    return done


def _clean_quietly(daemon: Daemon, parent: Path) -> None:
    """Clean up at the start of a backend. A problem with the daemon is reported at its first real use."""
    with contextlib.suppress(SandboxError):
        _clean(daemon, parent)
