"""SWE-ReX's local deployment: its runtime in this process, without isolation."""

from __future__ import annotations

import tempfile

import work
from swerex.deployment.local import LocalDeployment
from swerex.runtime.abstract import Command, ReadFileRequest, WriteFileRequest


class Box:
    """A deployment, and a directory to work in."""

    def __init__(self, deployment: LocalDeployment) -> None:
        self.deployment, self.folder = deployment, tempfile.TemporaryDirectory()

    async def write(self, path: str, text: str) -> None:
        await self.deployment.runtime.write_file(WriteFileRequest(path=f"{self.folder.name}/{path}", content=text))

    async def read(self, path: str) -> str:
        answer = await self.deployment.runtime.read_file(ReadFileRequest(path=f"{self.folder.name}/{path}"))
        return str(answer.content)

    async def run(self, argv: list[str]) -> str:
        command = Command(command=argv, cwd=self.folder.name, timeout=30, check=True)
        return str((await self.deployment.runtime.execute(command)).stdout)

    async def close(self) -> None:
        await self.deployment.stop()
        self.folder.cleanup()


async def start() -> Box:
    deployment = LocalDeployment()
    await deployment.start()
    return Box(deployment)


if __name__ == "__main__":
    work.main(start, "swe-rex")
