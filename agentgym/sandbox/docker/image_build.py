"""Lets the Docker daemon build an image, within bounds of time, memory, disk, output and network.

The commands of the Dockerfile run in the daemon's containers, which share the network of a sandbox of ours: none, or
only what its proxy allows. The daemon's own builder is used without BuildKit, which cannot share a network.
Not bounded: the number of processes, but by their memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.contract import Connection
from agentgym.sandbox.docker.daemon import DockerImage

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
_LAST_LINES, _LINE = 5, 300
_MAX_OUTPUT = 64 * _MIB
_KILLED = 137
_CORES, _PERIOD = 2, 100_000


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """What the daemon is to build; see `DockerBackend.build_image`. `container`: the id of the container
    whose network the build shares.
    """

    name: str
    context: bytes
    arguments: Mapping[str, str]
    target: str
    container: str
    step_s: float
    memory_mib: int
    disk_mib: int


@dataclass(frozen=True, slots=True)
class BuildEnd:
    """How a build ended.

    Attributes:
        image: what was built; None after a failure.
        step: the instruction that failed. reason: how it ended, with its last lines.
        connections: what the build has reached, or was refused.
    """

    image: DockerImage | None = None
    step: str = ""
    reason: str = ""
    connections: tuple[Connection, ...] = ()


class _StepFailed(Exception):
    def __init__(self, step: str, reason: str) -> None:
        super().__init__(step, reason)
        self.step, self.reason = step, reason


async def build_in_daemon(socket: str, version: str, order: ImageBuild) -> tuple[str, str] | None:
    """Build an image. Cancelling ends the build.

    Args:
        socket: the path of the daemon's socket. version: the version of its API.
    Returns: None if the image was built; else the step that failed, and the reason.
    Raises: SandboxUnavailable if the daemon cannot build at all.
    """
    import httpx

    transport = httpx.AsyncHTTPTransport(uds=socket)
    timeout = httpx.Timeout(_ANSWER_S, read=None, write=None)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://docker", timeout=timeout) as client:
            daemon = _Daemon(client, f"/v{version}", order)
            watching = asyncio.create_task(daemon.watch())
            building = asyncio.create_task(daemon.build())
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
        return failure.step, failure.reason
    except httpx.HTTPError as error:
        raise SandboxUnavailable(f"The Docker daemon ended the connection of a build: {error!r:.300}.") from error
    return None


class _Daemon:
    def __init__(self, client: httpx.AsyncClient, prefix: str, order: ImageBuild) -> None:
        self._client, self._prefix, self._order = client, prefix, order
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

    async def watch(self) -> None:
        """Look at what the running command has written. Raises: _StepFailed if it is too much."""
        import httpx

        own = f"container:{self._order.container}"
        while True:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(httpx.HTTPStatusError):  # the container has just ended
                for listed in await self._get("/containers/json"):
                    if listed.get("HostConfig", {}).get("NetworkMode") != own:
                        continue
                    facts = await self._get(f"/containers/{listed['Id']}/json", size="1")
                    if facts.get("SizeRw", 0) > self._order.disk_mib * _MIB:
                        raise _StepFailed(self._step, f"wrote more than {self._order.disk_mib} MiB: {self._last()}")

    async def _messages(self) -> AsyncIterator[dict[str, Any]]:
        order, memory = self._order, self._order.memory_mib * _MIB
        limits = {"fsize": order.disk_mib * _MIB, "nofile": 4096, "core": 0}
        options: dict[str, Any] = {
            "version": "1",
            "t": order.name,
            "target": order.target,
            "buildargs": json.dumps(dict(order.arguments)),
            "labels": json.dumps({BUILD_LABEL: order.name}),
            "networkmode": f"container:{self._order.container}",
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

    async def _get(self, path: str, **options: str) -> Any:
        answer = await self._client.get(self._prefix + path, params=options, timeout=_ANSWER_S)
        answer.raise_for_status()
        return answer.json()

    def _ended(self, message: str) -> str:
        match = _EXIT.search(message)
        if match is None:
            return f"failed: {message:.500}"
        if int(match[1]) == _KILLED:
            return f"was killed, for its memory or by itself: {self._last()}"
        return f"ended with {match[1]}: {self._last()}"

    def _last(self) -> str:
        return "\n".join(self._lines).strip() or "no output"
