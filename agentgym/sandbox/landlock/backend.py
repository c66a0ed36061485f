"""Sandboxes without namespaces: a process among the others of the machine, from which Landlock takes its files.

    host process ──one socket per sandbox──> guest ──forks──> agent code
                                               └─ its parent, the tracer, shows agent code /work and /tmp

It is the weakest backend, for machines that forbid user namespaces: containers started without further options, pods,
hardened desktops. As root each sandbox has a user of its own; otherwise it shares the user's, and Landlock alone keeps
it from the user's files and processes.

Not covered: what `namespaces` does not cover; which files of the machine exist, and which process numbers are in use;
sums of memory, processor time and files, which are watched. Programs have no network, not even between each other, no
terminals, and of /proc only what is about no process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox.contract import Running, Snapshot
from agentgym.sandbox.guest import landlock
from agentgym.sandbox.guest.frames import LINKED
from agentgym.sandbox.host.guest_backend import GuestBackend
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.host_python import entries_of, package_folders, python_environment
from agentgym.sandbox.host.snapshots import restore
from agentgym.sandbox.landlock import folders
from agentgym.sandbox.landlock.folders import SandboxFolder
from agentgym.sandbox.limits import SandboxSpec, unenforceable
from agentgym.sandbox.link import Link
from agentgym.threads import in_thread

_MIB = 2**20
_CREATE_S = 30.0
_WATCHED = {
    "memory": "each process alone is bounded, and the largest is killed once the sum is seen to be too large",
    "cpu": "everything is stopped for a while when more is used",
    "disk": "each file alone is bounded, and what runs is killed once the sum is seen to be too large",
    "inodes": "what runs is killed once there are seen to be too many",
}
_PROCESSES = (
    "the kernel counts the processes of your user together; what runs is killed once there are seen to be too many"
)
# what agent code finds empty, as in other sandboxes: programs expect that a file is missing, and not that it is closed
_MOVED = ("/etc", "/home", "/root", "/var", "/run", "/opt", "/srv", "/mnt", "/media", "/boot")
_REMEDY = "Remedy: allow user namespaces, and use the backend 'namespaces'."
_BOOT = """
import sys
sys.path.insert(0, {folder!r})
from guest import process_main
del sys.path[0]
process_main.main({socket})
"""
_FLAGS = ("-P", "-s", "-S", "-B", "-X", "utf8")


class LandlockBackend(GuestBackend):
    """Creates sandboxes as processes confined by Landlock."""

    name = "landlock"

    def __init__(self, *, folder: str | os.PathLike[str] | None = None) -> None:
        """`folder`: where the files of sandboxes are; by default the directory for temporary files."""
        super().__init__(None)
        self._folder = folder
        self._lock = threading.Lock()
        self._code: Path | None = None
        self._closings: set[asyncio.Future[None]] = set()

    async def running(self) -> list[Running]:
        """Return every sandbox of this backend whose folder this process may see."""
        return await in_thread(lambda: folders.running(self._parent, self.name))

    async def clean(self) -> list[str]:
        """Remove the folders of ended processes. Their sandboxes have ended with them."""
        return await in_thread(lambda: folders.clean(self._parent))

    async def close(self) -> None:
        """Close every sandbox. The backend may be used again afterwards."""
        await self._close_sandboxes()
        with self._lock:
            code, self._code = self._code, None
        if code is not None:
            await in_thread(shutil.rmtree, code, True)

    @property
    def _parent(self) -> Path:
        try:
            return Path(self._folder or tempfile.gettempdir())
        except FileNotFoundError as error:
            raise SandboxUnavailable(f"{error.strerror}. Name a folder in the variable TMPDIR.") from error

    def _code_folder(self) -> Path:
        with self._lock:
            if self._code is None or not self._code.exists():
                folders.clean(self._parent)
                self._code = folders.code_folder(self._parent)
                weakref.finalize(self, folders.remove_own, self._code, os.getpid())
            return self._code

    def _launch(self) -> _ProcessHandle:
        """Make a folder and start a process for it, which waits for its order."""
        with contextlib.ExitStack() as undo:
            folder = SandboxFolder(self._parent)
            undo.callback(folder.remove)
            (control, guest_end), (lifeline, far_end) = socket.socketpair(), socket.socketpair()
            undo.callback(control.close)
            undo.callback(lifeline.close)
            with guest_end, far_end:
                process = _process(self._code_folder(), guest_end, far_end)
            undo.pop_all()
        return _ProcessHandle(Link(control), lifeline, folder, process)

    def _close_unused(self, launching: asyncio.Future[_ProcessHandle]) -> None:
        """Close a guest whose creation was cancelled."""
        if not launching.cancelled() and launching.exception() is None:
            closing = asyncio.ensure_future(launching.result().close())
            self._closings.add(closing)
            closing.add_done_callback(self._closings.discard)

    @override
    def _level(self, missing: Mapping[str, str]) -> str:
        return "process"

    @override
    def _explain(self, missing: Mapping[str, str]) -> dict[str, str]:
        return {name: f"{why}. {_REMEDY}" for name, why in missing.items()}

    @override
    async def _create_guest(self, spec: SandboxSpec, snapshot: Snapshot | None) -> GuestHandle:
        _check(spec)
        guest = await self._start(spec)
        if snapshot is not None:
            try:
                await restore(guest, snapshot)
            except BaseException:
                await guest.close()
                raise
        return guest

    async def _start(self, spec: SandboxSpec) -> GuestHandle:
        launching = asyncio.ensure_future(in_thread(self._launch))
        try:
            guest = await asyncio.shield(launching)
        except asyncio.CancelledError:
            launching.add_done_callback(self._close_unused)
            raise
        try:
            async with asyncio.timeout(_CREATE_S):
                greeting = guest.link.expect_greeting()
                guest.link.send_order(_order(spec, guest.folder), [])
                header, _ = await greeting
        except (SandboxDied, TimeoutError) as error:
            guest.link.close("Its creation failed.")
            last_words = await in_thread(guest.last_words)
            await guest.close()
            raise SandboxUnavailable(f"No sandbox can be created here: {last_words or error}.") from error
        except BaseException:
            await guest.close()
            raise
        if "error" in header:
            await guest.close()
            raise SandboxUnavailable(f"No sandbox can be created here: {header.get('text')!s:.2000}.")
        guest.missing = header["missing"]
        return guest


class _ProcessHandle(GuestHandle):
    """A guest that is a process of this machine, with its folder."""

    def __init__(
        self, link: Link, lifeline: socket.socket, folder: SandboxFolder, process: subprocess.Popen[bytes]
    ) -> None:
        super().__init__(link, lifeline)
        self.folder, self.process = folder, process

    async def spawner_report(self) -> None:
        """Return None: these guests have no spawner."""

    def last_words(self) -> str:
        """Wait until the guest has ended, and return what it wrote to its standard error."""
        assert self.process.stderr is not None
        return self.process.stderr.read(4096).decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """Kill everything, wait for it, and remove the files."""
        await super().close()
        await in_thread(self._remove)

    def _remove(self) -> None:
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.folder.remove()


def _check(spec: SandboxSpec) -> None:
    """Raise an error if a sandbox of this spec cannot be created by this backend."""
    version = landlock.version()
    if not version:
        raise SandboxUnavailable(
            "This kernel has no Landlock, or it is switched off (see /sys/kernel/security/lsm). The landlock backend "
            "needs Linux 5.13 or newer."
        )
    if version < landlock.SCOPED and os.geteuid() != 0:
        raise SandboxUnavailable(
            f"This kernel's Landlock has version {version}. As an ordinary user the landlock backend needs version "
            f"{landlock.SCOPED} (Linux 6.12), which keeps sandboxes from signalling your other processes. As root it "
            "needs version 1."
        )
    for wish, has in (("image", spec.image != "host"), ("network", spec.network), ("programs", spec.programs)):
        if has:
            raise SandboxUnavailable(
                f"SandboxSpec.{wish} = {getattr(spec, wish)!r} needs a file system or a network of its own, which the "
                "landlock backend does not have. Use the backend 'namespaces' or 'docker'."
            )
    missing = _missing()
    if not spec.accepts(missing):
        raise unenforceable(missing, _REMEDY)


def _missing() -> dict[str, str]:
    return _WATCHED if os.geteuid() == 0 else {**_WATCHED, "processes": _PROCESSES}


def _process(code: Path, control: socket.socket, lifeline: socket.socket) -> subprocess.Popen[bytes]:
    """Start the process that becomes tracer and guest."""
    interpreter = _interpreter()
    return subprocess.Popen(
        [interpreter, *_FLAGS, "-c", _BOOT.format(folder=str(code), socket=control.fileno())],
        env={**python_environment(packages=False), **LINKED},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(control.fileno(), lifeline.fileno()),
        start_new_session=True,
        cwd="/",
    )


def _interpreter() -> str:
    """Return this process's Python or, if the sandbox's user may not reach it, the system's.

    Raises: SandboxUnavailable if there is neither.
    """
    own = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    for path in (own, "/usr/local/bin/python3", "/usr/bin/python3"):
        real = os.path.realpath(path)
        if os.path.exists(real) and (os.geteuid() != 0 or folders.is_open_to_all(Path(real))):
            return real
    raise SandboxUnavailable(
        f"{own} is in a folder that only root may enter, so sandboxes, which run as other users, cannot use it. "
        "Install Python elsewhere, for example by the package python3."
    )


def _order(spec: SandboxSpec, folder: SandboxFolder) -> dict[str, Any]:
    packages = entries_of(spec.preload)
    paths = dict.fromkeys([os.path.dirname(_interpreter()), "/usr/local/bin", "/usr/bin", "/bin"])
    environment = {**python_environment(packages=False), "PATH": ":".join(paths), **dict(spec.environment)}
    if packages:
        environment["PYTHONPATH"] = folder.show(packages)
    paths_of_packages = [path for path, _ in packages]
    readable = [f"{sys.base_prefix}/bin", f"{sys.base_prefix}/lib"]
    needed = [*readable, *paths_of_packages, str(folder.path)]
    return {
        "folder": str(folder.path),
        "user": folder.user,
        "environment": environment,
        "preload": list(spec.preload),
        "packages": paths_of_packages,
        "readable": readable,
        "moved": [path for path in _MOVED if not any(f"{each}/".startswith(f"{path}/") for each in needed)],
        "hidden": [os.path.realpath(path) for path in package_folders()],
        "missing": _missing(),
        "memory": spec.memory_mib * _MIB,
        "address_space": spec.memory_mib * _MIB,
        "cores": spec.cpu_cores,
        "processes": spec.processes,
        "disk": spec.disk_mib * _MIB,
        "inodes": spec.inodes,
        "open_files": spec.open_files,
    }
