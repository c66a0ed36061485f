"""The sandbox of a terminal task: the image that its Dockerfile makes, with its whole file system writable."""

from __future__ import annotations

from agentgym import SandboxSpec
from agentgym.sandbox import Backend

from .base_images import BaseImage
from .build import build_image
from .build_sandbox import PRELOADED
from .folder import TerminalFolder

PROCESSES, INODES = 256, 200_000


async def open_task(backend: Backend, folder: TerminalFolder, images: dict[str, BaseImage]) -> tuple[SandboxSpec, str]:
    """Build the image of a task folder, unless it is in the cache.

    Returns: the spec of its sandboxes, and the folder in which their commands start.
    Raises: TaskError naming the step of the Dockerfile that fails; SandboxError.
    """
    image = await build_image(backend, folder, images)
    spec = SandboxSpec(
        image=image.digest,
        writable_root=True,
        memory_mib=folder.memory_mib,
        disk_mib=folder.disk_mib,
        cpu_cores=folder.cpu_cores,
        processes=PROCESSES,
        inodes=INODES,
        environment=tuple({**dict(image.config.environment), **folder.environment}.items()),
        preload=PRELOADED,
    )
    return spec, folder.workdir or image.config.workdir
