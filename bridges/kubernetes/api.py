"""Requests to the API server of a Kubernetes cluster, with the account of a kubeconfig or of the current pod.

The library kubernetes_asyncio reads kubeconfigs, gets tokens and verifies certificates; this module explains errors.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from agentgym import MissingExtraError, install_command
from agentgym.cluster import hosts

GROUP = "extensions.agents.x-k8s.io"
"""The API group of sandbox claims and warm pools, defined by kubernetes-sigs/agent-sandbox."""
VERSION = "v1beta1"
REQUEST_S = 15.0
"""How long a request may take."""
_IN_POD = "KUBERNETES_SERVICE_HOST"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TLS_END_S = 0.25  # time for connections to close before the loop ends (value from aiohttp's manual)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ApiError(hosts.ClusterError):
    """A request to the API server failed.

    Attributes:
        status: the HTTP status of the answer; 0 without an answer: then the request may have run.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in (0, 409, 429) or self.status >= 500


def import_kubernetes() -> Any:
    """Return the module kubernetes_asyncio. Raises: MissingExtraError without the extra `kubernetes`."""
    if find_spec("kubernetes_asyncio") is None:
        command = install_command("kubernetes")
        raise MissingExtraError(
            f"The kubernetes backend needs the package kubernetes_asyncio, which is not installed. Run: {command}"
        )
    import kubernetes_asyncio

    return kubernetes_asyncio


