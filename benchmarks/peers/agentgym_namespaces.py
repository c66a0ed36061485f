"""agentgym itself, on the namespaces backend unless $PEER_BACKEND names another; with $PEER_WARM=1 by run_python."""

from __future__ import annotations

import os

import work

from agentgym import SandboxSpec
from agentgym.registry import load
from agentgym.sandbox import Sandbox

BACKEND = load("backends", os.environ.get("PEER_BACKEND", "namespaces"))()
WARM = os.environ.get("PEER_WARM") == "1"


class Box:
    """A sandbox of agentgym's."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def write(self, path: str, text: str) -> None:
        await self.sandbox.write(path, text.encode())

    async def read(self, path: str) -> str:
        return (await self.sandbox.read(path)).decode()

    async def run(self, argv: list[str]) -> str:
        if WARM and argv == work.RUN:
            result = await self.sandbox.run_python(work.SCRIPT)
        else:
            result = await self.sandbox.exec(argv)
        if not result.ok:
            raise RuntimeError(f"{argv} failed: {result}")
        return result.text

    async def close(self) -> None:
        await self.sandbox.close()


async def start() -> Box:
    return Box(await BACKEND.create(SandboxSpec(accept_weaker=("all",))))


if __name__ == "__main__":
    work.main(start, "agentgym-core")
