"""Calls the Docker daemon in threads, and interprets its answers and errors."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from agentgym._imports import install_command
from agentgym.errors import SandboxError, SandboxUnavailable

STANDARD_IMAGE = "agentgym/base"  # the image that the name "host" stands for
THREADS = 2 * (os.cpu_count() or 1)  # concurrent calls to the daemon: more would only wait
_DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
_TIMEOUT_S = 60.0
_ENDING_S = 10.0
_REMEMBERED_S, _NOTICING_S = 600, 1  # whole seconds: how far back to look for an event, and how long to wait for one
_HINT = (
    "Install and start Docker (Debian, Ubuntu: sudo apt-get install docker.io), let this user reach it "
    "(sudo usermod -aG docker $USER, then log in again), or set DOCKER_HOST."
)

_FACTS = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "processes": "PidsLimit"}
_DELEGATE = "Remedy: run the daemon as root, or give a rootless one a delegated cgroup v2 (systemd: Delegate=yes)."
_RUNC = "Remedy: the runtime runc or crun, if this limit matters more than gVisor's own kernel."
# gVisor enforces these limits from outside: exceeding one ends the whole sandbox, and the episode does not count
_OWN_KERNEL = {
    "memory": f"each process alone is bounded; too much in all ends the sandbox. {_RUNC}",
    "processes": f"too many end the sandbox. {_RUNC}",
    "cpu": f"the bound is on gVisor as a whole, and what the sandbox itself measures is not exact. {_RUNC}",
    "inodes": f"the number of files is bounded only by the memory that they take. {_RUNC}",
    "guest": f"the agent can read how process 1 was started, but cannot act on it. {_RUNC}",
}

T = TypeVar("T")


@dataclass(frozen=True)
class DockerImage:
    """An image of the daemon.

    `digest`: sha256:... of its content. `environment`, `volumes`, `workdir`, `entrypoint`: as the image declares them.
    """

    name: str
    digest: str
    environment: dict[str, str]
    volumes: tuple[str, ...]
    workdir: str = "/"
    entrypoint: tuple[str, ...] = ()


class Daemon:
    """One connection to the daemon, opened at first use.

    Safe from any thread; submitted calls run in its own threads.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="agentgym-docker")
        self._lock = threading.Lock()
        self._api: Any = None
        self._facts: dict[str, Any] = {}

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Run a function that waits for the daemon, in a thread. Failures are raised as SandboxUnavailable."""
        try:
            return self._threads.submit(_translated, function, *arguments)
        except RuntimeError as error:
            raise SandboxUnavailable("The docker backend was closed while it created a sandbox.") from error

    def close(self) -> None:
        """Wait for submitted calls to end, and disconnect."""
        self._threads.shutdown(wait=True)
        if self._api is not None:
            self._api.close()

    # The methods below wait for the daemon: call them in a thread

    @property
    def api(self) -> Any:
        """Return the SDK's client. Raises: SandboxUnavailable without the SDK, or if no daemon answers."""
        with self._lock:
            if self._api is None:
                self._api, self._facts = _connect()
            return self._api

    @property
    def facts(self) -> dict[str, Any]:
        """Return what the daemon reports about itself."""
        assert self.api
        return self._facts

    def image(self, name: str) -> DockerImage:
        """Return an image, without ever pulling it. Raises: SandboxUnavailable if the daemon has no such image."""
        full_name = STANDARD_IMAGE if name == "host" else name
        try:
            facts = self.api.inspect_image(full_name)
        except _sdk().errors.NotFound as error:
            remedy = (
                "Build it (`make images` in a checkout of agentgym, on a Debian or Ubuntu machine), or name another."
            )
            if name != "host":
                remedy = "Build, load or pull it (docker images lists what there is); agentgym never pulls images."
            raise SandboxUnavailable(f"The Docker daemon has no image {full_name!r}. {remedy}") from error
        pairs = (variable.partition("=") for variable in facts["Config"].get("Env") or ())
        volumes, workdir = tuple(facts["Config"].get("Volumes") or ()), facts["Config"].get("WorkingDir") or "/"
        environment = {name: value for name, _, value in pairs}
        entrypoint = tuple(facts["Config"].get("Entrypoint") or ())
        return DockerImage(full_name, facts["Id"], environment, volumes, workdir, entrypoint)

    def start(self, name: str, settings: dict[str, Any]) -> None:
        """Create and start a container. Raises: SandboxUnavailable with the daemon's reason."""
        try:
            self.api.create_container_from_config(settings, name)
            self.api.start(name)
        except _sdk().errors.APIError as error:
            reason = str(error.explanation or error).strip()
            hint = ""
            if "python3" in reason:
                hint = " The image needs Python 3.9 or later, as python3."
            elif "source path does not exist" in reason:
                hint = (
                    " The daemon does not see this process's files: it runs on another machine or in another container."
                    " Give a directory that both see under one path: DockerBackend(folder=...)."
                )
            raise SandboxUnavailable(f"Docker cannot start a container: {reason:.1000}.{hint}") from error

    def end_of(self, name: str) -> str | None:
        """Return how a container ended; None while it runs."""
        try:
            state = self.api.inspect_container(name)["State"]
        except _sdk().errors.NotFound:
            return "it was removed"
        return None if state["Running"] else f"it ended with exit code {state['ExitCode']} {state['Error']}".strip()

    def ran_out_of_memory(self, name: str) -> bool:
        """Return whether the daemon saw a container reach its memory limit. The daemon remembers some 250 events."""
        now = int(time.time())
        filters = {"container": name, "event": "oom"}
        events = self.api.events(since=now - _REMEMBERED_S, until=now + _NOTICING_S, filters=filters)
        try:
            return any(events)
        finally:
            events.close()

    def remove(self, name: str, *, ending: bool = True) -> None:
        """Remove a container in any state, and wait until it is gone.

        Args:
            ending: the link to its guest was closed, so give it time to end by itself before removing it by force.
        Raises: SandboxError if the daemon cannot remove it.
        """
        failure: Exception | None = None
        for by_force in (False, True) if ending else (True, True):
            try:
                if by_force:
                    self._force(name)
                self.api.wait(name, timeout=_ENDING_S, condition="removed")
                return
            except _sdk().errors.NotFound:
                return
            except _failures() as error:
                failure = error
        raise SandboxError(f"Docker cannot remove the container {name}: {failure!s:.500}") from failure

    def _force(self, name: str) -> None:
        try:
            self.api.remove_container(name, v=True, force=True)
        except _sdk().errors.APIError as error:
            if error.status_code != 409:  # being removed already
                raise

    def containers(self, label: str) -> list[dict[str, Any]]:
        """Return every container with a label, running or not, as the daemon lists it."""
        containers: list[dict[str, Any]] = self.api.containers(all=True, filters={"label": label})
        return containers

    def load_of(self, listed: dict[str, Any]) -> tuple[float, int]:
        """Return a listed container's memory in MiB and number of processes; zeros if it does not run."""
        if listed["State"] != "running":
            return 0.0, 0
        try:
            stats = self.api.stats(listed["Id"], stream=False, one_shot=True)
        except (_sdk().errors.APIError, ValueError):  # it has just ended
            return 0.0, 0
        memory, processes = stats.get("memory_stats") or {}, stats.get("pids_stats") or {}
        return memory.get("usage", 0) / 2**20, processes.get("current", 0)


