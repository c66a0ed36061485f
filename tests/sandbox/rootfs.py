"""A small real root file system for image tests: a Python of this machine, a shell, a few programs, their libraries."""

from __future__ import annotations

from pathlib import Path

from agentgym.sandbox.rootfs.python_image import write_python_image

PROGRAMS = (
    "sh cat chmod cp echo env find grep head id link ln ls mkdir mkfifo mv nohup printf pwd readlink rm rmdir seq "
    "setsid sleep sort stat tail tee test touch tr true truncate wc yes"
)


def assemble(folder: Path, interpreter: str) -> Path:
    """Make the file system in a folder, with the interpreter as /usr/bin/python3 under its own prefix."""
    return write_python_image(folder, interpreter, programs=PROGRAMS, data=(), name="Small test image")
