"""What the Docker daemon has at a moment, asked beside the backend under test."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from agentgym.sandbox.owner import LABEL


def daemon() -> Any:
    """A client of our own; close it."""
    import docker

    return docker.from_env()


def containers(*, of_everybody: bool = False) -> set[str]:
    """Names of the containers, running or not, that this process made: other tests may run at the same time."""
    client = daemon()
    try:
        listed = client.api.containers(all=True, filters={"label": LABEL})
    finally:
        client.close()
    ours = f"{os.getpid()}:"
    return {row["Names"][0].strip("/") for row in listed if of_everybody or row["Labels"][LABEL].startswith(ours)}


def inspected(name: str) -> dict[str, Any]:
    client = daemon()
    try:
        return client.api.inspect_container(name)
    finally:
        client.close()


def meeting_folders(pid: int | None = None) -> set[str]:
    """Names of the directories where a process, by default this one, meets its guests."""
    prefix = f"agentgym-docker-{os.getpid() if pid is None else pid}-"
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{prefix}*")}
