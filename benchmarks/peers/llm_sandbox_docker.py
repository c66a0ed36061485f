"""llm-sandbox on Docker, without its set-up of a virtual environment in every container."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

import work
from llm_sandbox import SandboxSession

IMAGE = os.environ.get("PEER_IMAGE", "agentgym/base:latest")


class Box:
    """A session, and the directory that files pass through."""

    def __init__(self, session: Any) -> None:
        self.session, self.folder = session, tempfile.TemporaryDirectory()

    async def write(self, path: str, text: str) -> None:
        file = Path(self.folder.name) / path
        file.write_text(text)
        await asyncio.to_thread(self.session.copy_to_runtime, str(file), f"/sandbox/{path}")

    async def read(self, path: str) -> str:
        file = Path(self.folder.name) / path
        await asyncio.to_thread(self.session.copy_from_runtime, f"/sandbox/{path}", str(file))
        return file.read_text()

    async def run(self, argv: list[str]) -> str:
        result = await asyncio.to_thread(self.session.execute_command, shlex.join(argv), workdir="/sandbox")
        if result.exit_code != 0:
            raise RuntimeError(f"{argv} ended with {result.exit_code}: {result.stderr}")
        return str(result.stdout)

    async def close(self) -> None:
        await asyncio.to_thread(self.session.close)
        self.folder.cleanup()


async def start() -> Box:
    session = SandboxSession(
        lang="python",
        image=IMAGE,
        keep_template=True,
        skip_environment_setup=True,
        runtime_configs={"network_mode": "none", "command": ["sleep", "infinity"], "init": True},
    )
    await asyncio.to_thread(session.open)
    return Box(session)


if __name__ == "__main__":
    work.main(start, "llm-sandbox")
