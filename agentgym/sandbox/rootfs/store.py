"""Root file systems for sandboxes: found by path or name, unpacked once, and stored by content.

    <cache>/images/NAME[.tar...]     images by name: a folder, an archive, or a link to one
    <cache>/roots/FORMAT/DIGEST/     an unpacked image: image.json, and the tree under root/
    <cache>/roots/root-FORMAT/DIGEST/  the same for a writable root, with the modes that root sees. If image.json names
                                     images below, the tree is an overlay's layer over theirs
    <cache>/roots/FORMAT/seen/       the digest of each file that was hashed, so that it is hashed once

The cache is $AGENTGYM_CACHE, else agentgym/ in $XDG_CACHE_HOME or ~/.cache. Only its owner can enter roots/. An entry
gets its name when it is complete, so a process killed while unpacking leaves nothing that is ever used. A folder in
roots/ may be deleted when no sandbox uses it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.contract import Snapshot
from agentgym.sandbox.guest.archive import unpack
from agentgym.sandbox.guest.root import AGENT_ID, ETC, MOUNT_POINTS
from agentgym.sandbox.host.trees import merged
from agentgym.sandbox.rootfs.sources import ImageSource, open_source
from agentgym.sandbox.rootfs.tree import ImageError, RootfsTree, max_unpacked_bytes

HOST_IMAGE = "host"
_FORMAT, _ROOT_FORMAT = "1", "root-1"  # format of unpacked trees; a new format gets a new folder
_DIGEST = "sha256:"
MAX_IMAGE_LAYERS = 48
_ENDINGS = ("", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_SETTLED_NS = 2_000_000_000  # a younger file may change again without a change of its time stamp
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class RootFilesystem:
    """A root file system ready for use.

    Attributes:
        digest: the hash of the image as found, not of the unpacked tree. root: the unpacked tree.
        below: for an image of layers, the folders of the layers below `root`, beside it in the cache, the lowest first.
    """

    digest: str
    root: Path
    environment: tuple[tuple[str, str], ...]
    below: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the names of the folders of all layers, the lowest first."""
        return (*self.below, self.root.parent.name)

    @property
    def trees(self) -> tuple[Path, ...]:
        """Return the unpacked trees of all layers, the lowest first."""
        return tuple(self.root.parents[1] / name / self.root.name for name in self.layers)


def prepare_rootfs(name: str, *, as_root: bool = False) -> RootFilesystem:
    """Find an image and unpack it, unless it is unpacked already. Takes seconds for a new image.

    Args:
        name: a path (if it contains a slash), a name in the cache's folder images/, or the digest of an image that
            `add_layer` made.
        as_root: for a writable root.
    Raises: SandboxUnavailable if there is no such image, or it is invalid.
    """
    if name.startswith(_DIGEST):
        roots = cache_folder() / "roots" / (_ROOT_FORMAT if as_root else _FORMAT)
        if rootfs := _find_unpacked(roots, name):
            return rootfs
        raise SandboxUnavailable(f"The image {name} is not in {roots}. Build it again.")
    path = locate(name)
    try:
        roots = _private_folder(cache_folder() / "roots" / (_ROOT_FORMAT if as_root else _FORMAT))
        stamp = _stamp(path)
        digest = _remembered_digest(roots, path, stamp)
        if digest and (rootfs := _find_unpacked(roots, digest)):
            return rootfs
        with tempfile.TemporaryDirectory(prefix=".scratch-", dir=roots) as scratch:
            source = open_source(path, Path(scratch))
            image = _find_unpacked(roots, source.digest) or _unpack(
                roots, source, max_unpacked_bytes(path), as_root=as_root
            )
        _remember_digest(roots, path, stamp, image.digest)
        return image
    except ImageError as error:
        raise SandboxUnavailable(f"SandboxSpec.image = {name!r} cannot be used: {error}") from error
    except OSError as error:
        raise SandboxUnavailable(
            f"The image {name!r} cannot be unpacked in {cache_folder()} ({error}). Free some space there, or set "
            "AGENTGYM_CACHE to another folder."
        ) from error


