"""Where host and guest meet: a socket in a directory that the container is shown, and the guest's own sources."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path

from agentgym.sandbox.docker.owner import Owner
from agentgym.sandbox.guest import container_main

_GUEST = Path(container_main.__file__).parent


class SocketDirectory:
    """This process's directory for meetings, with a copy of the guest that a container's root can read.

    Its name says whose it is, so that others can clean up after a process that was killed. It can be walked through
    but not listed, since a daemon that maps users is nobody here: names inside are secret.
    """

    def __init__(self, parent: Path) -> None:
        self.owner = Owner.this_process()
        self.path = Path(tempfile.mkdtemp(prefix=self.owner.folder_prefix, dir=parent))
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

    def close(self) -> None:
        """Remove the directory. May be called twice."""
        self._finalizer()


def _remove_ours(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked process leaves its parent's alone
        shutil.rmtree(path, ignore_errors=True)


class Rendezvous:
    """A socket in a directory of its own, for one guest to find. Nothing of it is left once the guest has come."""

    def __init__(self, directory: SocketDirectory) -> None:
        self.folder = directory.path / secrets.token_hex(16)
        self.folder.mkdir()
        self.folder.chmod(0o755)  # the container's root is not our user, and may not override permissions
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        with _opened(self.folder) as descriptor:  # a path of its own may be too long for a socket's address
            short = f"/proc/self/fd/{descriptor}/{container_main.SOCKET_NAME}"
            self._socket.bind(short)
            os.chmod(short, 0o666)
        self._socket.listen(1)

    async def guest(self, timeout_s: float) -> socket.socket:
        """The guest's connection. Raises: TimeoutError."""
        async with asyncio.timeout(timeout_s):
            connection, _ = await asyncio.get_running_loop().sock_accept(self._socket)
        return connection

    def close(self) -> None:
        """May be called twice. A guest that comes later finds nobody, and ends."""
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            (self.folder / container_main.SOCKET_NAME).unlink()
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
