"""The host's side of the spawner process: starts it, requests sandboxes from it, ends it.

Safe from any thread and any event loop: a request is one datagram, and every reply comes on the sockets of the sandbox
it is about.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.guest.frames import HOST_SOCKET, LINKED
from agentgym.sandbox.host.host_python import PYTHON_VARIABLES, entries_of, package_folders, python_environment
from agentgym.sandbox.rootfs.programs import locate_program
from agentgym.sandbox.rootfs.store import RootFilesystem

OWNER = "--owner="  # prefix of the owner's pid in a spawner's arguments, by which `processes` finds orphans
IMAGE = "--image="  # prefix of the image's digest in a spawner's arguments
# Compiled guest code is cached if the host caches its own. Otherwise each spawner compiles it, and the memory that
# compiling takes is in every sandbox.
_BOOT = """
import sys
sys.dont_write_bytecode = {as_is!r}
sys.path.insert(0, {folder!r})
from guest import spawner
sys.path.remove({folder!r})
spawner.main()
"""
# -P -s -S and a fixed environment instead of -I, which would ignore the hash seed: sets and dicts iterate in the same
# order in every sandbox, so that a replayed episode sees the same as the first one
_FLAGS = ("-P", "-s", "-S", "-B", "-X", "utf8")
_ENDING_S = 15.0
_ANSWER_S = 5.0  # time for a sign of life: the spawner only has to read one message


class SpawnerProcess:
    """One spawner process, for all sandboxes of one image with the same preloaded modules and agent programs."""

    def __init__(
        self,
        preload: tuple[str, ...],
        image: RootFilesystem | None = None,
        *,
        programs: tuple[str, ...] = (),
        layers_mib: int,
        images: Path | None = None,
    ) -> None:
        """Start the spawner. Without an image, sandboxes see the host's own Python and programs.

        With `images`, the folder of the unpacked images, every sandbox has a writable root over the image that its
        request names. The guest itself then runs on the host's Python, whatever the image contains.

        Raises: SandboxUnavailable if the spawner cannot be started, or a module or program cannot be found; OSError if
            this process may open no more files.
        """
        self.owner = os.getpid()
        self._lock = threading.Lock()
        interpreter = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        folder = Path(__file__).parents[1]  # of agentgym.sandbox, which holds `guest`
        folders = [str(locate_program(name).folder) for name in programs]
        config: dict[str, Any] = {"preload": list(preload), "programs": folders, "layers": layers_mib * 2**20}
        config["images"] = str(images) if images else ""
        if image is None:
            packages = entries_of(preload)
            self.environment = python_environment(packages=bool(packages))
            config |= {
                "interpreter": interpreter,
                "library": f"{sys.base_prefix}/lib",
                "hidden": package_folders(),
                "packages": packages,
            }
        else:
            self.environment = {**dict(image.environment), **PYTHON_VARIABLES}
            config |= {"image": str(image.root), "guest": str(folder / "guest"), "environment": self.environment}
        arguments = [f"{OWNER}{self.owner}", *([f"{IMAGE}{image.digest}"] if image else ())]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._errors, errors_write = os.pipe()
        except OSError:
            ours.close()
            theirs.close()
            raise
        os.set_blocking(self._errors, False)
        try:
            self.pid = os.posix_spawn(
                interpreter,
                [
                    interpreter,
                    *_FLAGS,
                    "-c",
                    _BOOT.format(folder=str(folder), as_is=sys.dont_write_bytecode),
                    *arguments,
                ],
                {**python_environment(packages=False), **LINKED},
                setsid=True,  # Ctrl-C in the terminal must only reach the host
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, errors_write, 2),
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), HOST_SOCKET),
                ],
            )
        except OSError as error:
            ours.close()
            os.close(self._errors)
            raise SandboxUnavailable(f"The spawner process cannot be started: {error}.") from error
        finally:
            theirs.close()
            os.close(errors_write)
        self._socket = ours
        ours.send(json.dumps(config).encode())
        ours.setblocking(False)

    async def send_request(self, request: dict[str, Any], source: int, lifeline: int) -> None:
        """Request a sandbox or a layer. Raises: ConnectionError if the spawner has ended.

        Args:
            source: descriptor of the guest's end of its control socket, or of the layer's archive.
            lifeline: descriptor of the far end of the lifeline.
        """
        message = json.dumps(request).encode()
        while True:
            try:
                socket.send_fds(self._socket, [message], [source, lifeline])
                return
            except BlockingIOError:  # the socket's queue is full
                await asyncio.sleep(0.001)
            except OSError as error:
                raise ConnectionError("the spawner process has ended") from error

    @property
    def alive(self) -> bool:
        """Return whether the spawner runs; always False in a fork of its owner, because forks must not use it."""
        if self.owner != os.getpid() or self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, 0)
        return not poll.poll(0)

    async def end_if_hung(self) -> bool:
        """Kill the spawner and its sandboxes unless it answers now. Call this when it has missed a deadline.

        Returns: whether the spawner has ended, now or before.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.setblocking(False)
            try:
                async with asyncio.timeout(_ANSWER_S):
                    with theirs:
                        await self.send_request({"ping": True}, theirs.fileno(), theirs.fileno())
                    await asyncio.get_running_loop().sock_recv(ours, 1)
            except ConnectionError:
                return True
            except TimeoutError:
                self._kill()
                return True
        return not self.alive

    def _kill(self) -> None:
        with self._lock:  # while the socket is open, the process is not reaped, so its pid is not reused
            if self._socket.fileno() >= 0 and self.owner == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def stderr_text(self) -> str:
        """Return what the spawner wrote to standard error since the last call."""
        try:
            return os.read(self._errors, 65_536).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def close(self) -> None:
        """End the spawner and wait until its sandboxes, mounts and groups are gone. May be called twice."""
        with self._lock:
            if self._socket.fileno() < 0:
                return
            self._socket.close()
            os.close(self._errors)
        if self.owner != os.getpid():
            return
        deadline = time.monotonic() + _ENDING_S
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:  # it hangs: kill it, and the kernel ends its sandboxes
                    os.kill(self.pid, signal.SIGKILL)
                    os.waitpid(self.pid, 0)
                    return
                time.sleep(0.001)
