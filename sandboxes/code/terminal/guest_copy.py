"""Runs inside the sandbox in which an image is built: lists, packs, unpacks and downloads files.

Standard library only: this file is sent to the sandbox unchanged.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import urllib.request

PIECE = 1 << 20
MAX_PATHS = 200_000


def is_folder(path: str) -> bool:
    """Tell whether a path is a folder or a link to one."""
    return os.path.isdir(path)


def paths(tops: list[str]) -> list[list[object]]:
    """Return [path, whether it is a folder] for all below some paths, themselves included. Links are not followed."""
    listed: list[list[object]] = []
    pending = [top for top in tops if os.path.lexists(top)]
    while pending and len(listed) < MAX_PATHS:
        path = pending.pop()
        folder = stat.S_ISDIR(os.lstat(path).st_mode)
        listed.append([path, folder])
        if folder and path not in ("/proc", "/sys", "/dev"):
            pending += [os.path.join(path, name) for name in os.listdir(path)]
    return listed


def pack(pairs: list[list[str]], archive: str) -> None:
    """Write an archive of files. `pairs`: the path of each, and its path in the archive."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for source, name in pairs:
            tar.add(source, name, recursive=False)


def unpack(archive: str, replaces: bool = False) -> None:
    """Unpack an archive at the root, and remove it. Whatever is there is replaced, but folders that exist stay.

    Args: `replaces`: whether the archive's topmost folders are replaced too.
    """
    with open(archive, "rb") as file:
        os.unlink(archive)
        with tarfile.open(fileobj=file, mode="r:") as tar:
            names = set(tar.getnames()) if replaces else set()
            for member in tar:
                if replaces and os.path.dirname(member.name) not in names:
                    _remove(f"/{member.name}")
                _put(tar, member)


def download(url: str, path: str, mode: int, checksum: str) -> str:
    """Download a file. Returns: why that failed; empty if it did not."""
    digest = hashlib.sha256()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, open(path, "wb") as file:
            while piece := answer.read(PIECE):
                digest.update(piece)
                file.write(piece)
    except OSError as error:
        return f"{error}"
    os.chmod(path, mode)
    actual = f"sha256:{digest.hexdigest()}"
    return "" if checksum in ("", actual) else f"its hash is {actual}, not {checksum}"


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    path = f"/{member.name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if member.isdir():
        if not os.path.isdir(path):
            _remove(path)
            os.mkdir(path)
            os.chmod(path, member.mode)
        return
    _remove(path)
    if member.issym():
        os.symlink(member.linkname, path)
    elif member.islnk():
        os.link(f"/{member.linkname}", path)
    else:
        content = tar.extractfile(member)
        if content is not None:
            with open(path, "wb") as file:
                shutil.copyfileobj(content, file, PIECE)
            os.chmod(path, member.mode)
            os.utime(path, (member.mtime, member.mtime))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
