"""Packs a folder of pages, or of an application, as a zip."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from functools import lru_cache
from pathlib import Path

from agentgym import TaskError

_MAX_ARCHIVE = 64 * 2**20
_CACHED = 64  # how many archives stay in memory: a task set may have one folder per task
_LINK = (stat.S_IFLNK | 0o777) << 16


def folder_archive(folder: str, *, left_out: str = "", links: bool = False) -> bytes:
    """Pack a folder as a zip, with empty folders and file modes. Packs again only when a file has changed.

    Args:
        left_out: files whose path begins with this are left out, for example "flight/".
        links: keep symbolic links that lead into the folder. Other links to files are always followed; links to
            folders elsewhere are left out.
    Raises: TaskError if the folder does not exist or is too large.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        where = "" if Path(folder).is_absolute() else f" in {Path.cwd()}"
        raise TaskError(f"The folder {folder!r} does not exist{where}.")
    entries = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        target = path.resolve() if path.is_symlink() else path
        kept_link = links and target != path and target.is_relative_to(root) and target.exists()
        if (left_out and name.startswith(left_out)) or not (kept_link or path.is_file() or _is_empty(path)):
            continue
        status = target.stat()
        link = os.path.relpath(target, path.parent) if kept_link else ""
        entries.append((name, link, status.st_mode, status.st_mtime_ns, status.st_size))
    return _packed(root, tuple(entries))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


@lru_cache(_CACHED)
def _packed(root: Path, entries: tuple[tuple[str, str, int, int, int], ...]) -> bytes:
    """Zip the files, each given as name, link target, mode, modification time, size."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, link, mode, _, _ in entries:
            if link:
                info, content = zipfile.ZipInfo(name), link.encode()
                info.external_attr = _LINK
            elif stat.S_ISDIR(mode):
                info, content = zipfile.ZipInfo(f"{name}/"), b""
                info.external_attr = mode << 16
            else:
                info, content = zipfile.ZipInfo(name), (root / name).read_bytes()
                info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
            if packed.tell() > _MAX_ARCHIVE:
                raise TaskError(f"The folder {str(root)!r} is larger than {_MAX_ARCHIVE >> 20} MiB, packed.")
    return packed.getvalue()
