"""A small real root file system for image tests: a Python of this machine, a shell, a few programs, their libraries."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = (
    "sh",
    "cat",
    "chmod",
    "cp",
    "echo",
    "env",
    "find",
    "grep",
    "head",
    "id",
    "link",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mv",
    "nohup",
    "printf",
    "pwd",
    "readlink",
    "rm",
    "rmdir",
    "seq",
    "setsid",
    "sleep",
    "sort",
    "stat",
    "tail",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "truncate",
    "wc",
    "yes",
)
_LEFT_OUT = shutil.ignore_patterns(
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "dist-packages",
    "config-*",
    "__pycache__",
    "*.a",
    "pydoc_data",
)
_ASK = (
    "import json, sys, sysconfig; print(json.dumps([sys.base_prefix, sysconfig.get_path('stdlib'), sys.version[:4]]))"
)


def assemble(folder: Path, interpreter: str) -> Path:
    """Make the file system in a folder, with the interpreter as /usr/bin/python3 under its own prefix."""
    real = os.path.realpath(interpreter)
    answer = subprocess.run([real, "-S", "-E", "-c", _ASK], capture_output=True, text=True, check=True)
    _, library, version = json.loads(answer.stdout)
    for name in ("usr/bin", "etc", "opt"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "bin").symlink_to("usr/bin")
    _copy(real, folder)
    shutil.copytree(library, folder / library[1:], symlinks=True, ignore=_LEFT_OUT, dirs_exist_ok=True)
    if real != "/usr/bin/python3":
        (folder / "usr/bin/python3").symlink_to(real)
    binaries = [real, *(str(path) for path in Path(library).glob("lib-dynload/*.so"))]
    for name in PROGRAMS:
        program = shutil.which(name, path="/usr/bin:/bin")
        if program is not None:
            shutil.copy2(os.path.realpath(program), folder / "usr/bin" / name)
            binaries.append(program)
    for needed in _libraries(binaries):
        _copy(needed, folder)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/os-release").write_text(f'NAME="Small test image, Python {version.strip()}"\n')
    return folder


def _libraries(binaries: list[str]) -> set[str]:
    listing = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listing, re.MULTILINE))


def _copy(path: str, folder: Path) -> None:
    target = folder / path[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, target)
