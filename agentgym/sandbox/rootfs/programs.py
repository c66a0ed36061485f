"""Agent programs for sandboxes: packages of npm and PyPI, installed once into the cache and pinned there.

    <cache>/programs/NAME@VERSION/   bin/ with the package's commands, and what they need beside it; program.json

A sandbox whose spec names a program sees its folder read-only below PROGRAMS. No code of a package runs on this host:
neither install scripts of npm, nor build scripts of PyPI, of which only wheels are installed. A program of PyPI needs,
in the sandbox, the version of Python that installed it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.guest.root import PROGRAMS
from agentgym.sandbox.rootfs.sources import FolderImage
from agentgym.sandbox.rootfs.store import cache_folder

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_NAME = re.compile(rf"(?:(npm):((?:@{_WORD}/)?{_WORD})|(pypi):({_WORD}))(?:@([A-Za-z0-9][A-Za-z0-9.+_-]*))?")
_COMMAND = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_INSTALL_S = 1800.0
_LAUNCHER = """#!/usr/bin/env python3
import os, sys
if sys.version_info[:2] != {version}:
    sys.exit("{command} was installed for Python {major}.{minor}, and this is %d.%d" % sys.version_info[:2])
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from {module} import {first}
sys.exit({function}())
"""


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """A program in the cache.

    Attributes:
        name: with its version, as "npm:@openai/codex@0.171.0". digest: hash of all its files, as "sha256:...".
        folder: its folder on this host. commands: what it can be started by.
    """

    name: str
    digest: str
    folder: Path
    commands: tuple[str, ...]

    @property
    def inside(self) -> str:
        """The path of its folder in a sandbox."""
        return f"{PROGRAMS}/{self.folder.name}"


def install_program(name: str) -> InstalledProgram:
    """Install a package from its registry, with what it requires, unless that version is in the cache.

    Args:
        name: "npm:" or "pypi:", the package's name and, after another @, its version; without one, the newest.
    Raises: SandboxUnavailable if the name is invalid, or the package cannot be installed or has no command.
    """
    registry, package, version = _parse(name)
    if version and (installed := _read(_folder(registry, package, version))):
        return installed
    folder = _programs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=folder) as scratch:
        root = Path(scratch) / "root"
        (root / "bin").mkdir(parents=True)
        root.chmod(0o755)
        actual = (_install_npm if registry == "npm" else _install_pypi)(root, package, version)
        commands = sorted(entry.name for entry in (root / "bin").iterdir())
        if not commands:
            raise SandboxUnavailable(f"{name} has no command to start. Name the package that has one.")
        target = _folder(*_parse(f"{registry}:{package}@{actual}"))
        if (installed := _read(target)) is not None:
            return installed
        record = {"name": f"{registry}:{package}@{actual}", "digest": FolderImage(root).digest, "commands": commands}
        (root / "program.json").write_text(json.dumps(record, indent=1))
        try:
            root.rename(target)
        except OSError:  # another process has installed it meanwhile
            if _read(target) is None:
                raise
    program = _read(target)
    assert program is not None
    return program


def locate_program(name: str) -> InstalledProgram:
    """Return an installed program. Without a version the name means the only one that is installed.

    Raises: SandboxUnavailable, which says what to do, if it is not installed, or several versions are.
    """
    registry, package, version = _parse(name)
    prefix = _folder(registry, package, version or "").name
    candidates = [
        program
        for path in sorted(_programs_folder().glob("*"))
        if (path.name == prefix if version else path.name.startswith(prefix)) and (program := _read(path))
    ]
    if len(candidates) > 1:
        raise SandboxUnavailable(f"Several versions are installed: {', '.join(p.name for p in candidates)}. Name one.")
    if not candidates:
        known = ", ".join(installed_programs()) or "none"
        raise SandboxUnavailable(
            f"The program {name!r} is not installed. Run: agentgym sandbox program {name} (Installed: {known}.)"
        )
    return candidates[0]


def installed_programs() -> list[str]:
    """Return the names of the installed programs, sorted."""
    return sorted(program.name for path in _programs_folder().glob("*") if (program := _read(path)))


def _parse(name: str) -> tuple[str, str, str]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise SandboxUnavailable(
            f"{name!r} names no program. Write npm: or pypi: and the package, such as npm:@openai/codex@0.171.0 or "
            "pypi:mini-swe-agent."
        )
    return match[1] or match[3], match[2] or match[4], match[5] or ""


def _programs_folder() -> Path:
    return cache_folder() / "programs"


def _folder(registry: str, package: str, version: str) -> Path:
    return _programs_folder() / f"{registry}-{package.replace('/', '-').removeprefix('@')}@{version}"


def _read(folder: Path) -> InstalledProgram | None:
    try:
        record = json.loads((folder / "program.json").read_text())
        return InstalledProgram(record["name"], record["digest"], folder, tuple(record["commands"]))
    except (OSError, KeyError, ValueError):
        return None


def _install_npm(root: Path, package: str, version: str) -> str:
    """Install a package of npm below a folder. Returns: its version."""
    pinned = f"{package}@{version}" if version else package
    _run(["npm", "install", "--prefix", str(root), "--ignore-scripts", "--no-audit", "--no-fund", pinned])
    record = json.loads((root / "node_modules" / package / "package.json").read_text())
    commands = record.get("bin", {})
    for command in [package.split("/")[-1]] if isinstance(commands, str) else commands:
        _file_of(root, command).symlink_to(f"../node_modules/{_native(root / 'node_modules', record, command)}")
    return str(record["version"])


def _native(modules: Path, record: dict[str, Any], command: str) -> str:
    """Return the file of a command, below node_modules.

    If the package has an install script, as Claude Code and opencode do, its own file is a placeholder, in whose place
    that script would put a native program from an optional package for this platform: it is that program.
    """
    if record.get("scripts", {}).keys() & {"install", "postinstall"}:
        # "baseline" names the builds of Bun that need no AVX2, and so run on every machine that shares this cache
        for name in sorted(record.get("optionalDependencies", {}), key=lambda name: "baseline" not in name):
            for file in (f"{name}/{command}", f"{name}/bin/{command}"):
                if _NAME.fullmatch(f"npm:{name}") and (modules / file).is_file() and os.access(modules / file, os.X_OK):
                    return file
    return f".bin/{command}"


def _install_pypi(root: Path, package: str, version: str) -> str:
    """Install a package of PyPI below a folder, with a launcher for each of its commands. Returns: its version."""
    pinned = f"{package}=={version}" if version else package
    wheels_only = ["--only-binary", ":all:"]  # a source package's build script would run with the rights of this user
    try:
        _run([sys.executable, "-m", "pip", "install", "--quiet", *wheels_only, "--target", str(root / "lib"), pinned])
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"{error} Only wheels for Python {sys.version_info[0]}.{sys.version_info[1]} are installed. If you trust a "
            f"package that has none, build them: pip wheel -w wheels {package}; then set PIP_FIND_LINKS=wheels."
        ) from error
    for script in (root / "lib" / "bin").glob("*"):
        if script.is_file() and script.read_bytes()[:4] == b"\x7fELF":
            script.rename(_file_of(root, script.name))
    shutil.rmtree(root / "lib" / "bin", ignore_errors=True)  # scripts with this host's path of Python
    distribution = _distribution(root / "lib", package)
    major, minor = sys.version_info[:2]
    for point in distribution.entry_points.select(group="console_scripts"):
        launcher = _file_of(root, point.name)
        launcher.write_text(
            _LAUNCHER.format(
                version=(major, minor),
                major=major,
                minor=minor,
                command=point.name,
                module=point.module,
                first=point.attr.partition(".")[0],
                function=point.attr,
            )
        )
        launcher.chmod(0o755)
    return distribution.version


def _file_of(root: Path, command: str) -> Path:
    """Return where a command that a package names is installed. Raises: SandboxUnavailable for a path elsewhere."""
    if not _COMMAND.fullmatch(command):
        raise SandboxUnavailable(
            f"The package names a command {command!r}, which is not a plain file name. Install another package."
        )
    return root / "bin" / command


def _distribution(folder: Path, package: str) -> Distribution:
    key = _normalised(package)
    return next(each for each in distributions(path=[str(folder)]) if _normalised(each.metadata["Name"]) == key)


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run(command: list[str]) -> None:
    """Run an installer. Raises: SandboxUnavailable with the end of its output."""
    try:
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=_INSTALL_S, umask=0o022)
    except FileNotFoundError as error:
        raise SandboxUnavailable(f"{command[0]} is not installed on this host. Install it (Debian: npm).") from error
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout).strip()[-600:]
        raise SandboxUnavailable(f"{os.path.basename(command[0])} could not install {command[-1]}: {lines}") from error
    except subprocess.TimeoutExpired as error:
        raise SandboxUnavailable(f"{command[0]} did not end within {_INSTALL_S:g} s. Run it again.") from error
