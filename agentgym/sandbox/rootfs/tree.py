"""Unpacks a root file system into a folder. No archive can make this code touch anything outside the folder.

Every path is resolved inside the folder, as if the folder were the root of the machine (openat2), and its last
component is never followed. Everyone gets the permissions that user 1000 would have in the image, so that a tree looks
the same from every sandbox, whichever user unpacked it. Set-user-id bits, device nodes, pipes, sockets and extended
attributes are left out.

Hand-written, because tarfile's filters know neither whiteouts nor a root directory for symbolic links.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from agentgym.errors import SandboxError
from agentgym.sandbox.guest import kernel
from agentgym.sandbox.guest.root import AGENT_ID

MAX_BYTES = 64 * 2**30
_FREE_BYTES, _MAX_RATIO = 256 * 2**20, 50  # unpacked size allowed for any image; maximum ratio to its packed size
MAX_ENTRIES = 4_000_000
_MAX_DEPTH = 128
_PIECE = 1 << 20
_MAX_GLOBAL_HEADERS = 64
_NEWEST_S = 2**33  # the year 2242; later times are errors of an archive
_WHITEOUT, _OPAQUE_WHITEOUT, _AUFS_PRIVATE = (
    ".wh.",
    ".wh..wh..opq",
    ".wh..wh.",
)  # see the OCI image specification
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY

Parts = tuple[str, ...]


class ImageError(SandboxError):
    """An image cannot be used. The message says what is wrong, and where."""


_MISSING_ERRORS = (OSError, ImageError)


def max_unpacked_bytes(image: Path) -> int:
    """Return the unpacked size allowed for an image, by its bytes on disk: a small file must not fill the disk."""
    if image.is_file():
        own_bytes = image.stat().st_size
    else:
        files = (Path(folder, name) for folder, _, names in os.walk(image) for name in names)
        own_bytes = sum(file.lstat().st_blocks * 512 for file in files)  # the space on disk, so that holes do not count
    return min(_FREE_BYTES + _MAX_RATIO * own_bytes, MAX_BYTES)


class RootfsTree:
    """A folder being filled. `finish` sets the modes and times of directories, which must come last."""

    def __init__(
        self, folder: Path, mode_of: Callable[[int, int, int], int] | None = None, *, max_bytes: int = MAX_BYTES
    ) -> None:
        """
        Args:
            mode_of: maps the mode, user and group of an archive's file to its permissions; see `agent_mode`.
            max_bytes: limit on the total of all files; see `max_unpacked_bytes`.
        """
        self.mode_of, self._max_bytes = mode_of or agent_mode, max_bytes
        self._root = os.open(folder, _DIRECTORY | os.O_CLOEXEC)
        self._modes: dict[Parts, tuple[int, float]] = {}
        self._parent: tuple[Parts, int] | None = (
            None  # the last parent opened, because archives list the files of a folder together
        )
        self._fresh: set[Parts] = set()  # paths written by the current layer, which its own whiteouts do not remove
        self.entries = self.bytes = 0

    # Files

    def directory(self, path: Parts, mode: int = 0o755, time_s: float = 0.0) -> None:
        """Create a directory, or reuse the existing one."""
        if path:
            parent = self._open_parent(path)
            if not self._is_directory(parent, path[-1]):
                self._remove(path)
                os.mkdir(path[-1], 0o700, dir_fd=parent)
        self._count_entry(path)
        self._modes[path] = (mode if path else 0o555, time_s)  # the root may still have the mode of a temporary folder

    def file(self, path: Parts, content: BinaryIO, size: int, mode: int = 0o644, time_s: float = 0.0) -> None:
        """Write a regular file of exactly `size` bytes."""
        if size < 0:
            raise ImageError(
                f"{_quoted(path)} claims a size of {size} bytes, so the archive is damaged. Save the image again."
            )
        parent = self._replace(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(path[-1], flags, 0o600, dir_fd=parent), "wb") as out:
            while size:
                piece = content.read(min(size, _PIECE))
                if not piece:
                    raise ImageError(
                        f"{_quoted(path)} ends {size} bytes too early, so the archive is incomplete. Save the image "
                        "again."
                    )
                self.bytes += len(piece)
                if self.bytes > self._max_bytes:
                    raise ImageError(
                        f"The image unpacks to more than {self._max_bytes / 2**30:.3g} GiB. Allowed are "
                        f"{_FREE_BYTES >> 20} MiB plus {_MAX_RATIO} times its packed size, and at most "
                        f"{MAX_BYTES >> 30} GiB. If you trust the image, unpack it into a folder, and give that folder."
                    )
                size -= len(piece)
                out.write(piece)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.utime(out.fileno(), (time_s, time_s))

    def symlink(self, path: Parts, target: str) -> None:
        """Create a symbolic link. It is resolved inside the sandbox, never here."""
        os.symlink(target, path[-1], dir_fd=self._replace(path))

    def link(self, path: Parts, target: Parts) -> None:
        """Create a hard link to an existing file."""
        if not target:
            raise ImageError(f"{_quoted(path)} is a hard link without a target.")
        parent = os.dup(self._replace(path))
        try:
            source = self._open_parent(target)
            if self._is_directory(source, target[-1]):
                raise ImageError(
                    f"{_quoted(path)} is a hard link to {_quoted(target)}, which is a directory. Only files can be "
                    "linked."
                )
            os.link(target[-1], path[-1], src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError as error:
            raise ImageError(f"{_quoted(path)} is a hard link to {_quoted(target)}, which does not exist.") from error
        finally:
            os.close(parent)

    # Layers

    def apply(self, layer: tarfile.TarFile) -> None:
        """Unpack a layer: its files replace files of lower layers, its whiteouts remove them.

        Raises: ImageError for a path that leads out of the tree, and for anything that does not belong in an image.
        """
        self._fresh.clear()
        for member in members(layer):
            self._apply(layer, member)

    def _apply(self, layer: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = split(member.name)
        mode = self.mode_of(member.mode, member.uid, member.gid)
        time_s = float(member.mtime) if 0 <= member.mtime <= _NEWEST_S else 0.0
        if path and path[-1].startswith(_WHITEOUT):
            self._apply_whiteout(path)
        elif member.isdir():
            self.directory(path, mode, time_s)
        elif not path:
            raise ImageError(
                f"The entry {member.name!r:.200} stands for the root of the image, but is not a directory."
            )
        elif member.isfile():
            content = layer.extractfile(member)
            assert content is not None
            self.file(path, cast(BinaryIO, content), member.size, mode, time_s)
        elif member.issym():
            self.symlink(path, member.linkname)
        elif member.islnk():
            self.link(path, split(member.linkname))

    def _apply_whiteout(self, path: Parts) -> None:
        name = path[-1]
        if name == _OPAQUE_WHITEOUT:
            self._remove_stale(path[:-1])
        elif not name.startswith(_AUFS_PRIVATE):
            hidden = (*path[:-1], name.removeprefix(_WHITEOUT))
            if hidden[-1] in ("", ".", ".."):
                raise ImageError(f"The whiteout {_quoted(path)} does not name the file that it removes.")
            if hidden not in self._fresh:
                self._remove(hidden)

    def _remove_stale(self, folder: Parts) -> None:
        """Remove the files of lower layers from a folder."""
        try:
            descriptor = self._open(folder, _DIRECTORY)
        except FileNotFoundError:
            return
        try:
            names = [(name, self._is_directory(descriptor, name)) for name in os.listdir(descriptor)]
        finally:
            os.close(descriptor)
        for name, is_directory in names:
            path = (*folder, name)
            if path not in self._fresh:
                self._remove(path)
            elif is_directory:
                self._remove_stale(path)

    # Reading and finishing the tree

    def read(self, path: Parts, most: int) -> bytes | None:
        """Return a regular file's content; None if there is no such file of at most `most` bytes."""
        try:
            descriptor = self._open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except _MISSING_ERRORS:
            return None
        with open(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            return file.read(most) if stat.S_ISREG(status.st_mode) and status.st_size <= most else None

    def names(self, path: Parts) -> list[str] | None:
        """Return the names in a directory; None if there is no such directory."""
        try:
            descriptor = self._open(path, _DIRECTORY | os.O_NOFOLLOW)
        except _MISSING_ERRORS:
            return None
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def exists(self, path: Parts) -> bool:
        """Return whether there is anything of this name, even a dangling link."""
        try:
            os.lstat(path[-1], dir_fd=self._open_parent(path, make=False))
        except _MISSING_ERRORS:
            return False
        return True

    def finish(self) -> None:
        """Set the modes and times of the directories, the deepest first."""
        for path, (mode, time_s) in sorted(self._modes.items(), key=lambda item: -len(item[0])):
            try:
                descriptor = self._open(path, _DIRECTORY | os.O_NOFOLLOW)
            except _MISSING_ERRORS:
                continue  # a later layer replaced it
            os.fchmod(descriptor, mode)
            os.utime(descriptor, (time_s, time_s))
            os.close(descriptor)

    def close(self) -> None:
        """Close the folder."""
        self._forget_parent()
        os.close(self._root)

    # Paths

    def _open(self, path: Parts, flags: int) -> int:
        try:
            return kernel.open_beneath(self._root, "/".join(path) or ".", flags, resolve=kernel.RESOLVE_IN_ROOT)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG):
                raise ImageError(f"{_quoted(path)} cannot be reached inside the image: {error.strerror}.") from error
            raise

    def _open_parent(self, path: Parts, *, make: bool = True) -> int:
        """Return a descriptor of a path's directory. The descriptor stays owned by this object."""
        folder = path[:-1]
        if self._parent is not None and self._parent[0] == folder:
            return self._parent[1]
        try:
            descriptor = self._open(folder, _DIRECTORY)
        except FileNotFoundError:
            if not make or not folder:
                raise
            above = self._open_parent(folder)
            if stat.S_ISLNK(_mode(above, folder[-1])):
                raise ImageError(f"{_quoted(path)} is below {_quoted(folder)}, which is a link to nothing.") from None
            os.mkdir(folder[-1], 0o700, dir_fd=above)
            self._count_entry(folder)
            self._modes[folder] = (0o755, 0.0)
            descriptor = self._open(folder, _DIRECTORY)
        self._forget_parent()
        self._parent = (folder, descriptor)
        return descriptor

    def _forget_parent(self) -> None:
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None

    def _replace(self, path: Parts) -> int:
        """Make room for a new entry. Returns: a descriptor of its directory, owned by this object."""
        self._remove(path)
        self._count_entry(path)
        return self._open_parent(path)

    def _remove(self, path: Parts) -> None:
        if not path:
            raise ImageError("An archive of the image replaces or removes the root itself.")
        try:
            parent = self._open_parent(path, make=False)
            mode = os.lstat(path[-1], dir_fd=parent).st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(mode):
            os.unlink(path[-1], dir_fd=parent)
            return
        shutil.rmtree(path[-1], dir_fd=parent)
        self._forget_parent()  # the cached parent may have been below

    def _count_entry(self, path: Parts) -> None:
        for count in range(len(path), 0, -1):
            if path[:count] in self._fresh:
                break
            self._fresh.add(path[:count])
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise ImageError(f"The image has more than {MAX_ENTRIES} files and directories, which is the limit.")

    @staticmethod
    def _is_directory(parent: int, name: str) -> bool:
        return stat.S_ISDIR(_mode(parent, name))


