"""The default backend: Linux namespaces, seccomp and control groups, created in milliseconds and without a daemon.

    host process ──requests──> spawner ──creates──> process 1 of each sandbox: the guest ──forks──> agent code
         └────────────────── one socket per sandbox, requests and replies ──────────────────┘

Not covered: vulnerabilities of the kernel itself, side channels, fairness beyond control groups. An image's own Python
creates the sandboxes of that image. It runs under a separate user id and without network, but not inside a sandbox: use
only images that you would run as an ordinary user. Files written in the sandbox live in memory and count against
`memory_mib`, so the memory limit is at least `disk_mib` + 32. Otherwise files could leave no memory to the guest: agent
code could end its sandbox, and the episode would not count.

A sandbox created from a snapshot mounts the snapshot's layers, which the spawner keeps unpacked: it costs as much as an
empty one, however large the layers are. As on Docker, a folder from the snapshot cannot be renamed (EXDEV; `mv` and
`shutil.move` then copy it), and writing to one name of a hard-linked file from it makes a separate file of this name.
Where the kernel cannot mount overlays on tmpfs (before Linux 6.6), the files are unpacked into each sandbox instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym.errors import SandboxDied, SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Running, Snapshot
from agentgym.sandbox.host.guest_backend import GuestBackend
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.host_python import ROOT_VARIABLES
from agentgym.sandbox.host.snapshots import restore
from agentgym.sandbox.limits import SandboxSpec, unenforceable
from agentgym.sandbox.link import Link
from agentgym.sandbox.namespaces import processes
from agentgym.sandbox.namespaces.layer_cache import LayerCache, keys_of
from agentgym.sandbox.namespaces.spawner import SpawnerProcess
from agentgym.sandbox.network.proxy import Proxy, environment_for
from agentgym.sandbox.rootfs.store import HOST_IMAGE, RootFilesystem, prepare_rootfs

_MIB = 2**20
_GUEST_MEMORY = 32 * _MIB  # reserved for the guest, so that files in memory cannot use it up
_CREATE_S = 30.0
_LAYER_TRIES = 3
_LEAST_INODES = 64
_CREATIONS = 2 * (os.cpu_count() or 1)  # a higher number of concurrent creations would only wait

_SUBSTITUTE = {  # what guest/watchdog.py does instead
    "memory": "each process alone is bounded, and a watchdog kills the largest once the sum is seen to be too large",
    "cpu": "a watchdog stops everything for a while when more is used, and time limits bound the rest",
}


_Kind = tuple[str, tuple[str, ...], tuple[str, ...], bool]
"""What sandboxes of one spawner share: the image's digest, the preloaded modules, the agent programs, and whether their
root is writable; if it is, they may have different images."""


class NamespacesBackend(GuestBackend):
    """Creates sandboxes from namespaces: as root, or rootless with weaker limits if the spec accepts them."""

    name = "namespaces"
    has_relay = True

    def __init__(self, *, layers_mib: int = 2048, proxy: Proxy | None = None) -> None:
        """Args:
        layers_mib: memory for unpacked files of snapshots, kept for further sandboxes created from them.
        proxy: serves sandboxes whose spec asks for a network; by default a new proxy with default limits.
        """
        super().__init__(proxy)
        self._layers_mib, self._layer_cache = layers_mib, LayerCache()
        self._spawners: dict[_Kind, SpawnerProcess] = {}
        self._images: dict[tuple[str, bool], RootFilesystem] = {}
        self._lock = threading.Lock()
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        weakref.finalize(self, _end_spawners, self._spawners)

    async def running(self) -> list[Running]:
        """Return every namespaces sandbox on this machine whose spawner this process may inspect."""
        return await asyncio.to_thread(processes.running, self.name)

    async def clean(self) -> list[str]:
        """End spawners whose owner has ended, and remove control groups that no living spawner owns."""
        return await asyncio.to_thread(processes.clean)

    async def close(self) -> None:
        """Close every sandbox and end the spawners. The backend may be used again afterwards."""
        await self._close_sandboxes()
        with self._lock:
            spawners = list(self._spawners.values())
            self._spawners.clear()
        for spawner in spawners:
            await asyncio.to_thread(spawner.close)
        await asyncio.to_thread(self._proxy.close)

    async def _image(self, spec: SandboxSpec) -> RootFilesystem | None:
        """Return the root file system of an image.

        The lookup happens once: all sandboxes of this backend that name the image share its files.
        """
        if spec.image == HOST_IMAGE:
            return None
        key = spec.image, spec.writable_root
        if key not in self._images:
            image = await asyncio.to_thread(prepare_rootfs, spec.image, as_root=spec.writable_root)
            self._images.setdefault(key, image)
        return self._images[key]

    async def _spawner_of(self, spec: SandboxSpec) -> SpawnerProcess:
        image = await self._image(spec)
        if spec.writable_root:
            assert image is not None
            return self._spawner(spec.preload, spec.programs, None, image.root.parents[1])
        return self._spawner(spec.preload, spec.programs, image, None)

    def _spawner(
        self,
        preload: tuple[str, ...],
        programs: tuple[str, ...],
        image: RootFilesystem | None,
        images: Path | None,
    ) -> SpawnerProcess:
        with self._lock:
            key = (image.digest if image else "", preload, programs, images is not None)
            spawner = self._spawners.get(key)
            if spawner is None or not spawner.alive:
                if spawner is not None:
                    spawner.close()
                spawner = self._spawners[key] = SpawnerProcess(
                    preload, image, programs=programs, layers_mib=self._layers_mib, images=images
                )
            return spawner

    def _gate(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._gates.setdefault(loop, asyncio.Semaphore(_CREATIONS))

    @override
    def _level(self, missing: Mapping[str, str]) -> str:
        return "ns" if missing else "ns+cgroup"

    @override
    def _explain(self, missing: Mapping[str, str]) -> dict[str, str]:
        return {name: f"{why}; instead {_SUBSTITUTE[name]}. {_REMEDY}" for name, why in missing.items()}

    @override
    async def _create_guest(self, spec: SandboxSpec, snapshot: Snapshot | None) -> GuestHandle:
        async with self._gate():
            guest = await self._create_with_retry(spec, snapshot)
            if spec.network:
                try:
                    await guest.open_network(self._proxy, spec.network, spec.transfer_mib)
                except BaseException:
                    await guest.close()
                    raise
            return guest

    async def _create_with_retry(self, spec: SandboxSpec, snapshot: Snapshot | None) -> GuestHandle:
        """Create a sandbox, with a second try if the spawner ended or hung meanwhile."""
        for last in (False, True):
            try:
                return await self._create_from(spec, snapshot)
            except SandboxDied:  # SandboxDied is a ConnectionError too, but this one does not come from the spawner
                raise
            except ConnectionError as error:
                if last:
                    raise SandboxUnavailable(
                        f"The spawner process was killed twice while it created one sandbox ({error}). Unless you "
                        "killed it, the machine ran out of memory (see dmesg). Run fewer sandboxes at once."
                    ) from error
        raise AssertionError("unreachable: the second try returns or raises")

    async def _create_from(self, spec: SandboxSpec, snapshot: Snapshot | None) -> GuestHandle:
        """Return a guest that mounts a snapshot's layers or, if that is impossible, has the files unpacked in it."""
        layers = snapshot.layers if snapshot is not None else ()
        fits = snapshot is None or snapshot.size_bytes < self._layers_mib * _MIB
        for _ in range(_LAYER_TRIES if fits else 0):
            try:
                guest = await self._create_empty_or_layered(spec, snapshot)
            except _LayersMissing as missing:
                if await self._layer_cache.build_missing(await self._spawner_of(spec), layers, missing.keys):
                    break
                continue  # another request may have evicted them again
            guest.base_snapshot = snapshot
            return guest
        guest = await self._create_empty_or_layered(spec, None)
        if snapshot is not None:
            try:
                await restore(guest, snapshot)
            except BaseException:
                await guest.close()
                raise
        return guest

    async def _create_empty_or_layered(self, spec: SandboxSpec, below: Snapshot | None) -> GuestHandle:
        spawner, image = await self._spawner_of(spec), await self._image(spec)
        (control, guest_end), (lifeline, spawner_end) = _two_pairs()
        guest = GuestHandle(Link(control), lifeline, spawner.end_if_hung)
        try:
            async with asyncio.timeout(_CREATE_S):
                with guest_end, spawner_end:
                    await spawner.send_request(
                        _creation_request(spec, below, spawner, image), guest_end.fileno(), spawner_end.fileno()
                    )
                header, _ = await guest.link.expect_greeting()
        except SandboxDied as error:
            spawner_report = await guest.spawner_report()
            await guest.close()
            if spawner_report is None and not spawner.alive:
                error_text = spawner.stderr_text()
                if not error_text:
                    raise ConnectionError("the spawner process has ended") from error
                raise SandboxUnavailable(
                    f"The spawner process, which creates sandboxes, has ended:\n{error_text}"
                ) from error
            if spawner_report and spawner_report.get("kind") == "retired":
                raise ConnectionError(spawner_report["text"]) from error
            if spawner_report and spawner_report.get("kind") == "layers":
                raise _LayersMissing(json.loads(spawner_report["text"])) from None
            raise _creation_error(spawner_report) from error
        except TimeoutError as error:
            hung = await spawner.end_if_hung()
            await guest.close()
            if hung:
                raise ConnectionError("the spawner process did not respond, so it was killed") from error
            raise SandboxUnavailable(
                f"No sandbox was ready within {_CREATE_S:g} s, because the machine is overloaded. Run fewer sandboxes "
                "at once."
            ) from error
        except BaseException:
            await guest.close()
            raise
        if "error" in header:
            await guest.close()
            raise _creation_error({"kind": "unavailable", "text": str(header.get("text"))})
        guest.missing, guest.image_digest = header["missing"], image.digest if image else ""
        return guest


