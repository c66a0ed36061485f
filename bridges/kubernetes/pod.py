"""A pod claimed from a warm pool by this process, and the program in it that makes sandboxes."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from agentgym.cluster import hosts

from .api import GROUP, VERSION, ApiError, KubernetesApi
from .messages import MessageReader, decode, encode, pieces
from .streams import HostStream

SANDBOX_GROUP = "agents.x-k8s.io"
LABELS = {"app.kubernetes.io/managed-by": "agentgym"}
"""The labels of our claims."""
END_S = 4.0
"""How long `Pod.end` waits for the cluster."""
POLL_S = 0.25
_FINAL = frozenset(
    (
        "TemplateNotFound",
        "WarmPoolNotFound",
        "InvalidMetadata",
        "InvalidConfiguration",
        "EnvVarsInjectionRejected",
        "VolumeClaimTemplatesError",
        "ClaimExpired",
        "SandboxExpired",
        "PodFailed",
        "PodSucceeded",
    )
)
"""Reasons of the condition Ready from which the controller does not recover."""


class Pod:
    """A claim (the cluster's object for a requested pod) and its pod, as the RemoteHost of a HostLink.

    The claim has a time to live, renewed while this process lives. When it runs out, the cluster's controller deletes
    the claim and the pod.

    Args:
        api: the API of the cluster; used only on its event loop.
        loop: that event loop.
        claim_lease_s: how long the claim outlives the last renewal, in seconds.
    Attributes:
        claim, name: the names of the claim and the pod. link: records when the program in the pod last sent something.
    """

    def __init__(self, api: KubernetesApi, loop: asyncio.AbstractEventLoop, claim_lease_s: float) -> None:
        self._api, self._loop, self._claim_lease_s = api, loop, claim_lease_s
        self.link: hosts.HostLink | None = None
        self.claim = f"agentgym-{uuid.uuid4().hex[:12]}"
        self.name = ""
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stream: HostStream | None = None
        self._lost = ""

    async def start(self, pool: str, open_stream: Callable[[str], Awaitable[HostStream]], ready_s: float) -> None:
        """Claim a pod of a warm pool, wait until it is ready, and connect to a host in it.

        Args:
            open_stream: connects to a host in the pod of a name.

        Raises: ClusterError; it says what a pod that is not ready in time waits for. The claim is then deleted.
        """
        names = {"name": self.claim, "labels": LABELS, "annotations": hosts.Owner.this_process().labels}
        spec = {"warmPoolRef": {"name": pool}, "lifecycle": self._lifecycle()}
        kind = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "SandboxClaim"}
        try:
            await self._api.create_claim({**kind, "metadata": names, "spec": spec})
            self._spawn(self._renew())
            self.name = await self._ready_pod(pool, ready_s)
            self._stream = await open_stream(self.name)
        except BaseException:
            with suppress(hosts.ClusterError):  # if this fails, the pod's time to live ends it
                await asyncio.shield(self._end())
            raise
        self._spawn(self._receive())

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of the host in the pod without waiting."""
        message, number, answer = encode((method, *arguments)), next(self._numbers), Future[Any]()
        self._waiting[number] = answer
        try:
            self._loop.call_soon_threadsafe(lambda: self._spawn(self._send(number, message)))
        except RuntimeError:  # the loop is closed
            self._lose("its backend was closed")
        if self._lost:
            self._lose(self._lost)
        return answer

    def beat(self) -> Future[Any]:
        """Call `beat` of the host in the pod, which even a busy host answers."""
        return self.call("beat")

    def end(self) -> None:
        """Release the claim, and with it the pod."""
        if not self._loop.is_closed():
            with suppress(TimeoutError, hosts.ClusterError):  # if this fails, the claim's time to live ends it
                asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(END_S)

    async def _end(self) -> None:
        self._lose("it was ended")
        for task in [*self._tasks]:
            task.cancel()
        try:
            await self._api.delete_claim(self.claim)
        finally:
            if self._stream is not None:
                await self._stream.close()

    def _lifecycle(self) -> dict[str, str]:
        ends = datetime.now(UTC) + timedelta(seconds=math.ceil(self._claim_lease_s))
        return {"shutdownTime": ends.strftime("%Y-%m-%dT%H:%M:%SZ"), "shutdownPolicy": "Delete"}

    async def _renew(self) -> None:
        """Keep renewing the claim until it is lost, for example because it was deleted."""
        while not self._lost:
            await asyncio.sleep(self._claim_lease_s / 3)
            try:
                await self._api.change_claim(self.claim, {"spec": {"lifecycle": self._lifecycle()}})
            except ApiError as error:
                if error.status in (404, 410):
                    self._lose("its claim was deleted")
            except hosts.ClusterError:
                pass  # for example, the token cannot be renewed now

    async def _ready_pod(self, pool: str, ready_s: float) -> str:
        """Wait until the pod is ready and return its name."""
        ends, waits_for, claim = time.monotonic() + ready_s, "its controller", dict[str, Any]()
        while time.monotonic() < ends:
            try:
                claim = await self._api.read("sandboxclaims", self.claim)
            except ApiError as error:
                if not error.passing:
                    raise
                waits_for = str(error)
            else:
                ready = next((row for row in _conditions(claim) if row.get("type") == "Ready"), {})
                sandbox = str(claim.get("status", {}).get("sandbox", {}).get("name") or "")
                if ready.get("status") == "True" and sandbox:
                    return await self._pod_of(sandbox)
                if ready:
                    waits_for = f"{ready.get('reason')}: {ready.get('message')}"
                if ready.get("reason") in _FINAL:
                    raise hosts.ClusterError(f"The warm pool {pool!r} cannot provide a pod ({waits_for}).")
            await asyncio.sleep(POLL_S)
        with suppress(hosts.ClusterError):
            if sandbox := claim.get("status", {}).get("sandbox", {}).get("name"):
                waits_for += await self._obstacles(await self._pod_of(str(sandbox)))
        raise hosts.ClusterError(
            f"The warm pool {pool!r} provided no ready pod within {ready_s:g} s. It waits for {waits_for}"
        )

    async def _pod_of(self, sandbox: str) -> str:
        """Return the pod of a Sandbox: the pod of the same name, unless an annotation names another."""
        metadata = (await self._api.read("sandboxes", sandbox, SANDBOX_GROUP))["metadata"]
        return str((metadata.get("annotations") or {}).get(f"{SANDBOX_GROUP}/pod-name") or sandbox)

    async def _obstacles(self, pod: str) -> str:
        """Return why a pod is not ready, according to its status."""
        status = (await self._api.read("pods", pod, ""))["status"]
        rows = [row for row in status.get("conditions") or () if row.get("status") != "True"]
        rows += [row["state"]["waiting"] for row in status.get("containerStatuses") or () if "waiting" in row["state"]]
        reasons = [": ".join(filter(None, (row.get("reason"), row.get("message")))) for row in rows]
        return f". The pod {pod} is {status.get('phase')}: {'; '.join(filter(None, reasons)) or 'it does not say why'}"

    async def _send(self, number: int, message: bytes) -> None:
        assert self._stream is not None
        try:
            for piece in pieces(number, message):
                await self._stream.send(piece)
        except (OSError, RuntimeError) as error:  # aiohttp raises RuntimeError once the connection is closed
            self._lose(f"the connection broke: {error}")

    async def _receive(self) -> None:
        """Deliver answers to the pending calls, until the program ends or the connection breaks."""
        assert self._stream is not None
        reader = MessageReader()
        try:
            async for data in self._stream.received():
                if self.link is not None:  # part of a long answer is a sign of life
                    self.link.answered_at = time.monotonic()
                for number, message in reader.feed(data):
                    self._settle(number, message)
        except Exception as error:  # noqa: BLE001  a compromised pod may send anything
            return self._lose(f"the connection broke: {type(error).__name__}: {error}")
        self._lose(self._stream.end)

    def _settle(self, number: int, message: bytes) -> None:
        value, failure = decode(message)
        if (answer := self._waiting.pop(number, None)) is not None:
            answer.set_exception(hosts.NodeFailed(failure)) if failure else answer.set_result(value)

    def _lose(self, reason: str) -> None:
        self._lost = self._lost or reason
        while self._waiting:
            with suppress(KeyError):  # another thread may pop the last one
                self._waiting.popitem()[1].set_exception(hosts.NodeLost(self._lost))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _conditions(claim: dict[str, Any]) -> list[dict[str, Any]]:
    return claim.get("status", {}).get("conditions") or []