def add_layer(below: RootFilesystem, snapshot: Snapshot, environment: Mapping[str, str]) -> RootFilesystem:
    """Keep what a sandbox with a writable root changed as a new image, which shares the files of the image below.

    Args:
        below: the image of the sandbox. snapshot: its changes to that image.
        environment: all variables of the new image's programs.
    Raises: SandboxUnavailable for more layers than a sandbox can mount, or if the cache is full; ValueError for a
        snapshot that is not over an image.
    """
    if not snapshot.over_image:
        raise ValueError("The snapshot is not of a sandbox with a writable root, so it cannot become an image.")
    if len(below.layers) >= MAX_IMAGE_LAYERS:
        raise SandboxUnavailable(f"The image has {MAX_IMAGE_LAYERS} layers already. Put several changes into one.")
    key = json.dumps([below.digest, [layer.digest for layer in snapshot.layers], sorted(environment.items())])
    digest = f"{_DIGEST}{hashlib.sha256(key.encode()).hexdigest()}"
    archives = [layer.data for layer in snapshot.layers]
    content = archives[0] if len(archives) == 1 else merged(archives, lowest=False)

    def fill(root: Path) -> None:
        unpack(io.BytesIO(content), as_layer=True, folder=str(root))

    try:
        return _keep(below.root.parents[1], digest, environment, fill, below.layers)
    except OSError as error:
        raise SandboxUnavailable(
            f"The layer of an image cannot be kept in {cache_folder()} ({error}). Free some space there, or set "
            "AGENTGYM_CACHE to another folder."
        ) from error


def locate(name: str) -> Path:
    """Return the path of an image. Raises: SandboxUnavailable, which lists the known names, for an unknown one."""
    if "/" in name:
        path = Path(name).expanduser().absolute()
        if path.exists():
            return path
        raise SandboxUnavailable(f"SandboxSpec.image = {name!r}: this file or folder does not exist. Check the path.")
    folder = cache_folder() / "images"
    for ending in _ENDINGS:
        if name not in ("", ".", "..") and (folder / (name + ending)).exists():
            return (folder / (name + ending)).resolve()
    raise SandboxUnavailable(
        f"SandboxSpec.image = {name!r}: no image has this name. Choose one of {', '.join([HOST_IMAGE, *names()])}, or "
        f"give a path. An image is '{HOST_IMAGE}' (this machine's own Python and programs), the path of a root file "
        f"system or OCI image layout (a folder or a tar), or the name of one in {folder}."
    )


def names() -> list[str]:
    """Return the names of the images in the cache, sorted."""
    image_names = set()
    with contextlib.suppress(FileNotFoundError):
        for entry in os.listdir(cache_folder() / "images"):
            image_names.add(
                next(entry.removesuffix(e) for e in sorted(_ENDINGS, key=len, reverse=True) if entry.endswith(e))
            )
    return sorted(image_names)


def cache_folder() -> Path:
    """Return agentgym's folder for files that can be recreated. This call does not create the folder."""
    if configured := os.environ.get("AGENTGYM_CACHE"):
        return Path(configured).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "agentgym"


def _unpack(roots: Path, source: ImageSource, max_bytes: int, *, as_root: bool) -> RootFilesystem:
    def fill(root: Path) -> None:
        tree = RootfsTree(root, (lambda mode, *_: mode & 0o1777) if as_root else None, max_bytes=max_bytes)
        try:
            source.fill(tree)
            _add_required_files(tree)
            tree.finish()
        finally:
            tree.close()

    return _keep(roots, source.digest, {"PATH": _PATH, **source.environment}, fill)


def _keep(
    roots: Path,
    digest: str,
    environment: Mapping[str, str],
    fill: Callable[[Path], None],
    below: tuple[str, ...] = (),
) -> RootFilesystem:
    """Fill the tree of an image in a temporary folder, and rename that. One process at a time does so for a digest."""
    final_folder, unpacking = roots / _folder_name(digest), roots / f".unpacking-{_folder_name(digest)}"
    with _locked(roots / f".lock-{_folder_name(digest)}"):
        if rootfs := _find_unpacked(roots, digest):
            return rootfs  # another process was faster
        _delete(unpacking)  # left by a process that was killed
        (unpacking / "root").mkdir(parents=True)
        try:
            fill(unpacking / "root")
            record = {"digest": digest, "environment": dict(environment), "below": below}
            (unpacking / "image.json").write_text(json.dumps(record, indent=1, sort_keys=True))
            os.sync()
            unpacking.rename(final_folder)
        except BaseException:
            _delete(unpacking)
            raise
    image = _find_unpacked(roots, digest)
    assert image is not None
    return image


