"""Wheels for tests without a package index: of nothing but text, and of packages that are installed here."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str], entry_points: str = "") -> None:
    """A wheel as a package index has them."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
        wheel.writestr(f"{info}/entry_points.txt", entry_points)


def write_installed(folder: Path, name: str) -> str:
    """A wheel of a package that is installed here. Returns: name==version."""
    folder.mkdir(parents=True, exist_ok=True)
    distribution = importlib.metadata.distribution(name)
    path = folder / f"{name}-{distribution.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file in distribution.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                wheel.writestr(str(file), file.read_binary())
    return f"{name}=={distribution.version}"
