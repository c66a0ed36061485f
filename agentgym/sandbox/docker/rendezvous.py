"""How host and guest connect: a socket in a directory mounted into the container, beside the guest's sources."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
import weakref
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from agentgym.sandbox.guest import container_main
from agentgym.sandbox.guest.container_main import OWN
from agentgym.sandbox.owner import Owner
from agentgym.sandbox.rootfs.python_image import libraries_of

_GUEST = Path(container_main.__file__).parent


class GuestPython(NamedTuple):
    """A Python that runs in every image: the interpreter with its shared libraries, and its standard library.

    Attributes:
        folder: shown as OWN. library: shown as `library_inside`, which lies below.
        loader: the name of the dynamic loader, which starts the interpreter; the image may have another or none.
    """

    folder: Path
    library: Path
    library_inside: str
    loader: str

    @property
    def hidden(self) -> list[str]:
        """Return the folders inside with third-party packages of the host, which may hold tasks and solutions."""
        names = [name for name in ("site-packages", "dist-packages") if (self.library / name).is_dir()]
        return [f"{self.library_inside}/{name}" for name in names]

    @property
    def command(self) -> list[str]:
        return [f"{OWN}/lib/{self.loader}", "--library-path", f"{OWN}/lib", f"{OWN}/bin/python3", "-S"]


class SocketDirectory:
    """This process's directory for sockets, with a copy of the guest's sources that a container's root can read.

    Its name tells the owner, so that other processes can remove it if this one is killed. Any user may enter the
    directory, because a daemon that maps users runs the container's root as an unknown user. No other user may list it,
    so the names inside are secret.
    """

    def __init__(self, parent: Path) -> None:
        self.owner = Owner.this_process()
        self.path = Path(tempfile.mkdtemp(prefix=self.owner.folder_prefix("docker"), dir=parent))
        self._finalizer = weakref.finalize(self, _remove_ours, self.path, self.owner.pid)
        self.path.chmod(0o711)
        self.code = self.path / secrets.token_hex(16)
        package = self.code / _GUEST.name
        package.mkdir(parents=True)
        for source in _GUEST.glob("*.py"):
            shutil.copyfile(source, package / source.name)
            (package / source.name).chmod(0o644)
        for folder in (self.code, package):
            folder.chmod(0o755)

    @cached_property
    def python(self) -> GuestPython:
        """Return a copy of this process's Python, for guests whose image may be written by agents."""
        interpreter = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        library = Path(os.__file__).parent
        folder = self.path / secrets.token_hex(16)
        for name in ("bin", "lib", f"{sys.platlibdir}/{library.name}"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(interpreter, folder / "bin/python3")
        libraries = libraries_of([interpreter, *map(str, library.glob("lib-dynload/*.so"))])
        for path in libraries:
            shutil.copyfile(path, folder / "lib" / os.path.basename(path))
        for entry in (folder, *folder.rglob("*")):
            entry.chmod(0o755)
        loader = next((os.path.basename(path) for path in libraries if "/ld-" in path), "")
        return GuestPython(folder, library, f"{OWN}/{sys.platlibdir}/{library.name}", loader)

    def close(self) -> None:
        """Remove the directory. May be called twice."""
        self._finalizer()


def _remove_ours(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked process must not remove the folder
        shutil.rmtree(path, ignore_errors=True)


class Rendezvous:
    """A socket, in its own directory, to which one guest connects. Both are removed once the guest has connected."""

    def __init__(self, directory: SocketDirectory) -> None:
        self.folder = directory.path / secrets.token_hex(16)
        self.folder.mkdir()
        self.folder.chmod(0o755)  # the container's root cannot always override permissions
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        with _opened(self.folder) as descriptor:  # the full path may be too long for a socket address
            short = f"/proc/self/fd/{descriptor}/{container_main.SOCKET_NAME}"
            self._socket.bind(short)
            os.chmod(short, 0o666)
        self._socket.listen(1)
        self._accepting: asyncio.Task[tuple[socket.socket, object]] | None = None

    async def guest(self, timeout_s: float) -> socket.socket:
        """Return the guest's connection. If the guest connects just at the timeout, the next call returns it.

        Raises: TimeoutError.
        """
        if self._accepting is None:
            self._accepting = asyncio.create_task(_accept(self._socket))
        # not asyncio.timeout: it would cancel an accept that has just succeeded, and lose the connection
        done, _ = await asyncio.wait({self._accepting}, timeout=timeout_s)
        if not done:
            raise TimeoutError
        accepting, self._accepting = self._accepting, None
        return accepting.result()[0]

    def close(self) -> None:
        """Close the socket. May be called twice. A guest that tries to connect later fails and ends."""
        accepting, self._accepting = self._accepting, None
        if accepting is None:
            self._socket.close()
        else:
            accepting.cancel()
            accepting.add_done_callback(self._abandon)  # the event loop watches the socket until then
        with contextlib.suppress(FileNotFoundError):
            (self.folder / container_main.SOCKET_NAME).unlink()
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()

    def _abandon(self, accepting: asyncio.Task[tuple[socket.socket, object]]) -> None:
        self._socket.close()
        if not accepting.cancelled() and accepting.exception() is None:
            accepting.result()[0].close()


async def _accept(listening: socket.socket) -> tuple[socket.socket, object]:
    return await asyncio.get_running_loop().sock_accept(listening)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