class KubernetesApi:
    """One API server, used from one event loop.

    Args:
        context: the context of the kubeconfig; None for its current one, or for the account of this pod if there is no
            kubeconfig.
        namespace: the namespace of the claims and pods; None for that of the context or of this pod.
    """

    def __init__(self, context: str | None = None, namespace: str | None = None) -> None:
        self._context, self.namespace = context, namespace or ""
        self.host = ""
        self._client: Any = None

    async def connect(self) -> None:
        """Read the configuration. Raises: ClusterError if it is missing or unusable; MissingExtraError."""
        self._client = import_kubernetes().client.ApiClient(await self._configuration())
        self.host = self._client.configuration.host

    async def _configuration(self) -> Any:
        library = import_kubernetes()
        configuration = library.client.Configuration()
        configuration.connection_pool_maxsize = 0  # no limit: each pod keeps one connection open
        files = os.environ.get("KUBECONFIG") or "~/.kube/config"
        is_outside = _exists(files)
        if not is_outside and (self._context or _IN_POD not in os.environ):
            raise hosts.ClusterError(
                f"There is no kubeconfig at {files}. Set KUBECONFIG to one that works with `kubectl get pods`, or run "
                "this in a pod of the cluster with a service account."
            )
        try:
            if is_outside:
                namespace = await self._load(library, files, configuration)
            else:
                library.config.load_incluster_config(configuration)
                namespace = (_ACCOUNT / "namespace").read_text().strip()
        except Exception as error:  # the library raises many types for a wrong file
            source = f"The kubeconfig at {files}" if is_outside else "The service account of this pod"
            raise hosts.ClusterError(f"{source} cannot be used: {type(error).__name__}: {error}") from error
        self.namespace = self.namespace or namespace
        url = urlsplit(configuration.host)
        if not configuration.verify_ssl or (url.scheme != "https" and url.hostname not in _LOOPBACK):
            raise hosts.ClusterError(
                f"The connection to the API server {configuration.host} is not verified, so its answers cannot be "
                "trusted. Use an https address, and give the certificate-authority in the kubeconfig in place of "
                "insecure-skip-tls-verify."
            )
        return configuration

    async def _load(self, library: Any, files: str, configuration: Any) -> str:
        loader = await library.config.load_kube_config(
            files, context=self._context, client_configuration=configuration, persist_config=False
        )
        return str(loader.current_context["context"].get("namespace") or "default")

    async def close(self) -> None:
        """Close the connections."""
        client, self._client, self.host = self._client, None, ""
        if client is not None:
            await client.close()
            await asyncio.sleep(_TLS_END_S)

    async def claims(self, selector: str) -> list[dict[str, Any]]:
        """Return the sandbox claims that match a label selector. Raises: ApiError."""
        path = self._path("sandboxclaims") + "?" + urlencode({"labelSelector": selector})
        items: list[dict[str, Any]] = (await self._ask("GET", path))["items"]
        return items

    async def read(self, plural: str, name: str, group: str = GROUP) -> dict[str, Any]:
        """Return an object; `group` is empty for pods. Raises: ApiError."""
        return await self._ask("GET", self._path(plural, name, group))

    async def create_claim(self, claim: Mapping[str, Any]) -> None:
        """Create a sandbox claim. Raises: ApiError; if its status is 0, the claim may exist."""
        await self._ask("POST", self._path("sandboxclaims"), claim)

    async def change_claim(self, name: str, changes: Mapping[str, Any]) -> None:
        """Merge changes into a sandbox claim. Raises: ApiError."""
        await self._ask("PATCH", self._path("sandboxclaims", name), changes)

    async def delete_claim(self, name: str) -> None:
        """Delete a sandbox claim, and with it the pod. A missing claim is not an error. Raises: ApiError."""
        try:
            await self._ask("DELETE", self._path("sandboxclaims", name))
        except ApiError as error:
            if error.status not in (404, 410):
                raise

    async def exec(self, pod: str, command: Sequence[str]) -> Any:
        """Start a program in the first container of a pod. Returns: the WebSocket of its streams. Raises: ApiError."""
        import aiohttp

        query = [("command", word) for word in command] + [(name, "true") for name in ("stdin", "stdout", "stderr")]
        path = f"{self._path('pods', pod, '')}/exec?{urlencode(query)}"
        headers: dict[str, str] = {}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"])
        try:
            async with asyncio.timeout(REQUEST_S):
                return await self._client.rest_client.pool_manager.ws_connect(
                    self.host + path,
                    headers=headers,
                    protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"),
                    proxy=self._client.configuration.proxy,
                    server_hostname=self._client.configuration.tls_server_name,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise self._error("exec", path, error.status, error.message) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(error) from error

    def _path(self, plural: str, name: str = "", group: str = GROUP) -> str:
        start = f"/apis/{group}/{VERSION}" if group else "/api/v1"
        return "/".join(
            [start, "namespaces", *(quote(part, safe="") for part in (self.namespace, plural, name) if part)]
        )

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request and return the object in the answer. A request refused for an expired token is repeated with
        a new token.
        """
        try:
            return await self._send(method, path, body)
        except ApiError as error:
            if error.status != 401:
                raise
        self._client.configuration.api_key = (await self._configuration()).api_key
        return await self._send(method, path, body)

    async def _send(self, method: str, path: str, body: Any) -> dict[str, Any]:
        import aiohttp

        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            response = await self._client.call_api(
                path,
                method,
                header_params={"Accept": "application/json", "Content-Type": kind},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=REQUEST_S,
            )
            text = await response.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise self._unreachable(error) from error
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if 200 <= response.status < 300 and isinstance(answer, dict):
            return answer
        details = answer if isinstance(answer, dict) else {"message": text[:200].decode("utf-8", "replace").strip()}
        raise self._error(method, path, response.status, str(details.get("message")), details.get("details"))

    def _unreachable(self, error: Exception) -> ApiError:
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        return ApiError(
            f"The API server {self.host} does not answer ({reason}). Check that `kubectl get pods` works here.", 0
        )

    def _error(self, method: str, path: str, status: int, message: str, details: Any = None) -> ApiError:
        text = f"The API server {self.host} answered {status} to {method} {path.partition('?')[0]}: {message}."
        if status == 404 and not (isinstance(details, dict) and details.get("name")) and f"/apis/{GROUP}/" in path:
            hint = f" The cluster lacks {GROUP}/{VERSION}: install kubernetes-sigs/agent-sandbox with its extensions."
        elif status == 403 and "quota" not in message:
            hint = " Give the account the role in examples/cluster/agent-sandbox.yaml."
        else:
            hint = {401: " Renew its credentials: `kubectl get pods` must work with the same context."}.get(status, "")
        return ApiError(text.replace("..", ".") + hint, status)


def _exists(files: str) -> bool:
    return any(Path(name).expanduser().is_file() for name in files.split(os.pathsep) if name)