def _two_pairs() -> tuple[tuple[socket.socket, socket.socket], tuple[socket.socket, socket.socket]]:
    """Return two socket pairs: a stream to the guest, and messages from the spawner.

    Raises: OSError, after closing those already open.
    """
    stream = socket.socketpair()
    try:
        return stream, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError:
        for end in stream:
            end.close()
        raise


class _LayersMissing(Exception):
    """The spawner does not have these layers, or has removed them."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(keys)
        self.keys = keys


def _creation_request(
    spec: SandboxSpec, below: Snapshot | None, spawner: SpawnerProcess, image: RootFilesystem | None
) -> dict[str, Any]:
    """Return the request for a sandbox. Layers count against the disk limits, so forks of forks stay bounded."""
    root: dict[str, Any] = {}
    environment = spawner.environment
    if spec.writable_root and image is not None:
        root = {"root": image.layers, "programs": bool(spec.programs)}
        environment = {**ROOT_VARIABLES, **dict(image.environment)}
    disk = spec.disk_mib * _MIB
    taken, files = (below.size_bytes, len(below.entries)) if below is not None else (0, 0)
    return {
        "memory": max(spec.memory_mib * _MIB, disk + _GUEST_MEMORY),
        "address_space": spec.memory_mib * _MIB,  # used only where no control group bounds the sum
        "processes": spec.processes,
        "cores": spec.cpu_cores,
        "disk": disk,
        "writable": max(disk - taken, _MIB),
        "inodes": max(spec.inodes - files, _LEAST_INODES),
        "open_files": spec.open_files,
        "environment": {**environment, **environment_for(spec.network), **dict(spec.environment)},
        "accepted": spec.accepted,
        "layers": keys_of(below.layers) if below is not None else [],
        **root,
    }


# What to do when the spawner or the machine runs short of something, by the kind of shortage that the spawner reports.
_SHORTAGES = {
    "killed": "If nobody killed it on purpose, the machine ran out of memory (see dmesg): run fewer sandboxes at once.",
    "exhausted": "Its memory was used up before any code ran: raise memory_mib of the spec.",
    "descriptors": "Raise the hard limit on open files (ulimit -Hn), or keep fewer sandboxes alive at once.",
    "processes": "Raise the limit on processes (ulimit -u, or pids.max of the control group), or run fewer sandboxes.",
    "memory": "The machine is short of memory: run fewer sandboxes at once.",
}
_REMEDY = (
    "Remedy: run as root, or below a cgroup v2 that is delegated to this user (systemd-run --user --scope -p "
    "Delegate=yes COMMAND)."
)


def _creation_error(spawner_report: dict[str, Any] | None) -> SandboxError:
    """Return the exception for a sandbox that could not be created."""
    kind, text = (spawner_report or {}).get("kind", ""), (spawner_report or {}).get("text", "")
    if kind == "limit":
        missing = json.loads(text)
        return unenforceable({name: f"{why}; instead {_SUBSTITUTE[name]}" for name, why in missing.items()}, _REMEDY)
    if kind == "image":
        return SandboxUnavailable(f"No sandbox can be created from this image: {text}.")
    if kind in _SHORTAGES:
        return SandboxUnavailable(f"The sandbox could not be set up: {text}. {_SHORTAGES[kind]}")
    text = text.replace("No space left on device at clone", "the limit on user namespaces is reached")
    return SandboxUnavailable(
        f"No sandbox can be created here: {text or 'the guest process died during setup'}. The namespaces backend "
        "needs Linux 5.14 or newer with user namespaces (sysctl user.max_user_namespaces above 0 and, where these "
        "exist, kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0). "
        "In a container, start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined. "
        "Without these, --backend landlock isolates less and works: see docs/sandbox.md."
    )


def _end_spawners(spawners: dict[_Kind, SpawnerProcess]) -> None:
    for spawner in spawners.values():
        spawner.close()
