"""Accounts and certificates: how this process proves to an API server who it is, and the other way round."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agentgym.bridges.kubernetes import api
from agentgym.bridges.kubernetes.api import ApiError, KubernetesApi
from agentgym.errors import ClusterError

pytest.importorskip("kubernetes_asyncio", reason="comes with the extra kubernetes")
from kubernetes_asyncio.config import incluster_config
from kubernetes_cluster import CERTIFICATE, NAMESPACE, TOKEN, LocalCluster


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster() as cluster:
        yield cluster


async def replicas(**options: str) -> int:
    """The size of the pool, as the API server says."""
    api = KubernetesApi(**options)
    await api.connect()
    try:
        return (await api.read("sandboxwarmpools", "agentgym"))["spec"]["replicas"]
    finally:
        await api.close()


def plugin(path: Path) -> dict[str, object]:
    """A credential plugin, as those of clouds."""
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": TOKEN}}
    path.write_text(f"print({json.dumps(json.dumps(answer))})")
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(path)]}}


@pytest.mark.parametrize("kind", ["token", "token file", "client certificate", "plugin"])
async def test_every_kind_of_account_of_a_kubeconfig_is_accepted(cluster, tmp_path, monkeypatch, kind):
    (tmp_path / "token").write_text(TOKEN)
    user = {
        "token": {"token": TOKEN},
        "token file": {"tokenFile": "token"},
        "client certificate": {"client-certificate": str(CERTIFICATE), "client-key": str(CERTIFICATE)},
        "plugin": plugin(tmp_path / "plugin.py"),
    }[kind]
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path, user)))
    assert await replicas() == 2


async def test_in_a_pod_its_service_account_is_used(cluster, tmp_path, monkeypatch):
    for name, text in (("token", TOKEN), ("namespace", f"{NAMESPACE}\n"), ("ca.crt", CERTIFICATE.read_text())):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(api, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBECONFIG", "/no/kubeconfig")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(cluster.port))
    assert await replicas() == 2


async def test_a_token_that_has_expired_is_read_anew_and_open_connections_stay(tmp_path, monkeypatch):
    with LocalCluster() as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path)))
        api = KubernetesApi()
        await api.connect()
        session = api._client.rest_client.pool_manager
        cluster.token = "a-new-token"
        with pytest.raises(ApiError, match="401") as refusal:
            await api.read("sandboxwarmpools", "agentgym")
        assert not refusal.value.passing
        cluster.kubeconfig(tmp_path)
        assert (await api.read("sandboxwarmpools", "agentgym"))["kind"] == "SandboxWarmPool"
        assert not session.closed
        await api.close()


UNUSABLE = {
    "no such context": ({}, {"context": "other"}, "Expected object with name other in .*contexts"),
    "unknown certificate": ({"certificate-authority": None}, {}, "does not answer .*certificate verify failed"),
    "wrong name": ({"tls-server-name": "stranger.test"}, {}, "does not answer .*certificate"),
    "unverified": ({"insecure-skip-tls-verify": True}, {}, "give the certificate-authority in the kubeconfig"),
    "plain text": ({"server": "http://10.0.0.7:8080"}, {}, "is not verified"),
    "nobody there": ({"server": "https://127.0.0.1:1"}, {}, "https://127.0.0.1:1 does not answer.*kubectl get pods"),
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_a_server_that_cannot_be_trusted_or_reached_is_not_used(cluster, tmp_path, monkeypatch, case):
    changes, options, message = UNUSABLE[case]
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(tmp_path, **changes)))
    before = len(cluster.requests)
    with pytest.raises(ClusterError, match=message):
        await replicas(**options)
    assert len(cluster.requests) == before


@pytest.mark.parametrize("text", ["", "[]", "{", "current-context: x\ncontexts: 1\n"])
async def test_a_broken_kubeconfig_is_named(tmp_path, monkeypatch, text):
    (tmp_path / "kubeconfig").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(ClusterError, match=r"The kubeconfig at .*kubeconfig cannot be used"):
        await replicas()