def missing_limits(facts: dict[str, Any], runtime: str | None) -> dict[str, str]:
    """Return the limits that the daemon does not enforce, each with the reason.

    Raises: SandboxUnavailable for an unknown runtime.
    """
    if runtime is not None and runtime not in facts["Runtimes"]:
        raise SandboxUnavailable(
            f"The Docker daemon has no runtime {runtime!r}, only {', '.join(sorted(facts['Runtimes']))}. Add it by "
            f"dockerd --add-runtime {runtime}=/path/of/{runtime}, or in /etc/docker/daemon.json."
        )
    missing = {
        name: f"the daemon's control groups have no controller for it. {_DELEGATE}"
        for name, fact in _FACTS.items()
        if not facts.get(fact, True)
    }
    return {**missing, **(_OWN_KERNEL if has_own_kernel(facts, runtime) else {})}


def has_own_kernel(facts: dict[str, Any], runtime: str | None) -> bool:
    """Return whether containers run on gVisor: the runtime's program is runsc, whatever its name in the daemon."""
    runtime_facts = facts["Runtimes"].get(runtime or facts["DefaultRuntime"], {})
    return Path(runtime_facts.get("path", "")).name.startswith("runsc")


def _connect() -> tuple[Any, dict[str, Any]]:
    sdk = _sdk()
    options = sdk.utils.kwargs_from_env()
    address = options.get("base_url", _DEFAULT_ADDRESS)
    if not address.startswith(("unix://", "http+unix://")):
        raise SandboxUnavailable(
            f"DOCKER_HOST is {address}. The docker backend talks to its sandboxes over a local socket, so it needs the "
            "daemon of this machine: unset DOCKER_HOST, or point it at a unix:// socket."
        )
    try:
        _reach(address.partition("://")[2])
        api = sdk.APIClient(version="auto", timeout=_TIMEOUT_S, num_pools=THREADS, **options)
        api.headers["Connection"] = "close"  # idle connections take descriptors, and break when the daemon restarts
        return api, api.info()
    except _failures() as error:
        raise SandboxUnavailable(f"No Docker daemon answers at {address}: {error!s:.300}. {_HINT}") from error


def _reach(path: str) -> None:
    """Try once to connect. Raises: OSError with the plain reason, which the SDK would wrap three times."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_TIMEOUT_S)
        probe.connect("/" + path.lstrip("/"))


def _translated(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except SandboxError:
        raise
    except _failures() as error:
        raise SandboxUnavailable(f"The Docker daemon failed: {error!s:.500}. {_HINT}") from error


def _failures() -> tuple[type[Exception], ...]:
    """Return the exceptions that the SDK raises when the daemon fails or is gone."""
    return _sdk().errors.DockerException, OSError


def _sdk() -> Any:
    """Return the Docker SDK. Raises: SandboxUnavailable with the command to install it."""
    try:
        import docker.errors
        import docker.utils
    except ImportError as error:  # also raised if a folder docker/ in the current directory hides the package
        raise SandboxUnavailable(
            "The docker backend needs the Docker SDK for Python, which is not installed. "
            f"Install it: {install_command('docker')}."
        ) from error
    return docker
