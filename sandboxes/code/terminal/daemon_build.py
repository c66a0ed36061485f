"""Builds the image of a task folder with Docker's daemon, which reads the folder's own Dockerfile.

The package indexes of this host are named by ARGs, and by files that are copied before the first command of a stage and
removed after the last. The daemon keeps what it has built under a name that hashes all that it is built from.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Mapping

from agentgym import SandboxUnavailable, TaskError, shared_backend
from agentgym.sandbox import Backend, DockerBackend, rootfs

from .bounded_build import ImageBuild, bounded_build
from .build_context import packed
from .build_sandbox import refusals
from .build_steps import Download, ImageConfig
from .built_image import BuiltImage, locked, records, remember_failure, remembered_failure
from .disk import disk_of_build
from .dockerfile import Dockerfile
from .dockerfile_lines import DockerInstruction, split_instructions
from .folder import SandboxSetup
from .task_network import host_indexes

DOCKER = "docker"
REPOSITORY = "agentgym-build"
INDEXES = ".agentgym-indexes"
MEMORY_MIB = 2048
WITHOUT = "Imported without --option build=docker, the folder is built by agentgym, which can do that."
CLEAN_UP = json.dumps(["sh", "-c", f"rm -rf {rootfs.INDEX_FOLDER} || true"])


def is_docker(backend: Backend) -> bool:
    """Return whether a backend plays images of the daemon; it may be a pool of such sandboxes."""
    return backend.name.endswith(DOCKER)


def docker_backend(backend: Backend) -> Backend:
    """Return the backend itself if it plays images of the daemon, else the shared one that does."""
    return backend if is_docker(backend) else shared_backend(DOCKER)


async def build_by_daemon(setup: SandboxSetup, bases: list[str]) -> BuiltImage:
    """Build the image of a sandbox, or find it in the daemon. `bases`: the images that its Dockerfile names.

    Raises: TaskError naming the instruction that fails, its last lines, and what the network refused;
        SandboxUnavailable if the daemon has none of a base's name, or cannot build.
    """
    backend = shared_backend(DOCKER)
    assert isinstance(backend, DockerBackend)
    _check_downloads(setup)
    below = [await backend.image(name) for name in bases]
    indexes = await asyncio.to_thread(host_indexes)
    text = with_indexes(setup.dockerfile, indexes.environment)
    files: dict[str, tuple[bytes, int]] = {**setup.context, "Dockerfile": (text.encode(), 0o644)}
    for path, data in indexes.files.items():
        files[path.replace(rootfs.INDEX_FOLDER, INDEXES, 1)] = (data, 0o644)
    context = packed(files)
    target, disk_mib = _target(setup.dockerfile), disk_of_build(setup.disk_mib)
    content = [text, target, sorted(setup.dockerfile.arguments.items()), [image.digest for image in below]]
    key = hashlib.sha256(json.dumps(content).encode() + context).hexdigest()[:32]
    name = f"{REPOSITORY}:{key}"
    async with locked(records() / f"{key}.lock"):
        try:
            image = await backend.image(name)
        except SandboxUnavailable:
            failure = records() / f"{key}.failed"
            conditions = [list(indexes.network), setup.build_s, setup.memory_mib, disk_mib]
            if about := remembered_failure(failure, conditions):
                raise TaskError(f"{setup.name}: {about[0]}") from None
            print(f"{setup.name}: the Docker daemon builds {name}", file=sys.stderr, flush=True)
            order = ImageBuild(
                name,
                context,
                base=bases[0],
                arguments={**indexes.environment, **setup.dockerfile.arguments},
                target=target,
                network=indexes.network,
                step_s=setup.build_s,
                memory_mib=max(MEMORY_MIB, setup.memory_mib),
                disk_mib=disk_mib,
            )
            end = await bounded_build(backend, order)
            if end.reason:
                where = f"{end.step[:80]!r} of its Dockerfile, built by Docker," if end.step else "its Dockerfile"
                remedy = f" {WITHOUT}" if "BuildKit" in end.reason else ""
                text = f"{where} {end.reason}{refusals(end)}{remedy}"
                remember_failure(failure, conditions, [text])
                raise TaskError(f"{setup.name}: {text}") from None
            image = await backend.image(name)
    config = ImageConfig(tuple(image.environment.items()), image.workdir, entrypoint=image.entrypoint)
    return BuiltImage(image.digest, config)


def _check_downloads(setup: SandboxSetup) -> None:
    """Raise TaskError for an ADD of a URL: the daemon itself would fetch it, past the list of what may be reached."""
    for stage in setup.dockerfile.stages:
        for step in stage.steps(ImageConfig())[0]:
            if isinstance(step, Download):
                raise TaskError(
                    f"{setup.name}: line {step.line} of its Dockerfile adds {step.url:.80}, which Docker's daemon "
                    f"would fetch past the allowed hosts. Fetch it by RUN. {WITHOUT}"
                )


def with_indexes(dockerfile: Dockerfile, variables: Mapping[str, str]) -> str:
    """Return the text of a Dockerfile in which the commands of each stage reach the package indexes of this host."""
    lines = dockerfile.text.removeprefix("\ufeff").split("\n")
    instructions, _ = split_instructions(dockerfile.text)
    begin = [*(f"ARG {name}" for name in variables), f"COPY {INDEXES} {rootfs.INDEX_FOLDER}"]
    for stage in reversed(_stages(instructions)):
        commands = [instruction for instruction in stage[0] if instruction.name == "RUN"]
        if not commands:
            continue
        user = next((i.arguments for i in reversed(stage[0]) if i.name == "USER"), "")
        as_root = ["USER root", f"RUN {CLEAN_UP}", f"USER {user}"] if user else [f"RUN {CLEAN_UP}"]
        end = stage[1] if stage[1] is not None else len(lines)
        lines[end:end] = as_root
        start = stage[0][1].line - 1
        lines[start:start] = begin
    return "\n".join(lines) + "\n"


def _target(dockerfile: Dockerfile) -> str:
    """Return the name of the stage that is the image; empty for the last one."""
    instructions, _ = split_instructions(dockerfile.text)
    count = sum(instruction.name == "FROM" for instruction in instructions)
    return dockerfile.target.name if len(dockerfile.stages) < count else ""


def _stages(instructions: list[DockerInstruction]) -> list[tuple[list[DockerInstruction], int | None]]:
    """Return the instructions of each stage, and the index of the line after them; None for the end of the text."""
    starts = [number for number, instruction in enumerate(instructions) if instruction.name == "FROM"]
    ends = [*starts[1:], None]
    return [
        (instructions[start:end], None if end is None else instructions[end].line - 1)
        for start, end in zip(starts, ends, strict=True)
    ]
