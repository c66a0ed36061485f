"""Images of this host's programs with a different Python, made from an interpreter installed on this host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.rootfs.store import cache_folder

OLDEST_PYTHON = (3, 9)
"""The oldest Python that an image may have: the guest runs on the image's Python."""
PROGRAMS = (
    "sh bash cat chmod cmp comm cp cut date dd diff dirname basename echo env expr false find fold git grep gzip head "
    "id install join kill less link ln ls make md5sum mkdir mkfifo mktemp mv nl nohup nproc od paste patch printf ps "
    "pwd readlink realpath rm rmdir sed seq setsid sha256sum sleep sort split stat tac tail tar tee test timeout touch "
    "tr true truncate uname uniq wc which xargs yes awk"
)
SHARED = (
    "libstdc++.so.6 libgcc_s.so.1 libgomp.so.1 libz.so.1 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1 libm.so.6"
)
"""Shared libraries that wheels may rely on. Source: PEP 600."""
DATA = ("/usr/share/zoneinfo", "/usr/share/git-core/templates")
_UNUSED = (
    "test tests idlelib tkinter turtledemo lib2to3 ensurepip site-packages dist-packages config-* __pycache__ *.a "
    "pydoc_data"
)
_ASK = (
    "import json, os, sys, sysconfig; "
    "print(json.dumps(['%d.%d' % sys.version_info[:2], os.path.realpath(sys.executable), "
    "sysconfig.get_path('stdlib')]))"
)
_INSTALLED = (  # below the home folder
    ".pyenv/versions/{python}.*/bin/python{python}",
    ".local/share/uv/python/cpython-{python}.*/bin/python{python}",
    "*conda*/envs/*/bin/python{python}",
)


def find_interpreter(python: str) -> Path | None:
    """Return a Python of this version, such as 3.9, that runs on this host: from the PATH, pyenv, uv or conda."""
    paths = [Path(on_path)] if (on_path := shutil.which(f"python{python}")) else []
    for pattern in _INSTALLED:
        paths += sorted(Path.home().glob(pattern.format(python=python)), reverse=True)
    for path in paths:
        answer = _ask(path)
        if answer and answer[0] == python:
            return Path(answer[1])
    return None


def make_python_image(python: str, interpreter: Path | None = None) -> Path:
    """Put an image named python<version> into the cache, unless it is there.

    It has the interpreter, its standard library, a shell, git and the usual programs of this host. Returns: its folder.

    Args:
        python: the version, such as 3.9. `interpreter`: the interpreter to copy; by default one that is found.
    Raises: SandboxUnavailable if no such interpreter runs here, or the version is older than a sandbox can have.
    """
    target = cache_folder() / "images" / f"python{python}"
    if target.exists():
        return target
    if not re.fullmatch(r"\d+\.\d+", python):
        raise SandboxUnavailable(f"{python!r} is not a Python version. Give two numbers, such as 3.9.")
    if tuple(map(int, python.split("."))) < OLDEST_PYTHON:
        raise SandboxUnavailable(
            f"Python {python} is too old for a sandbox. Choose {'.'.join(map(str, OLDEST_PYTHON))} or newer."
        )
    path = interpreter or find_interpreter(python)
    answer = _ask(path) if path else None
    if answer is None or answer[0] != python:
        other = answer[0] if answer else "no Python that runs"
        raise SandboxUnavailable(
            f"An image with Python {python} needs an interpreter of this version, and "
            f"{f'{interpreter} is {other}' if interpreter else 'none was found here'}. Install one (for example "
            f"`uv python install {python}` or `pyenv install {python}`), and repeat the command, or name it: "
            f"`agentgym sandbox image {python} --interpreter PATH`."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=cache_folder()) as scratch:
        folder = write_python_image(Path(scratch) / "root", answer[1])
        try:
            folder.rename(target)
        except OSError:  # another process was faster
            if not target.exists():
                raise
    return target


def write_python_image(
    folder: Path,
    interpreter: str,
    *,
    programs: str = PROGRAMS,
    data: Sequence[str] = DATA,
    name: str = "Programs of a host",
) -> Path:
    """Write a root file system with host programs and an interpreter, at /usr/bin/python3 and under its own prefix.

    Args:
        programs: names separated by blanks. `data`: folders. Anything missing on this host is left out.
        name: the name in /etc/os-release.
    Returns: the folder.
    Raises: SandboxUnavailable if the interpreter does not run.
    """
    answer = _ask(Path(interpreter))
    if answer is None:
        raise SandboxUnavailable(
            f"{interpreter} is not a Python that runs on this machine. Give the path of another interpreter."
        )
    version, real, library = answer
    for part in ("usr/bin", "etc", "opt"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "bin").symlink_to("usr/bin")
    _copy(real, folder)
    unused = shutil.ignore_patterns(*_UNUSED.split())
    shutil.copytree(library, folder / library[1:], symlinks=True, ignore=unused, dirs_exist_ok=True)
    for command in ("python", "python3", f"python{version}"):
        if not (folder / "usr/bin" / command).exists():
            (folder / "usr/bin" / command).symlink_to(real)
    binaries = [real, *(str(path) for path in Path(library).glob("lib-dynload/*.so"))]
    for command in programs.split():
        program = shutil.which(command, path="/usr/bin:/bin")
        if program is not None:
            shutil.copy2(os.path.realpath(program), folder / "usr/bin" / command)
            binaries.append(program)
    for needed in sorted(libraries_of(binaries)):
        _copy(needed, folder)
    for path in filter(os.path.isdir, data):
        shutil.copytree(path, folder / path[1:], symlinks=True, dirs_exist_ok=True)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/os-release").write_text(f'NAME="{name}, Python {version}"\n')
    return folder


def _ask(interpreter: Path) -> tuple[str, str, str] | None:
    """Return the version, path and standard library of an interpreter; None if it does not run."""
    try:
        output = subprocess.run([interpreter, "-S", "-E", "-c", _ASK], capture_output=True, check=True, timeout=60)
        version, real, library = json.loads(output.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return version, real, library


def libraries_of(binaries: list[str]) -> set[str]:
    """Return the shared libraries that programs load, and those that wheels may rely on."""
    listing = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    paths = set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listing, re.MULTILINE))
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    for name in SHARED.split():
        paths.update(re.findall(rf"^\s+{re.escape(name)} \([^)]*\) => (\S+)", known, re.MULTILINE)[:1])
    return paths


def _copy(path: str, folder: Path) -> None:
    target = folder / path[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)
