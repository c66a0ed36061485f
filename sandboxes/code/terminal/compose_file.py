"""Reads the docker-compose.yaml of a task whose containers are one: what its image is built of and how it runs.

Source: docs.docker.com/reference/compose-file. The values come from strangers: nothing of this host's environment is
put into them.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from agentgym import TaskError

from .build_context import Files
from .shell_words import expanded

MAX_CHARACTERS, MAX_ALIASES = 2**16, 16
KEEPS_RUNNING = re.compile(r"((/bin/)?(ba)?sh -l?c )?(sleep (infinity|inf|\d+)|tail -f /dev/null|(/bin/)?(ba)?sh)?")
WITHOUT_EFFECT = (
    "container_name",
    "depends_on",
    "dns",
    "expose",
    "healthcheck",
    "hostname",
    "init",
    "labels",
    "logging",
    "networks",
    "platform",
    "ports",
    "pull_policy",
    "restart",
    "shm_size",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "tmpfs",
    "tty",
    "ulimits",
    "user",
)
"""Settings of a service that change nothing that a task's commands see in a sandbox, or are set by the sandbox."""
READ = (
    "build",
    "command",
    "cpus",
    "deploy",
    "entrypoint",
    "environment",
    "image",
    "mem_limit",
    "network_mode",
    "volumes",
    "working_dir",
)
READ_OF_BUILD = ("args", "context", "dockerfile", "dockerfile_inline", "labels", "network", "tags", "target")
FOLDERS_OF_HARNESS = ("/logs", "/tests", "/solution", "/agent-logs", "/oracle", "/installed-agent")
VARIABLES = {
    "CONTEXT_DIR": ".",
    "ENV_AGENT_LOGS_PATH": "/logs/agent",
    "ENV_VERIFIER_LOGS_PATH": "/logs/verifier",
    "ENV_ARTIFACTS_PATH": "/logs/artifacts",
    "TEST_DIR": "/tests",
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
    "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
    "T_BENCH_TASK_BUILD_CONTEXT_DIR": ".",
    "T_BENCH_TEST_DIR": "/tests",
}
"""What Harbor and Terminal-Bench give to the file."""


@dataclass(frozen=True, slots=True)
class ComposeService:
    """The one service of a compose file.

    Attributes:
        dockerfile: its text; empty if the service has only an image.
        context: the folder of the build context, relative to the file's; empty for the same.
        arguments: values for the ARGs of the Dockerfile.
        target: the stage that is the image; empty for the last.
        image: the image of a service without a build.
        environment, workdir: as `docker run` takes them; empty where the image's own hold.
        has_network: whether the service may have a network.
        has_entrypoint: whether it replaces the image's entrypoint by one that only waits.
    """

    dockerfile: str = ""
    context: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    image: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    has_network: bool = True
    has_entrypoint: bool = field(default=False, repr=False)


def load_yaml(text: str, name: str) -> object:
    """Return the data of a YAML file. Raises: TaskError for a text that is not YAML, or is too large."""
    if len(text) > MAX_CHARACTERS:
        raise TaskError(f"{name} has more than {MAX_CHARACTERS} characters")
    try:
        aliases = sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        if aliases > MAX_ALIASES:  # merged aliases of aliases grow without bounds
            raise TaskError(f"{name} has more than {MAX_ALIASES} aliases; write out what they stand for")
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{name} is not valid YAML: {' '.join(str(error).split())[:200]}") from error


def read_compose(text: str, name: str, files: Files) -> ComposeService:
    """Read a compose file. `files`: those beside it.

    Raises: TaskError naming what one sandbox cannot do, and what to do about it.
    """
    data = load_yaml(text, name)
    services = data.get("services") if isinstance(data, Mapping) else None
    if not isinstance(services, Mapping) or not services:
        raise TaskError(f"{name} has no services")
    if len(services) > 1:
        raise TaskError(
            f"{name} has {len(services)} services ({', '.join(map(str, services))}), but a task is played in one "
            "sandbox; start the others in the Dockerfile's image, or leave the task out"
        )
    [service] = services.values()
    if not isinstance(service, Mapping):
        raise TaskError(f"the service of {name} must be a table")
    try:
        return _service(service, files)
    except TaskError as error:
        raise TaskError(f"the service of {name}: {error}") from error


