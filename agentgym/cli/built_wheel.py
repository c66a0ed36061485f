"""The wheel of a package: built from a clean copy of its folder, and compared with what the folder holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from agentgym.errors import AgentGymError

_NOT_COPIED = ("build", "dist", "*.egg-info", "__pycache__", ".venv", "venv", "node_modules", ".*_cache")
"""Names left out of the clean copy: outputs of earlier builds could add files to the wheel that a checkout lacks."""
_NOT_NEEDED = {".md", ".rst", ".pyc", ".pyi", ".pyx", ".c", ".cpp", ".h", ".rs"}
"""Suffixes of files that a wheel need not hold: documents, and sources of compiled modules."""


class PackageError(AgentGymError, ValueError):
    """A folder holds no package of environments, the package is not installed, or its wheel cannot be built."""


def build_wheel(folder: Path, scratch: Path) -> Path:
    """Build the wheel of the package in `folder`, and return the folder that it was unpacked to, inside of `scratch`.

    Use the packaging tool that `pyproject.toml` names if it is installed here; otherwise pip downloads it.
    Raises: PackageError with the last lines of pip's output if the wheel cannot be built.
    """
    copy, wheels, unpacked = scratch / "copy", scratch / "wheels", scratch / "unpacked"
    shutil.copytree(folder, copy, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--disable-pip-version-check"]
    for isolation in (["--no-build-isolation", "--check-build-dependencies"], []):
        built = subprocess.run([*command, *isolation, "-w", wheels, copy], capture_output=True, text=True)
        if built.returncode == 0:
            break
    else:
        lines = [line.strip() for line in built.stderr.splitlines()]
        faults = [line for line in lines if "error" in line.lower()] or lines
        raise PackageError(f"it cannot be built. `pip wheel --no-deps {folder}` says: {' | '.join(faults[:4])}")
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(unpacked)
    return unpacked


def files_left_out(folder: Path, unpacked: Path) -> list[str]:
    """Return the files inside of the package's import packages that its wheel lacks, as paths below `folder`.

    Documents, tests, hidden files and sources of compiled modules are not counted.
    """
    missing = []
    for package in sorted(path.name for path in unpacked.iterdir() if path.is_dir() and "." not in path.name):
        for source in (folder / package, folder / "src" / package):
            for file in sorted(source.rglob("*")):
                inside = file.relative_to(source)
                if file.is_file() and _is_needed(inside) and not (unpacked / package / inside).is_file():
                    missing.append(str(file.relative_to(folder)))
    return missing


def _is_needed(file: Path) -> bool:
    unneeded = any(part.startswith(".") or part in ("__pycache__", "tests", "node_modules") for part in file.parts)
    return not unneeded and file.suffix not in _NOT_NEEDED
