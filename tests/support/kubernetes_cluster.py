"""An API server of Kubernetes on this host, with the claims of agent-sandbox; its pods are processes here.

It answers what the published API answers, as far as agentgym asks: objects are checked against their schema, errors are
Status objects, and programs are started by exec over a WebSocket (v5.channel.k8s.io). A controller of its own binds
claims to pods of the warm pool, and deletes what has lived its time. It isolates nothing: that is up to the pods' host.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
from agent_sandbox_schema import check_object
from aiohttp import WSMsgType, web

from agentgym.bridges.kubernetes import KubernetesBackend

POD_TOKEN = "a-token-of-the-pods"
POD_PORT = 8652
CERTIFICATE = Path(__file__).parents[1] / "sandbox" / "certificate.pem"  # self-made, for 127.0.0.1; no secret
TOKEN = "a-token-of-the-tests"
NAMESPACE = "gym"
KINDS = {
    "sandboxclaims": "SandboxClaim",
    "sandboxwarmpools": "SandboxWarmPool",
    "sandboxtemplates": "SandboxTemplate",
    "sandboxes": "Sandbox",
}
GROUPS = {"agents.x-k8s.io": {"sandboxes"}, "extensions.agents.x-k8s.io": KINDS.keys() - {"sandboxes"}}
_TICK_S = 0.02


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class LocalPod:
    """A pod: the programs that were started in it.

    Attributes:
        address: its own, if it listens.
    """

    name: str
    address: str = ""
    processes: list[asyncio.subprocess.Process | subprocess.Popen[bytes]] = field(default_factory=list)

    def signal(self, number: int) -> None:
        """Send a signal to what was started by exec, and its children."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)