def _service(service: Mapping[str, Any], files: Files) -> ComposeService:
    if unknown := [str(key) for key in service if key not in (*READ, *WITHOUT_EFFECT)]:
        raise TaskError(f"{', '.join(unknown)} cannot be had in a sandbox; remove it, or leave the task out")
    for key in ("command", "entrypoint"):
        words = service.get(key)
        command = " ".join(_texts(words, key)) if isinstance(words, list) else _text(words, key)
        if not KEEPS_RUNNING.fullmatch(" ".join(command.split()).strip(" ;")):
            raise TaskError(f"its {key} starts {command[:60]!r}, which is not done; start it in the task's commands")
    build = service.get("build")
    fields = _build(build, files) if build is not None else {}
    mounts = [mount for volume in service.get("volumes") or () if (mount := _mount(volume, files)) is not None]
    if mounts and (fields.get("context") or fields.get("target") or not fields):
        raise TaskError(f"it mounts {mounts[0][0]}, a folder of the host; COPY the files in the Dockerfile")
    if mounts:
        copies = (f"COPY {json.dumps(mount)}\n" for mount in mounts)
        fields["dockerfile"] = "\n".join([fields["dockerfile"], *copies])
    return ComposeService(
        **fields,
        image=_text(service.get("image"), "image"),
        environment=_pairs(service.get("environment"), "environment"),
        workdir=_text(service.get("working_dir"), "working_dir"),
        has_network=service.get("network_mode") != "none",
        has_entrypoint=service.get("entrypoint") is not None,
    )


def _build(build: object, files: Files) -> dict[str, Any]:
    parts = {"context": build} if isinstance(build, str) else build
    if not isinstance(parts, Mapping):
        raise TaskError("build must be a folder or a table")
    if unknown := [str(key) for key in parts if key not in READ_OF_BUILD]:
        raise TaskError(f"build.{', build.'.join(unknown)} is not supported; remove it")
    context = posixpath.normpath(_text(parts.get("context", "."), "build.context") or ".")
    if context.startswith(("/", "..")):
        raise TaskError(f"build.context is {context}, but must lie beside the file")
    folder = "" if context == "." else context
    inline, path = parts.get("dockerfile_inline"), _text(parts.get("dockerfile"), "build.dockerfile") or "Dockerfile"
    file = posixpath.normpath(posixpath.join(folder, path))
    if inline is None and file not in files:
        raise TaskError(f"there is no file {file}, which build.dockerfile names")
    return {
        "dockerfile": files[file][0].decode("utf-8", "replace") if inline is None else str(inline),
        "context": folder,
        "arguments": _pairs(parts.get("args"), "build.args"),
        "target": _text(parts.get("target"), "build.target"),
    }


def _mount(volume: object, files: Files) -> list[str] | None:
    """Return the source and target of a volume with files of the task's own folder, which an image can have as copies.

    Returns: None for a volume that begins empty, or that the harness fills. Raises: TaskError for other files of the
    host.
    """
    if isinstance(volume, Mapping):
        source, target = (_text(volume.get(key), "volumes") for key in ("source", "target"))
    else:
        source, _, rest = _text(volume, "volumes").partition(":")
        target = rest.partition(":")[0]
    target = posixpath.normpath(target) if target else ""
    is_own = any(target == folder or target.startswith(f"{folder}/") for folder in FOLDERS_OF_HARNESS)
    if not target or is_own or not source.startswith((".", "/", "~")):  # a volume with a name, or none, begins empty
        return None
    path = posixpath.normpath(source)
    if path.startswith(("..", "/", "~")):
        raise TaskError(f"it mounts {source}, a folder of the host; COPY the files in the Dockerfile")
    if path in files and files[path][1] <= 0o777:
        return [path, target]
    is_folder = path == "." or any(name.startswith(f"{path}/") for name in files)
    return [f"{path}/", f"{target.rstrip('/')}/"] if is_folder else None


def _pairs(data: object, name: str) -> Mapping[str, str]:
    """Return variables, which are a table or a list of NAME=value. Raises: TaskError."""
    if isinstance(data, Mapping):
        return {str(key): _text(value, name) for key, value in data.items()}
    pairs = (text.partition("=") for text in _texts(data, name))
    return {key: value for key, equals, value in pairs if equals}


def _texts(data: object, name: str) -> list[str]:
    if data is not None and not isinstance(data, list):
        raise TaskError(f"{name} must be a list, not {data!r:.60}")
    return [_text(entry, name) for entry in data or ()]


def _text(data: object, name: str) -> str:
    """Return a plain value as text, with the harness's variables in it; empty for nothing."""
    if data is None:
        return ""
    if not isinstance(data, str | int | float):
        raise TaskError(f"{name} must be a text, not {data!r:.60}")
    text = str(data).lower() if isinstance(data, bool) else str(data)
    try:
        return "$".join(expanded(part, VARIABLES, escape="\0", quotes=False) for part in text.split("$$"))
    except ValueError as error:
        raise TaskError(f"{name}: {error}") from error
