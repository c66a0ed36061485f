"""uv from PyPI, as tests find it, and as the installer of its own site would leave it in an image."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

from agentgym import SandboxUnavailable
from agentgym.sandbox import cache_folder, rootfs

PROGRAM = "pypi:uv"
SITE = "astral.sh"
IMAGE = re.compile(r"ghcr\.io/astral-sh/uv:(latest|\d[\d.]*)(?:@\S+)?")
INSTALLER = re.compile(
    r"(?:curl|wget)\b[^|&;\n]*\bastral\.sh/uv/(?:[\d.]+/)?install\.sh[^|&;\n]*\|\s*"
    r"(?:env\s+)?(?P<variables>(?:\w+=\S+\s+)*)(?:ba|da)?sh\b(?:\s+-[^|&;\n]*)?"
)
"""A command that runs uv's installer from its site."""
INSTALL = f"{rootfs.INDEX_FOLDER}/install-uv.sh"
SCRIPT = """to=${UV_INSTALL_DIR:-${XDG_BIN_HOME:-$HOME/.local/bin}}
mkdir -p "$to" && cp {inside}/bin/uv {inside}/bin/uvx "$to/" && echo "export PATH=\\"$to:\\$PATH\\"" > "$to/env"
"""
WRAPPER = """#!/bin/sh
# Runs uv without a choice of Python: no other than the image's can be had here.
for word do
    shift
    if [ -n "$skip" ]; then skip=; continue; fi
    case $word in
        -p|--python) skip=1 ;;
        -p[0-9]*|--python=*) ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {program} "$@"
"""


def uv_in_image(name: str) -> str:
    """Return the program that is all there is in an image of uv's publisher; empty for another image."""
    match = IMAGE.fullmatch(name)
    return "" if match is None else PROGRAM if match[1] == "latest" else f"{PROGRAM}@{match[1]}"


def uv_image(uv: rootfs.InstalledProgram) -> Path:
    """Return the path of an image with uv's programs alone, at its root."""
    folder = cache_folder() / "images" / f"uv-{uv.digest.rpartition(':')[2][:16]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
        for command in uv.commands:
            shutil.copy2(uv.folder / "bin" / command, draft)
        (draft / "usr").mkdir()  # without which it would not count as a root file system
        draft.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            draft.rename(folder)
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def find_uv() -> rootfs.InstalledProgram:
    """Return uv, installed if it is not in the cache. Raises: SandboxUnavailable."""
    try:
        return rootfs.locate_program(PROGRAM)
    except SandboxUnavailable:
        return rootfs.install_program(PROGRAM)


def uv_wrapper(uv: rootfs.InstalledProgram, name: str) -> bytes:
    """Return a script that runs a command of uv."""
    return WRAPPER.replace("{program}", f"{uv.inside}/bin/{name}").encode()


def uv_installer(uv: rootfs.InstalledProgram) -> bytes:
    """Return the script at INSTALL, which leaves what uv's installer does."""
    return SCRIPT.replace("{inside}", uv.inside).encode()


def with_installer(command: str) -> str:
    """Return a command with INSTALL in place of uv's installer."""
    return INSTALLER.sub(lambda match: f"{match['variables'] or ''}sh {INSTALL}", command)
