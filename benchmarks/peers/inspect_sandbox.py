"""Inspect's own sandboxes: `local`, a directory without isolation, or with $PEER_BACKEND=docker a compose project."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import work
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv

KIND = os.environ.get("PEER_BACKEND", "local")
TYPE = registry_find_sandboxenv(KIND)
COMPOSE = """services:
  default:
    image: {image}
    x-local: true
    init: true
    command: ["sleep", "infinity"]
    network_mode: none
    working_dir: /tmp
"""
_state: dict[str, Any] = {"config": None}


class Box:
    """One sample's sandbox."""

    def __init__(self, environments: dict[str, Any]) -> None:
        self.environments = environments
        self.box = environments["default"]

    async def write(self, path: str, text: str) -> None:
        await self.box.write_file(path, text)

    async def read(self, path: str) -> str:
        return str(await self.box.read_file(path))

    async def run(self, argv: list[str]) -> str:
        result = await self.box.exec(argv, timeout=30)
        if not result.success:
            raise RuntimeError(f"{argv} ended with {result.returncode}: {result.stderr}")
        return str(result.stdout)

    async def close(self) -> None:
        await TYPE.sample_cleanup("work", _state["config"], self.environments, False)


async def start() -> Box:
    if "ready" not in _state:  # once per task, as Inspect does
        if KIND == "docker":
            folder = Path(tempfile.mkdtemp())
            _state["config"] = str(folder / "compose.yaml")
            image = os.environ.get("PEER_IMAGE", "agentgym/base:latest")
            Path(_state["config"]).write_text(COMPOSE.format(image=image))
        await TYPE.task_init("work", _state["config"])
        _state["ready"] = True
    return Box(await TYPE.sample_init("work", _state["config"], {}))


if __name__ == "__main__":
    work.main(start, "inspect_ai")