def _add_required_files(tree: RootfsTree) -> None:
    """Add what every sandbox needs in its root: mount points, and the few files that programs read."""
    for name in ("etc", *MOUNT_POINTS):
        tree.directory(tuple(name.split("/")))
    if not tree.names(("var", "tmp")):
        with contextlib.suppress(ImageError):  # if var is a dangling link
            tree.symlink(("var", "tmp"), "/tmp")
    for name, text in ETC.items():
        content = tree.read(("etc", name), 1 << 20)
        if not content and not (content is None and tree.exists(("etc", name))):
            _put(tree, ("etc", name), text.encode())
    for name, line in (("passwd", ETC["passwd"]), ("group", ETC["group"])):
        content = tree.read(("etc", name), 1 << 20)
        if content is not None and f":{AGENT_ID}:".encode() not in content:
            ours = next(entry for entry in line.splitlines() if f":{AGENT_ID}:" in entry)
            _put(tree, ("etc", name), content.rstrip(b"\n") + f"\n{ours}\n".encode())


def _put(tree: RootfsTree, path: tuple[str, ...], content: bytes) -> None:
    tree.file(path, io.BytesIO(content), len(content), 0o444)


def _find_unpacked(roots: Path, digest: str) -> RootFilesystem | None:
    folder = roots / _folder_name(digest)
    try:
        record = json.loads((folder / "image.json").read_text())
        below = tuple(record.get("below", ()))
        return RootFilesystem(record["digest"], folder / "root", tuple(record["environment"].items()), below)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _folder_name(digest: str) -> str:
    return digest.replace(":", "-")


def _private_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(
            errno.EPERM, "the folder belongs to another user, so its content cannot be trusted", str(folder)
        )
    folder.chmod(0o700)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _delete(folder: Path) -> None:
    """Remove a tree, even if its folders are not writable."""
    if folder.exists():
        for path_text, _, _ in os.walk(folder):
            os.chmod(path_text, 0o700)
        shutil.rmtree(folder)


# Which file has which digest


def _stamp(path: Path) -> str:
    """Return a hash that changes with a file or anything in a folder; "" if it changed in the last two seconds."""
    total, newest = hashlib.sha256(), 0
    pending = [str(path)]
    while pending:
        path_text = pending.pop()
        status = os.stat(path_text) if path_text == str(path) else os.lstat(path_text)
        fields = (status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_size, status.st_mtime_ns)
        total.update(repr((path_text, *fields, status.st_ctime_ns)).encode("utf-8", "surrogateescape"))
        newest = max(newest, status.st_ctime_ns)
        if os.path.isdir(path_text) and not (os.path.islink(path_text) and path_text != str(path)):
            pending += [f"{path_text}/{name}" for name in sorted(os.listdir(path_text))]
    return "" if time.time_ns() - newest < _SETTLED_NS else total.hexdigest()


def _digest_note(roots: Path, path: Path) -> Path:
    return roots / "seen" / hashlib.sha256(os.fsencode(path)).hexdigest()


def _remembered_digest(roots: Path, path: Path, stamp: str) -> str:
    try:
        known_stamp, digest = _digest_note(roots, path).read_text().split()
    except (FileNotFoundError, ValueError):
        return ""
    return digest if stamp and known_stamp == stamp else ""


def _remember_digest(roots: Path, path: Path, stamp: str, digest: str) -> None:
    if stamp:
        note = _digest_note(roots, path)
        note.parent.mkdir(exist_ok=True)
        draft = note.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        draft.write_text(f"{stamp} {digest}\n")
        draft.replace(note)
