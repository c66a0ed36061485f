"""The forms of an image; each is read as a digest, a configuration, and layers to unpack into a tree.

A root file system: a folder, or a tar of one (`docker export`). An OCI image layout, or the output of `docker save`:
again a folder or a tar. Archives may be compressed with gzip, bzip2 or xz. An image's metadata is bounded in size and
checked against its digests.

Hand-written instead of skopeo and umoci: no other program needs to be installed, and a hostile image can reach nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from agentgym.sandbox.guest import kernel
from agentgym.sandbox.rootfs.archive import first_names, unpack_archive
from agentgym.sandbox.rootfs.tree import ImageError, Parts, RootfsTree, agent_mode, max_unpacked_bytes

_MAX_JSON = 4 << 20
_MAX_LAYERS = 256
_MAX_NESTING = 4
_PIECE = 1 << 20
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class ImageSource(Protocol):
    """An image as found, not unpacked.

    `digest`: the hash of its content; `environment`: the variables that it sets for its programs.
    """

    digest: str
    environment: dict[str, str]

    def fill(self, tree: RootfsTree) -> None:
        """Unpack the image. Raises: ImageError if its digest is wrong, or if it is not an image at all."""


def open_source(path: Path, scratch: Path) -> ImageSource:
    """Find out the form of an image, read its configuration, and hash the image if it comes without a digest.

    Args:
        scratch: an empty folder for the content of a packed layout; it must exist until the source is unpacked.
    Raises: ImageError if the path is not an image; OSError if it cannot be read.
    """
    if path.is_file():
        if not any(name in ("oci-layout", "manifest.json") or name.startswith("blobs/") for name in first_names(path)):
            return TarballImage(path)
        tree = RootfsTree(scratch, mode_of=lambda *_: 0o700, max_bytes=max_unpacked_bytes(path))
        try:
            with open(path, "rb") as file:
                unpack_archive(tree, file)
            tree.finish()
        finally:
            tree.close()
        return _read_layout(scratch, path)
    if any((path / name).is_file() for name in ("oci-layout", "manifest.json")):
        return _read_layout(path, path)
    return FolderImage(path)


@dataclass
class FolderImage:
    """A root file system in a folder, as debootstrap makes."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        if not any((self.path / name).is_dir() for name in ("usr", "bin", "lib")):
            raise ImageError(
                f"{self.path} is not a root file system: it has no folder usr, bin or lib. Give a folder with the "
                "files of a Linux system, an OCI image layout, or a tar of either (docker export, docker save)."
            )
        total = hashlib.sha256()
        for parts, status, where in self._walk():
            mode = agent_mode(status.st_mode, status.st_uid, status.st_gid)
            name = os.fsencode("/".join(parts))
            total.update(b"%o %o %d %d %s" % (stat.S_IFMT(status.st_mode), mode, status.st_size, len(name), name))
            if stat.S_ISLNK(status.st_mode):
                total.update(os.fsencode(os.readlink(where)))
            elif stat.S_ISREG(status.st_mode):
                with open(where, "rb") as file:
                    while piece := file.read(_PIECE):
                        total.update(piece)
        self.digest = f"sha256:{total.hexdigest()}"

    def fill(self, tree: RootfsTree) -> None:
        """Copy the folder, without file systems mounted in it. Hard links stay hard links."""
        first_paths: dict[tuple[int, int], Parts] = {}
        for parts, status, where in self._walk():
            mode = tree.mode_of(status.st_mode, status.st_uid, status.st_gid)
            if stat.S_ISDIR(status.st_mode):
                tree.directory(parts, mode, status.st_mtime)
            elif stat.S_ISLNK(status.st_mode):
                tree.symlink(parts, os.readlink(where))
            elif (status.st_dev, status.st_ino) in first_paths:
                tree.link(parts, first_paths[status.st_dev, status.st_ino])
            else:
                with open(where, "rb") as file:
                    tree.file(parts, file, status.st_size, mode, status.st_mtime)
                if status.st_nlink > 1:
                    first_paths[status.st_dev, status.st_ino] = parts

    def _walk(self) -> Iterator[tuple[Parts, os.stat_result, str]]:
        """Yield everything but devices, pipes, sockets and other file systems; folders before their content."""
        device = os.stat(self.path).st_dev
        pending: list[tuple[Parts, str]] = [((), str(self.path))]
        while pending:
            parts, where = pending.pop()
            status = os.lstat(where) if parts else os.stat(where)
            kind = stat.S_IFMT(status.st_mode)
            if status.st_dev != device or kind not in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
                continue
            yield parts, status, where
            if kind == stat.S_IFDIR:
                names = sorted(os.listdir(where), reverse=True)
                pending += [((*parts, name), f"{where}/{name}") for name in names]


