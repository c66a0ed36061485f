"""What of the network the commands of a terminal task may reach: nothing, or this host's package indexes."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol

from agentgym import SandboxSpec, SandboxUnavailable, TaskError
from agentgym.sandbox import Sandbox, rootfs

from .build_context import Files
from .uv import find_uv, uv_wrapper

ALLOWED = "AGENTGYM_BUILD_ALLOW"
"""The variable with further hosts that may be reached, separated by blanks, as `SandboxSpec.network` has them."""
NETWORKS = ("none", "tests", "all")
"""Who may reach the indexes while a task is played: nobody, the tests that install something, or the agent too."""
INSTALLER = re.compile(rb"\b(?:apt|apt-get|pip|pip3|npm|yarn|pnpm)\b[^\n]*\b(?:install|add|ci)\b|\bnpx\b|\buvx?\b")
DOWNLOADS = f"{rootfs.INDEX_FOLDER}/downloads"
"""The folder in which apt, pip, uv and npm keep what tests download."""
UPDATED = f"{DOWNLOADS}/updated"
"""The file that says that the image has package lists."""
APT_SETTINGS = f'''Dir::Cache::archives "{DOWNLOADS}/apt/";
APT::Keep-Downloaded-Packages "true";
Binary::apt::APT::Keep-Downloaded-Packages "true";
'''
UV = re.compile(rb"\buvx?\b")
UNREACHABLE = ("cannot be reached", "no known address")
APT_WRAPPER = f"""#!/bin/sh
# Uses the package lists that are here, and fetches them again only if they do not serve.
apt=/usr/bin/$(basename "$0")
case " $* " in *" update "*) [ -e {UPDATED} ] && exit 0 ;; esac
"$apt" "$@" && exit 0
code=$?
[ -e {UPDATED} ] || exit $code
rm -f {UPDATED}
"$apt" -qq update && exec "$apt" "$@"
"""


class Connected(Protocol):
    """A sandbox, or a build that has ended."""

    @property
    def connections(self) -> tuple[Any, ...]:
        """Return the requests to the network, in order."""


@dataclass(frozen=True, slots=True)
class TaskNetwork:
    """What a sandbox of a task needs to reach package indexes.

    Attributes:
        names: for `SandboxSpec.network`. programs: for `SandboxSpec.programs`.
        environment: variables of the commands. files: what these name, by path. path: folders before those of PATH.
    """

    names: tuple[str, ...]
    programs: tuple[str, ...]
    environment: Mapping[str, str]
    files: Mapping[str, bytes]
    path: tuple[str, ...] = ()

    def spec(self, spec: SandboxSpec) -> SandboxSpec:
        """Return the spec of a sandbox with this network."""
        return replace(spec, network=self.names or False, programs=self.programs)

    async def prepare(self, sandbox: Sandbox) -> None:
        """Write the files that the variables name."""
        for path, data in self.files.items():
            await sandbox.write(path, data, 0o755)

    def variables(self, spec: SandboxSpec) -> dict[str, str]:
        """Return the variables of a command, with those of its sandbox's PATH."""
        if not self.path:
            return dict(self.environment)
        own = dict(spec.environment).get("PATH", os.defpath)
        return {**self.environment, "PATH": ":".join([*self.path, own])}


NO_NETWORK = TaskNetwork((), (), {}, {})


def host_indexes() -> rootfs.PackageIndexes:
    """Return the package indexes of this host, with the hosts that AGENTGYM_BUILD_ALLOW names. Asked for once."""
    return _indexes(os.environ.get(ALLOWED, ""))


@cache
def _indexes(allowed: str) -> rootfs.PackageIndexes:
    return rootfs.package_indexes(allowed.split())


def checked_network(value: object) -> str:
    """Return a task's parameter `network`. Raises: TaskError."""
    if value not in NETWORKS:
        raise TaskError(f"network must be one of {', '.join(NETWORKS)}, not {value!r:.80}")
    return str(value)


async def network_of_agent(network: str) -> TaskNetwork:
    """Return what the agent's commands may reach."""
    if network != "all":
        return NO_NETWORK
    indexes = await asyncio.to_thread(host_indexes)
    return TaskNetwork(indexes.network, (), indexes.environment, indexes.files)


async def network_of_tests(network: str, tests: Files) -> TaskNetwork:
    """Return what a test script may reach: the indexes, if it installs something. If it uses uv, it gets uv.

    Raises: SandboxUnavailable if uv cannot be installed.
    """
    data = b"\n".join(content for content, _ in tests.values())
    if network == "none" or not INSTALLER.search(data):
        return NO_NETWORK
    indexes = await asyncio.to_thread(host_indexes)
    caches = {"PIP_CACHE_DIR": "pip", "UV_CACHE_DIR": "uv", "NPM_CONFIG_CACHE": "npm"}
    environment = {**indexes.environment, **{name: f"{DOWNLOADS}/{folder}" for name, folder in caches.items()}}
    apt = indexes.environment["APT_CONFIG"]
    files = {**indexes.files, apt: indexes.files[apt] + APT_SETTINGS.encode(), f"{DOWNLOADS}/apt/partial/.used": b""}
    folder = f"{rootfs.INDEX_FOLDER}/bin"
    files |= {f"{folder}/{name}": APT_WRAPPER.encode() for name in ("apt", "apt-get")}
    if not UV.search(data):
        return TaskNetwork(indexes.network, (), environment, files, (folder,))
    uv = await asyncio.to_thread(find_uv)
    files |= {f"{folder}/{name}": uv_wrapper(uv, name) for name in uv.commands}
    environment |= {"UV_PYTHON_DOWNLOADS": "never", "UV_NATIVE_TLS": "1"}
    return TaskNetwork(indexes.network, (uv.name,), environment, files, (folder,))


def check_reached(source: Connected, who: str, seen: int = 0) -> None:
    """Check that each allowed host answered. `seen`: how many connections not to look at.

    Raises: SandboxUnavailable.
    """
    for connection in source.connections[seen:]:
        if not connection.bytes_received and any(text in connection.reason for text in UNREACHABLE):
            raise SandboxUnavailable(
                f"{who} needs {connection.host}, and this host's network does not reach it: {connection.reason} "
                "Repeat the command when it does."
            )
