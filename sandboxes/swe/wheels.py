"""The packages of a task's environment: resolved once with pip, kept as wheels in agentgym's cache, unpacked offline.

    python -m agentgym.sandboxes.swe.wheels "flask==2.3.0" "pytest<8"

prints the lock: every package that these need, as name==version, for a task's `requirements`.
"""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath

from agentgym import TaskError
from agentgym.sandbox import cache_folder, rootfs

from .pip import run_pip
from .repository import Repository
from .sources import PINNED

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
MAX_FILES, MAX_BYTES = 100_000, 2**30
SITE, BIN = "site", "bin"
PYTEST = '#!/bin/sh\nexec python3 -m pytest "$@"\n'
SCRIPT = "#!/usr/bin/env python3\nimport sys\n\nfrom {module} import {first}\n\nsys.exit({attribute}())\n"


def cache(python: str = HERE) -> Path:
    """Return the folder of the wheels for a version of Python, such as 3.11."""
    return cache_folder() / "wheels" / python


def wheel(pinned: str, python: str = HERE) -> Path | None:
    """Return the wheel of `name==version` in the cache; None if it is not there, or the text names no package."""
    match = PINNED.fullmatch(pinned)
    if match is None:
        return None
    paths = sorted(cache(python).glob("*.whl"))
    return next((path for path in paths if _pinned(path) == f"{_normal(match[1])}=={match[2]}"), None)


def lock(requirements: Sequence[str], python: str = HERE, *, leave_out: str = "") -> list[str]:
    """Resolve requirements with pip, and keep the wheels of all that they need in the cache.

    Packages without a wheel are built from their source distributions, which runs their build on this host, as
    `pip install` does. For a version of Python without an interpreter on this host, only published wheels can be used.
    `leave_out`: the file name of a wheel that only carries requirements and is not kept.
    Raises: TaskError with pip's message.
    """
    if not requirements:
        return []
    folder = cache(python)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if interpreter := interpreter_of(python):
            command = [interpreter, "-m", "pip", "wheel", "--wheel-dir", scratch]
        else:
            command = [sys.executable, "-m", "pip", "download", "-d", scratch]
            command += ["--python-version", python, "--only-binary", ":all:"]
        command += ["--quiet", "--disable-pip-version-check", "--find-links", str(folder), *requirements]
        error = run_pip(command)
        wheels = sorted(Path(scratch).glob("*.whl"))
        if error or not wheels:
            raise TaskError(
                f"pip cannot provide {', '.join(requirements)} for Python {python}: {error} "
                "Give versions that have wheels, or whose build runs here."
            )
        wheels = [path for path in wheels if path.name != leave_out]
        for path in wheels:
            path.replace(folder / path.name)
        return sorted(_pinned(path) for path in wheels)


def interpreter_of(python: str) -> str | None:
    """Return an interpreter of a version, with pip: the running one or another on this host; None without one."""
    if python == HERE:
        return sys.executable
    path = rootfs.find_interpreter(python)
    if path is None or subprocess.run([path, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        return None
    return str(path)


@lru_cache(maxsize=16)
def environment(requirements: tuple[str, ...], python: str = HERE) -> Repository:
    """Return the files of an environment: `site`, for the import path, with the packages' metadata, and `bin`, with
    their commands.

    Without requirements, it has only the command `pytest`, which runs the pytest visible in the sandbox.
    Raises: TaskError for a package that is not in the cache, an invalid wheel, or more than 1 GiB.
    """
    if not requirements:
        return Repository({f"{BIN}/pytest": PYTEST.encode()}, frozenset({f"{BIN}/pytest"}))
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    for pinned in requirements:
        path = wheel(pinned, python)
        if path is None:
            raise TaskError(
                f"parameters['requirements'] has {pinned!r}, but the cache has no wheel of it for Python {python}. "
                f"Fetch it: python -m agentgym.sandboxes.swe.wheels --python {python} {pinned}."
            )
        try:
            with zipfile.ZipFile(path) as archive:
                _unpack(archive, files, executable)
        except (zipfile.BadZipFile, OSError, ValueError, configparser.Error) as error:
            raise TaskError(
                f"{path} is not a wheel that can be read: {error}. Remove it, and fetch it again."
            ) from error
        if len(files) > MAX_FILES or sum(map(len, files.values())) > MAX_BYTES:
            raise TaskError(
                f"The packages {', '.join(requirements)} have more than {MAX_FILES} files or 1 GiB, which is the limit."
            )
    return Repository(files, frozenset(executable))


def _unpack(archive: zipfile.ZipFile, files: dict[str, bytes], executable: set[str]) -> None:
    """Put a wheel's files where an installer would. Source: PEP 427."""
    for member in archive.infolist():
        parts = PurePosixPath(member.filename).parts
        if member.is_dir() or not parts or ".." in parts or member.filename.startswith("/"):
            continue
        if member.file_size > MAX_BYTES:
            raise ValueError(f"{member.filename} has {member.file_size} bytes, more than the limit")
        content = archive.read(member)
        if parts[0].endswith(".data") and len(parts) > 2:
            kind, rest = parts[1], "/".join(parts[2:])
            if kind == "scripts":
                files[f"{BIN}/{rest}"] = re.sub(rb"^#!python\w*", b"#!/usr/bin/env python3", content)
                executable.add(f"{BIN}/{rest}")
                continue
            path = f"{SITE}/{rest}" if kind in ("purelib", "platlib") else rest
        else:
            path = f"{SITE}/{'/'.join(parts)}"
        files[path] = content
        if parts[0].endswith(".dist-info") and parts[1:] == ("entry_points.txt",):
            for name, text in _commands(content.decode("utf-8")).items():
                files[f"{BIN}/{name}"] = text.encode()
                executable.add(f"{BIN}/{name}")


def _commands(entry_points: str) -> dict[str, str]:
    """Return the console scripts of a wheel, by their names."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(entry_points)
    commands = {}
    for name, target in parser["console_scripts"].items() if parser.has_section("console_scripts") else ():
        module, _, attribute = target.partition("[")[0].strip().partition(":")
        if re.fullmatch(r"[\w.-]+", name) and re.fullmatch(r"[\w.]+", module) and re.fullmatch(r"[\w.]+", attribute):
            commands[name] = SCRIPT.format(module=module, first=attribute.partition(".")[0], attribute=attribute)
    return commands


def _pinned(path: Path) -> str:
    """Return name==version of a wheel, from its file name."""
    name, version = path.name.split("-")[:2]
    return f"{_normal(name)}=={version}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: Sequence[str]) -> int:
    """Print the lock of requirements. Returns: the exit status."""
    python, requirements = HERE, list(arguments)
    if requirements[:1] == ["--python"]:
        python, requirements = requirements[1], requirements[2:]
    if not requirements:
        print(
            'Give requirements: python -m agentgym.sandboxes.swe.wheels [--python 3.11] "flask==2.3.0"', file=sys.stderr
        )
        return 2
    try:
        print("\n".join(lock(requirements, python)))
    except TaskError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