@dataclass
class LocalCluster:
    """The server, in a thread.

    Attributes:
        token: that it accepts. objects: by plural and name. pods: by name. requests: method and path of each.
        faults: by "METHOD plural", the (status, message) that such a request is answered with.
        pending: why no pod becomes ready; empty if they do. has_crds: whether agent-sandbox is installed.
        prefix: of every command in a pod.
        secret: the folder from which pods that listen take their secret; None for pods that are called by exec.
        inner: the backend of pods that listen.
    """

    replicas: int = 2
    token: str = TOKEN
    objects: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: {plural: {} for plural in KINDS})
    pods: dict[str, LocalPod] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    faults: dict[str, tuple[int, str]] = field(default_factory=dict)
    pending: str = ""
    has_crds: bool = True
    prefix: tuple[str, ...] = ()
    secret: Path | None = None
    inner: str = "landlock"
    port: int = 0

    def __enter__(self) -> LocalCluster:
        template = {"podTemplate": {"spec": {"containers": [{"name": "host", "image": "agentgym"}]}}}
        self._put("sandboxtemplates", "agentgym", template)
        self._put(
            "sandboxwarmpools", "agentgym", {"replicas": self.replicas, "sandboxTemplateRef": {"name": "agentgym"}}
        )
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        started.result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def kubeconfig(self, folder: Path, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
        """A file for a client. Args: user: instead of the token. cluster: changes to the cluster's entry."""
        server = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(CERTIFICATE)} | cluster
        entries = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "local",
            "clusters": [{"name": "local", "cluster": {k: v for k, v in server.items() if v is not None}}],
            "users": [{"name": "me", "user": {"token": self.token} if user is None else user}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "me", "namespace": NAMESPACE}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(entries))
        return path

    @property
    def claims(self) -> dict[str, dict[str, Any]]:
        return self.objects["sandboxclaims"]

    def delete_pod(self, name: str) -> None:
        """Kill everything in a pod at once, as a node that fails does."""
        self.pods[name].signal(signal.SIGKILL)

    async def _serve(self, started: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        application = web.Application(client_max_size=2**20)
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=CERTIFICATE)
        tls.load_cert_chain(CERTIFICATE)
        tls.verify_mode = ssl.CERT_OPTIONAL
        site = web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        started.set_result(None)
        while not self._stop.is_set():
            self._reconcile()
            await asyncio.sleep(_TICK_S)
        for pod in self.pods.values():
            pod.signal(signal.SIGCONT)
            pod.signal(signal.SIGKILL)
            for process in pod.processes:
                if isinstance(process, subprocess.Popen):
                    process.wait()
        await runner.cleanup()

    def _put(self, plural: str, name: str, spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
        group = next(group for group, plurals in GROUPS.items() if plural in plurals)
        created = {"name": name, "namespace": NAMESPACE, "uid": uuid.uuid4().hex, "creationTimestamp": _now()}
        stored = {
            "apiVersion": f"{group}/v1beta1",
            "kind": KINDS[plural],
            "metadata": (metadata or {}) | created,
            "spec": spec,
        }
        check_object(stored)
        self.objects[plural][name] = stored

    def _reconcile(self) -> None:
        """What the controller does, once."""
        for name, claim in [*self.claims.items()]:
            if claim["spec"].get("lifecycle", {}).get("shutdownTime", "9") < _now():
                assert claim["spec"]["lifecycle"].get("shutdownPolicy", "Retain") == "Delete"
                self._delete_claim(name)
            elif not claim.get("status", {}).get("sandbox"):
                self._bind(claim)
            check_object(claim)

    def _bind(self, claim: dict[str, Any]) -> None:
        pool = self.objects["sandboxwarmpools"].get(claim["spec"]["warmPoolRef"]["name"])
        if pool is None:
            return self._condition(claim, "False", "WarmPoolNotFound", "the warm pool is not there")
        template = self.objects["sandboxtemplates"].get(pool["spec"]["sandboxTemplateRef"]["name"])
        if template is None:
            return self._condition(claim, "False", "TemplateNotFound", "the SandboxTemplate is not there")
        if self.pending.startswith("exceeded quota"):
            return self._condition(claim, "False", "ReconcilerError", self.pending)
        name = f"agentgym-{uuid.uuid4().hex[:5]}"
        blueprint = {"podTemplate": template["spec"]["podTemplate"]}
        self._put("sandboxes", name, blueprint, {"annotations": {"agents.x-k8s.io/pod-name": f"{name}-pod"}})
        pod = self.pods[f"{name}-pod"] = LocalPod(f"{name}-pod")
        if self.secret is not None:
            self._start_listener(pod, self.secret)
        claim.setdefault("status", {})["sandbox"] = {"name": name}
        if self.pending:
            return self._condition(claim, "False", "SandboxNotReady", "Pod exists with phase: Pending")
        return self._condition(claim, "True", "DependenciesReady", "Pod is Ready")

    def _start_listener(self, pod: LocalPod, secret: Path) -> None:
        """Start the program of a pod's container, and wait until its port answers, as a readiness probe does."""
        pod.address = f"127.0.0.{1 + len(self.pods)}"
        words = ["-m", "agentgym.bridges.kubernetes.pod_listener", "--secret", str(secret), "--backend", self.inner]
        command = [*self.prefix, sys.executable, *words, "--port", str(POD_PORT), "--address", pod.address]
        pod.processes.append(subprocess.Popen(command, cwd="/", start_new_session=True))
        for _ in range(200):
            with suppress(OSError):
                return socket.create_connection((pod.address, POD_PORT)).close()
            time.sleep(0.05)

    def _condition(self, claim: dict[str, Any], status: str, reason: str, message: str) -> None:
        row = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": _now()}
        claim.setdefault("status", {})["conditions"] = [row]

    def _delete_claim(self, name: str) -> None:
        sandbox = self.claims.pop(name).get("status", {}).get("sandbox", {}).get("name")
        if sandbox:
            del self.objects["sandboxes"][sandbox]
            self.delete_pod(f"{sandbox}-pod")

    def _pod_object(self, name: str) -> dict[str, Any]:
        if self.secret is not None:
            ports = [{"name": "agentgym", "containerPort": POD_PORT}]
            spec = {"containers": [{"name": "host", "image": "agentgym", "ports": ports}]}
            status = {"phase": "Running", "podIP": self.pods[name].address}
            return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec, "status": status}
        row = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": self.pending}
        waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
        status = {"phase": "Pending", "conditions": [row], "containerStatuses": [{"name": "host", **waiting}]}
        return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name}, "status": status}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        if request.headers.get("authorization") != f"Bearer {self.token}" and not certificate:
            return _status(401, "Unauthorized", "Unauthorized")
        match request.path.strip("/").split("/"):
            case ["api", "v1", "namespaces", namespace, "pods", name, *rest] if namespace == NAMESPACE:
                if fault := self.faults.get(f"{request.method} {'exec' if rest else 'pods'}"):
                    return _status(*fault)
                if name not in self.pods:
                    return _status(404, f'pods "{name}" not found', "NotFound", name)
                return await self._exec(request, self.pods[name]) if rest else web.json_response(self._pod_object(name))
            case ["api", "v1", "namespaces", namespace, "secrets", "agentgym-pods"] if namespace == NAMESPACE:
                if self.secret is None:
                    return _status(404, 'secrets "agentgym-pods" not found', "NotFound", "agentgym-pods")
                data = {name: (self.secret / name).read_bytes() for name in ("tls.crt", "token")}
                encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
                return web.json_response({"kind": "Secret", "apiVersion": "v1", "data": encoded})
            case ["apis", group, "v1beta1", "namespaces", namespace, plural, *name] if (
                self.has_crds and namespace == NAMESPACE and plural in GROUPS.get(group, ())
            ):
                if fault := self.faults.get(f"{request.method} {plural}"):
                    return _status(*fault)
                return await self._object(request, plural, name[0] if name else "")
        return web.Response(status=404, text="404 page not found\n")

    async def _object(self, request: web.Request, plural: str, name: str) -> web.Response:
        objects = self.objects[plural]
        if request.method == "GET" and not name:
            label, _, value = request.query.get("labelSelector", "").partition("=")
            rows = [row for row in objects.values() if row["metadata"].get("labels", {}).get(label) == value]
            return web.json_response({"kind": f"{KINDS[plural]}List", "items": rows})
        if request.method == "POST":
            sent = await request.json()
            name = sent["metadata"]["name"]
            if name in objects:
                return _status(409, f'{plural} "{name}" already exists', "AlreadyExists", name)
            try:
                check_object(sent)
            except jsonschema.ValidationError as error:
                return _status(422, error.message, "Invalid", name)
            self._put(plural, name, sent["spec"], sent["metadata"])
            return web.json_response(objects[name], status=201)
        if name not in objects:
            return _status(404, f'{plural}.extensions.agents.x-k8s.io "{name}" not found', "NotFound", name)
        if request.method == "PATCH":
            assert request.content_type == "application/merge-patch+json"
            changed = _merged(objects[name], await request.json())
            check_object(changed)
            objects[name] = changed
        elif request.method == "DELETE":
            self._delete_claim(name)
            return _status(200, "", "")
        return web.json_response(objects[name])

    async def _exec(self, request: web.Request, pod: LocalPod) -> web.StreamResponse:
        assert all(request.query[name] == "true" for name in ("stdin", "stdout", "stderr"))
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        program, *arguments = request.query.getall("command")
        command = [*self.prefix, sys.executable if program == "python3" else program, *arguments]
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, cwd="/", stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except OSError as error:
            failure = {"status": "Failure", "reason": "InternalError", "message": f"exec failed: {error}", "code": 500}
            await socket.send_bytes(b"\3" + json.dumps(failure).encode())
            return socket
        pod.processes.append(process)
        assert process.stdout is not None
        assert process.stderr is not None
        outputs = [_relay(socket, 1, process.stdout), _relay(socket, 2, process.stderr)]
        reading = asyncio.gather(*outputs, _feed(socket, process))
        code = await process.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(reading), 0.2)
        causes = {"details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}} if code else {}
        end = {"status": "Failure" if code else "Success", "message": f"command terminated with exit code {code}"}
        with suppress(OSError, RuntimeError):
            await socket.send_bytes(b"\3" + json.dumps(end | causes).encode())
        await socket.close()
        reading.cancel()
        return socket


async def _relay(socket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader) -> None:
    while data := await stream.read(32 * 1024):
        with suppress(OSError, RuntimeError):
            await socket.send_bytes(bytes([channel]) + data)


async def _feed(socket: web.WebSocketResponse, process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[:1] == b"\0":
            with suppress(OSError):
                process.stdin.write(message.data[1:])
                await process.stdin.drain()
    process.stdin.close()


def _merged(old: Any, changes: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(changes, dict):
        return changes
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in changes.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _status(code: int, message: str, reason: str = "", name: str = "") -> web.Response:
    answer: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Success" if code < 300 else "Failure"}
    answer |= {"message": message, "reason": reason, "code": code}
    return web.json_response(answer | ({"details": {"name": name}} if name else {}), status=code)


@asynccontextmanager
async def backend_of(**options: object) -> AsyncIterator[KubernetesBackend]:
    backend = KubernetesBackend(**options)
    try:
        yield backend
    finally:
        await backend.close()
