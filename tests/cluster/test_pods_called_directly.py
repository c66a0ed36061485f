"""Pods of a Kubernetes cluster that listen for a driver: without exec, without privileges, and closed to strangers."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox.guest import landlock
from agentgym.testing.backends.testbed import SPEC

pytest.importorskip("kubernetes_asyncio", reason="comes with the extra kubernetes")
from kubernetes_cluster import CERTIFICATE, POD_PORT, POD_TOKEN, LocalCluster, LocalPod, backend_of

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.skipif(not landlock.version(), reason="no Landlock here"),
]
WEAKER = replace(SPEC, accept_weaker=("all",))


@pytest.fixture
def listening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """A cluster whose pods listen for drivers, and a kubeconfig for it."""
    key, certificate = CERTIFICATE.read_text().split("-----BEGIN CERTIFICATE-----")
    secret = tmp_path / "secret"
    secret.mkdir()
    files = {"tls.key": key, "tls.crt": f"-----BEGIN CERTIFICATE-----{certificate}", "token": POD_TOKEN}
    for name, text in files.items():
        (secret / name).write_text(text)
    with LocalCluster(secret=secret) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
        yield cluster


async def test_pods_are_called_directly_where_they_listen_and_without_exec(listening):
    async with backend_of() as backend:
        sandbox = await backend.create(WEAKER)
        assert (await sandbox.exec(["echo", "direct"])).text == "direct\n"
        channel = await sandbox.open_channel(["cat"])
        assert await channel.request({"a": 1}) == {"a": 1}
        await sandbox.write("large", bytes(3_000_000))
        assert await sandbox.read("large") == bytes(3_000_000)
        assert set(sandbox.missing) == {"memory", "cpu", "disk", "inodes"}, "the pod's own backend is landlock"
        [pod] = listening.pods.values()
        hosts = pod.processes[0]
    assert hosts.wait(20) is not None
    assert not [request for request in listening.requests if "exec" in request]
    assert listening.claims == {}


def greet(address: str, line: bytes) -> bytes:
    """Connect to a pod as a stranger, and return what it sends until it closes the connection."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((address, POD_PORT), timeout=10) as plain, tls.wrap_socket(plain) as stream:
        stream.sendall(line)
        return stream.recv(100)


async def test_a_pod_answers_no_stranger_and_one_driver_alone(listening):
    async with backend_of() as backend:
        sandbox = await backend.create(WEAKER)
        [pod] = listening.pods.values()
        order = {"token": POD_TOKEN, "lease_s": 5, "driver": 1}
        assert await asyncio.to_thread(greet, pod.address, json.dumps(order).encode() + b"\n") == b"", "it is taken"
        assert (await sandbox.exec(["true"])).ok
    listening._start_listener(fresh := LocalPod("fresh"), listening.secret)
    try:
        lines = (b"\n", b"[]\n", b'{"token": 3}\n', b'{"token": "wrong"}\n', b"x" * 10_000)
        for line in lines:
            assert await asyncio.to_thread(greet, fresh.address, line) == b""
        assert fresh.processes[0].poll() is None
    finally:
        fresh.signal(signal.SIGKILL)
        fresh.processes[0].wait()


@pytest.mark.thorough
async def test_a_killed_pod_that_listens_ends_its_calls(listening):
    async with backend_of() as backend:
        sandbox = await backend.create(WEAKER)
        running = asyncio.ensure_future(sandbox.exec(["sleep", "50"], timeout_s=60))
        await asyncio.sleep(0.2)
        listening.delete_pod(*listening.pods)
        with pytest.raises(SandboxDied, match=r"The node gym/.* is lost \(its host ended, or the connection broke"):
            await running
        assert (await (await backend.create(WEAKER)).exec(["true"])).ok


async def test_a_pod_that_nothing_reaches_and_a_wrong_secret_are_named(listening, monkeypatch):
    monkeypatch.setattr(LocalCluster, "_start_listener", lambda self, pod, secret: setattr(pod, "address", "127.0.0.9"))
    async with backend_of() as backend:
        with pytest.raises(SandboxUnavailable, match=r"port 127.0.0.9:8652 cannot be reached \(ConnectionRefused"):
            await backend.create(WEAKER)
    (listening.secret / "tls.crt").write_text("nothing")
    async with backend_of() as backend:
        with pytest.raises(SandboxUnavailable, match=r"The Secret agentgym-pods lacks a usable tls\.crt or token"):
            await backend.create(WEAKER)
    assert listening.claims == {}