def members(layer: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the entries of an archive. tarfile's own loop would keep them all in memory."""
    while (member := layer.next()) is not None:
        yield member
        layer.members = []  # type: ignore[attr-defined]  # typeshed does not know it
        if len(layer.pax_headers) > _MAX_GLOBAL_HEADERS:
            raise ImageError(
                f"An archive of the image has more than {_MAX_GLOBAL_HEADERS} global headers, which is the limit."
            )


def split(name: str) -> Parts:
    """Return the components of a path in an archive. Raises: ImageError if it contains `..`, or is invalid."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in name or len(parts) > _MAX_DEPTH:
        raise ImageError(f"The image contains the path {name!r:.200}, which is invalid or leads out of the image.")
    return parts


def agent_mode(mode: int, user: int, group: int) -> int:
    """Return the mode of a file of the image: everyone gets the agent's permissions, but no user may write."""
    allowed = mode >> 6 if user == AGENT_ID else mode >> 3 if group == AGENT_ID else mode
    return (allowed & 0o5) * 0o111


def _mode(parent: int, name: str) -> int:
    try:
        return os.lstat(name, dir_fd=parent).st_mode
    except FileNotFoundError:
        return 0


def _quoted(path: Parts) -> str:
    return repr("/" + "/".join(path))[:200]
