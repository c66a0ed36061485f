"""The Docker SDK as its documentation uses it: a container that sleeps, archives for files, exec_run for calls."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from typing import Any

import docker
import work

IMAGE = os.environ.get("PEER_IMAGE", "agentgym/base:latest")
CLIENT = docker.from_env()


class Box:
    """A container without a network, and without other limits."""

    def __init__(self, container: Any) -> None:
        self.container = container

    async def write(self, path: str, text: str) -> None:
        packed, data = io.BytesIO(), text.encode()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        await asyncio.to_thread(self.container.put_archive, "/tmp", packed.getvalue())

    async def read(self, path: str) -> str:
        pieces, _ = await asyncio.to_thread(self.container.get_archive, f"/tmp/{path}")
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as archive:
            file = archive.extractfile(path)
            assert file is not None
            return file.read().decode()

    async def run(self, argv: list[str]) -> str:
        result = await asyncio.to_thread(self.container.exec_run, argv, workdir="/tmp")
        if result.exit_code != 0:
            raise RuntimeError(f"{argv} ended with {result.exit_code}: {result.output!r}")
        return str(result.output.decode())

    async def close(self) -> None:
        await asyncio.to_thread(self.container.remove, force=True)


async def start() -> Box:
    run = CLIENT.containers.run
    return Box(await asyncio.to_thread(run, IMAGE, ["sleep", "infinity"], detach=True, network_mode="none"))


if __name__ == "__main__":
    work.main(start, "docker")
