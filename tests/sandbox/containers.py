"""What the Docker daemon has at a moment, asked beside the backend under test."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from agentgym.sandbox.docker.owner import FOLDER_PREFIX, LABEL


def daemon() -> Any:
    """A client of our own; close it."""
    import docker

    return docker.from_env()


def containers() -> set[str]:
    """Names of every container of agentgym's, running or not."""
    client = daemon()
    try:
        return {one.name for one in client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)}
    finally:
        client.close()


def inspected(name: str) -> dict[str, Any]:
    client = daemon()
    try:
        return client.api.inspect_container(name)
    finally:
        client.close()


def meeting_folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*")}