@dataclass
class TarballImage:
    """A root file system in one archive, as `docker export` writes."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        with open(self.path, "rb") as file:
            self.digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    def fill(self, tree: RootfsTree) -> None:
        """Unpack the archive."""
        with open(self.path, "rb") as file:
            unpack_archive(tree, file, blob_digest=self.digest)


@dataclass
class LayeredImage:
    """An image of layers; each is an archive to unpack over the previous ones."""

    digest: str
    environment: dict[str, str]
    layers: list[tuple[Callable[[], BinaryIO], str, str]]  # opener; digest of the bytes; digest of the archive inside

    def fill(self, tree: RootfsTree) -> None:
        """Unpack every layer in order, and check its digest."""
        for opened, blob_digest, archive_digest in self.layers:
            with opened() as file:
                unpack_archive(tree, file, blob_digest=blob_digest, archive_digest=archive_digest)


class _Layout:
    """A folder of blobs. Refuses paths that lead out of the folder."""

    def __init__(self, folder: Path, display_path: Path) -> None:
        self.folder, self.display_path = folder, display_path

    def open(self, name: str) -> BinaryIO:
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            descriptor = kernel.open_beneath(folder, name, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            raise ImageError(
                f"{self.display_path} refers to {name!r:.120}, which it does not contain ({error.strerror}). Save the "
                "image again."
            ) from error
        finally:
            os.close(folder)
        return open(descriptor, "rb")

    def blob(self, digest: str) -> BinaryIO:
        return self.open(f"blobs/{digest.replace(':', '/')}")

    def content(self, name: str, digest: str = "") -> bytes:
        """Return the content of a small file, checked against its digest."""
        with self.open(name) as file:
            data = file.read(_MAX_JSON + 1)
        if len(data) > _MAX_JSON:
            raise ImageError(
                f"{name} in {self.display_path} is larger than {_MAX_JSON >> 20} MiB, which is the limit for such a "
                "file."
            )
        if digest and f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            raise ImageError(
                f"{name} in {self.display_path} is damaged or was changed: its digest does not match. Save the image "
                "again."
            )
        return data


def _read_layout(folder: Path, display_path: Path) -> LayeredImage:
    layout = _Layout(folder, display_path)
    try:
        return _read_oci_layout(layout) if (folder / "oci-layout").is_file() else _read_docker_save(layout)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError) as error:
        raise ImageError(f"{display_path} is not an image layout ({type(error).__name__}: {error!s:.200}).") from error


def _read_oci_layout(layout: _Layout) -> LayeredImage:
    document, digest = json.loads(layout.content("index.json")), ""
    for _ in range(_MAX_NESTING):
        if "manifests" not in document:
            break
        digest = _digest_for_this_platform(document["manifests"], layout)
        document = json.loads(layout.content(f"blobs/{digest.replace(':', '/')}", digest))
    config_digest = _check_digest(document["config"]["digest"])
    config = json.loads(layout.content(f"blobs/{config_digest.replace(':', '/')}", config_digest))
    layers = [_check_digest(layer["digest"]) for layer in document["layers"]]
    return LayeredImage(
        digest,
        _environment(config),
        [(_make_opener(layout.blob, digest), digest, "") for digest in _check_layer_count(layers)],
    )


def _read_docker_save(layout: _Layout) -> LayeredImage:
    images = json.loads(layout.content("manifest.json"))
    if len(images) != 1:
        raise ImageError(f"{layout.display_path} contains {len(images)} images. Save exactly one.")
    data = layout.content(str(images[0]["Config"]))
    config = json.loads(data)
    names, digests = (
        [str(name) for name in images[0]["Layers"]],
        [_check_digest(d) for d in config["rootfs"]["diff_ids"]],
    )
    layers = [
        (_make_opener(layout.open, name), "", digest)
        for name, digest in zip(_check_layer_count(names), digests, strict=True)
    ]
    return LayeredImage(f"sha256:{hashlib.sha256(data).hexdigest()}", _environment(config), layers)


def _make_opener(opening: Callable[[str], BinaryIO], name: str) -> Callable[[], BinaryIO]:
    return lambda: opening(name)


def _check_layer_count(layers: list[str]) -> list[str]:
    if len(layers) > _MAX_LAYERS:
        raise ImageError(
            f"The image has {len(layers)} layers, but at most {_MAX_LAYERS} are allowed. Flatten it, for example with "
            "docker export."
        )
    return layers


def _digest_for_this_platform(manifests: list[dict[str, Any]], layout: _Layout) -> str:
    """Return from an index the digest of the image for this machine's architecture."""
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    digests = []
    for entry in manifests:
        target = entry.get("platform", {})
        if target.get("architecture", architecture) == architecture and target.get("os", "linux") == "linux":
            digests.append(_check_digest(entry["digest"]))
    if len(set(digests)) != 1:
        raise ImageError(
            f"{layout.display_path} contains {len(digests)} images for linux/{architecture}. Save exactly one."
        )
    return digests[0]


def _check_digest(digest: object) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageError(f"{digest!r:.120} is not a digest: expected 'sha256:' and 64 hexadecimal digits.")
    return digest


def _environment(config: dict[str, Any]) -> dict[str, str]:
    """Return the variables that the image sets. Invalid ones are left out."""
    variables = {}
    for line in (config.get("config") or {}).get("Env") or ():
        name, _, value = str(line).partition("=")
        if _VARIABLE.fullmatch(name) and "\0" not in value and len(value) <= 8192:
            variables[name] = value
    return dict(list(variables.items())[:256])
