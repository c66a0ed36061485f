"""No sandbox at all: a temporary directory and subprocess."""

from __future__ import annotations

import platform
import subprocess
import tempfile
from pathlib import Path

import work


class Box:
    """A directory, and programs that run in it with all the rights of this process."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)

    def command(self, argv: list[str]) -> list[str]:
        return argv

    async def write(self, path: str, text: str) -> None:
        (self.path / path).write_text(text)

    async def read(self, path: str) -> str:
        return (self.path / path).read_text()

    async def run(self, argv: list[str]) -> str:
        return subprocess.run(
            self.command(argv), cwd=self.path, check=True, capture_output=True, text=True, timeout=30
        ).stdout

    async def close(self) -> None:
        self.folder.cleanup()


async def start() -> Box:
    return Box()


if __name__ == "__main__":
    work.main(start, version=f"Python {platform.python_version()}")
