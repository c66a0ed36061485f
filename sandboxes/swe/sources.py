"""Source distributions of packages by name and version, kept in agentgym's cache."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from pathlib import Path

from agentgym import TaskError
from agentgym.sandbox import cache_folder

from .pip import run_pip

UNBUILT = """import os
import shutil
import sys


def prepare_metadata_for_build_wheel(folder, settings=None):
    os.mkdir(os.path.join(folder, "package.dist-info"))
    shutil.copy("PKG-INFO", os.path.join(folder, "package.dist-info", "METADATA"))
    return "package.dist-info"


__legacy__ = sys.modules[__name__]
"""
"""Replaces `setuptools.build_meta` while pip downloads. A source distribution already has its metadata, so its build
need not run; old ones could not run with current build tools.
"""
PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)")


def cache() -> Path:
    """Return the folder `sources` of agentgym's cache."""
    return cache_folder() / "sources"


def archive(pinned: str) -> Path | None:
    """Return the archive of `name==version` in the cache; None if it is not there, or the text names no package."""
    match = PINNED.fullmatch(pinned)
    return next(iter(cache().glob(f"{_normal(match[1])}=={match[2]}.tar.*")), None) if match else None


def fetch(pinned: str, sha256: str = "") -> Path:
    """Download the source distribution of `name==version` with pip, unless it is in the cache. None of its code is run,
    unless it is built with a tool other than setuptools, because pip asks that tool for the package's name.

    Raises: TaskError if it cannot be downloaded, or its hash is not `sha256`.
    """
    match = PINNED.fullmatch(pinned)
    if match is None:
        raise TaskError(f"{pinned!r} is not a package with a version. Write name==version.")
    path = archive(pinned)
    if path is None:
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as folder:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder]
            command += ["--no-binary", match[1]]  # nothing else: packages that its build needs may come as wheels
            stub = Path(folder, "stub", "setuptools")
            stub.mkdir(parents=True)
            (stub / "__init__.py").touch()
            (stub / "build_meta.py").write_text(UNBUILT)
            unbuilt = [*command, "--use-pep517", "--no-build-isolation", pinned]
            error = run_pip(unbuilt, {"PYTHONPATH": str(stub.parent)}) and run_pip([*command, pinned])
            archives = sorted(Path(folder).glob("*.tar.*"))
            if error or len(archives) != 1:
                raise TaskError(f"pip cannot download the source of {pinned}: {error}")
            suffix = "".join(Path(archives[0].name[len(match[1]) :]).suffixes[-2:])
            path = cache() / f"{_normal(match[1])}=={match[2]}{suffix}"
            archives[0].replace(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if sha256 and digest != sha256:
        raise TaskError(
            f"{path} has the SHA-256 {digest}, but {sha256} was expected. Remove the file, and check where it came "
            "from."
        )
    return path


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
