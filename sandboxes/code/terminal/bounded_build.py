"""Lets the Docker daemon build an image, within bounds of time, memory, disk, output and network.

The commands of the Dockerfile run in the daemon's containers, which share the network of a sandbox of ours: none, or
only what its proxy allows. The daemon's own builder is used without BuildKit, which cannot share a network.
Not bounded: the number of processes, but by their memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym import SandboxSpec, SandboxUnavailable
from agentgym.sandbox import DockerBackend

if TYPE_CHECKING:
    import httpx

BUILD_LABEL = "agentgym.build"
_MIB = 2**20
_STEP = re.compile(r"Step \d+/\d+ : (.*)", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ABOUT = (" --->", "Removing intermediate container")
_EXIT = re.compile(r"returned a non-zero code: (\d+)")
_LOOK_S = 2.0
_ANSWER_S = 60.0
_ADDRESS = "unix:///var/run/docker.sock"
_LAST_LINES, _LINE = 5, 300
_MAX_OUTPUT = 64 * _MIB
_KILLED = 137
_CORES, _PERIOD = 2, 100_000


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """What the daemon is to build.

    Attributes:
        name: the image's name and tag.
        context: a tar archive with the file Dockerfile and what it copies.
        base: an image of the daemon, for the sandbox whose network the build shares.
        arguments: values of ARGs. target: the stage that is the image; empty for the last.
        network: the names that may be reached, as in SandboxSpec.
        step_s: limit of each instruction in seconds. memory_mib: limit of each command.
        disk_mib: what one command, and the image above its base, may write; and what the build may transfer.
    """

    name: str
    context: bytes
    base: str
    arguments: Mapping[str, str]
    target: str
    network: tuple[str, ...]
    step_s: float
    memory_mib: int
    disk_mib: int


@dataclass(frozen=True, slots=True)
class BuildEnd:
    """How a build ended.

    Attributes:
        step: the instruction that failed. reason: how it failed, with its last lines; empty for an image.
        connections: what the build has reached, or was refused.
    """

    step: str
    reason: str
    connections: tuple[Any, ...]


class _StepFailed(Exception):
    def __init__(self, step: str, reason: str) -> None:
        super().__init__(step, reason)
        self.step, self.reason = step, reason


async def bounded_build(backend: DockerBackend, order: ImageBuild) -> BuildEnd:
    """Let the daemon build an image. Cancelling ends the build. Raises: SandboxUnavailable."""
    import httpx

    spec = SandboxSpec(
        image=order.base, writable_root=True, network=order.network or False, transfer_mib=order.disk_mib
    )
    sandbox = await backend.create(spec)
    address = os.environ.get("DOCKER_HOST") or _ADDRESS
    transport = httpx.AsyncHTTPTransport(uds="/" + address.partition("://")[2].lstrip("/"))
    timeout = httpx.Timeout(_ANSWER_S, read=None, write=None)
    step = reason = ""
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=timeout) as client:
            prefix = f"/v{(await _data(client, '/version'))['ApiVersion']}"
            own = await _data(client, f"{prefix}/containers/{sandbox.container}/json")
            pairs = (variable.partition("=") for variable in own["Config"]["Env"])
            proxies = {name: value for name, _, value in pairs if name.lower().endswith("_proxy")}
            daemon = _Daemon(client, prefix, order, f"container:{own['Id']}", proxies)
            watching, building = asyncio.create_task(daemon.watch()), asyncio.create_task(daemon.build())
            try:
                await asyncio.wait({watching, building}, return_when=asyncio.FIRST_COMPLETED)
                if not building.done():
                    watching.result()
                await building
            finally:
                for task in (watching, building):
                    task.cancel()
                await asyncio.gather(watching, building, return_exceptions=True)
    except _StepFailed as failure:
        step, reason = failure.step, failure.reason
    except httpx.HTTPError as error:
        raise SandboxUnavailable(f"The Docker daemon ended the connection of a build: {error!r:.300}.") from error
    finally:
        await sandbox.close()
    return BuildEnd(step, reason, sandbox.connections)


class _Daemon:
    """One build. `network`: what its containers share. `proxies`: variables that lead to the network's proxy."""

    def __init__(
        self, client: httpx.AsyncClient, prefix: str, order: ImageBuild, network: str, proxies: Mapping[str, str]
    ) -> None:
        self._client, self._prefix, self._order = client, prefix, order
        self._network, self._arguments = network, {**order.arguments, **proxies}
        self._step = ""
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)

    async def build(self) -> None:
        """Send the context and follow the build. Raises: _StepFailed, SandboxUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._order.step_s) as limit:
                async for message in self._messages():
                    text = _COLOUR.sub("", str(message.get("stream", "")))
                    if step := _STEP.match(text):
                        self._step = step[1].strip()
                        self._lines.clear()
                        limit.reschedule(loop.time() + self._order.step_s)
                    elif text.strip() and not text.startswith(_ABOUT):
                        self._lines += [line[-_LINE:] for line in text.splitlines() if line.strip()]
                    elif "error" in message:
                        raise _StepFailed(self._step, self._ended(str(message["error"])))
        except TimeoutError as error:
            raise _StepFailed(self._step, f"did not end in {self._order.step_s:g} s: {self._last()}") from error
        images = [f"{self._prefix}/images/{name}" for name in (self._order.name, self._order.base)]
        size, below = [(await _data(self._client, f"{image}/json"))["Size"] for image in images]
        if size - below > self._order.disk_mib * _MIB:
            await self._client.delete(images[0])
            raise _StepFailed("", f"makes an image with more than {self._order.disk_mib} MiB")

    async def watch(self) -> None:
        """Look at what the running command has written. Raises: _StepFailed if it is too much."""
        import httpx

        while True:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(httpx.HTTPStatusError):  # the container has just ended
                for listed in await _data(self._client, f"{self._prefix}/containers/json"):
                    if listed.get("HostConfig", {}).get("NetworkMode") != self._network:
                        continue
                    facts = await _data(self._client, f"{self._prefix}/containers/{listed['Id']}/json", size="1")
                    if facts.get("SizeRw", 0) > self._order.disk_mib * _MIB:
                        raise _StepFailed(self._step, f"wrote more than {self._order.disk_mib} MiB: {self._last()}")

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        order, memory = self._order, self._order.memory_mib * _MIB
        limits = {"fsize": order.disk_mib * _MIB, "nofile": 4096, "core": 0}
        options: dict[str, Any] = {
            "version": "1",
            "t": order.name,
            "target": order.target,
            "buildargs": json.dumps(self._arguments),
            "labels": json.dumps({BUILD_LABEL: order.name}),
            "networkmode": self._network,
            "memory": memory,
            "memswap": memory,
            "cpuperiod": _PERIOD,
            "cpuquota": _CORES * _PERIOD,
            "ulimits": json.dumps([{"Name": name, "Soft": most, "Hard": most} for name, most in limits.items()]),
            "rm": 1,
            "forcerm": 1,
        }
        headers = {"Content-Type": "application/x-tar"}
        request = self._client.stream(
            "POST", f"{self._prefix}/build", params=options, content=order.context, headers=headers
        )
        taken = 0
        async with request as response:
            if response.status_code != 200:
                message = (await response.aread()).decode("utf-8", "replace")
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    message = json.loads(message)["message"]
                if response.status_code >= 500 and "dockerfile" not in message.lower():
                    raise SandboxUnavailable(f"The Docker daemon cannot build: {message:.500}.")
                raise _StepFailed("", f"is refused by the daemon's builder, which is not BuildKit: {message:.500}")
            async for line in response.aiter_lines():
                taken += len(line)
                if taken > _MAX_OUTPUT:
                    raise _StepFailed(self._step, f"printed more than {_MAX_OUTPUT // _MIB} MiB: {self._last()}")
                if line.strip():
                    yield json.loads(line)

    def _ended(self, message: str) -> str:
        match = _EXIT.search(message)
        if match is None:
            return f"failed: {message:.500}"
        if int(match[1]) == _KILLED:
            return f"was killed, for its memory or by itself: {self._last()}"
        return f"ended with {match[1]}: {self._last()}"

    def _last(self) -> str:
        return "\n".join(self._lines).strip() or "no output"


async def _data(client: httpx.AsyncClient, path: str, **options: str) -> Any:
    answer = await client.get(path, params=options, timeout=_ANSWER_S)
    answer.raise_for_status()
    return answer.json()
