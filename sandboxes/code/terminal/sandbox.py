"""The sandbox of a terminal task: the image that its Dockerfile makes, with its whole file system writable."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym import SandboxSpec, Task, TaskError
from agentgym.sandbox import Backend, ExecResult, Sandbox

from .base_images import BaseImage, base_images, images_from
from .build import build_image
from .build_context import Files
from .build_sandbox import PRELOADED
from .daemon_build import DOCKER, build_by_daemon, docker_backend, is_docker
from .disk import disk_from
from .folder import SandboxSetup, TaskStep, TerminalFolder
from .task_network import TaskNetwork

PROCESSES, INODES = 256, 200_000
OUTPUT = 2**16
BUILDERS = ("agentgym", DOCKER)
"""Who builds images: agentgym in sandboxes, or Docker's daemon; who has them plays them too."""


ENTRYPOINT = 'cd "$0"; exec "$@" > /dev/null 2>&1 < /dev/null'
IDLE = ("sh", "-c", "sleep infinity")
"""What Harbor gives an image's entrypoint in place of its CMD."""


@dataclass(frozen=True, slots=True)
class TaskImage:
    """How the image of a task is played.

    Attributes:
        spec: the spec of its sandboxes. workdir: the folder in which their commands start.
        entrypoint: the image's own program, which runs beside all commands; empty for none.
    """

    spec: SandboxSpec
    workdir: str
    entrypoint: tuple[str, ...]

    async def start(self, sandbox: Sandbox) -> None:
        """Start the entrypoint, which may start services, in a new sandbox."""
        if self.entrypoint:
            await sandbox.open_channel(["sh", "-c", ENTRYPOINT, self.workdir, *self.entrypoint, *IDLE])


async def open_task(backend: Backend, task: Task, setup: SandboxSetup) -> TaskImage:
    """Build the image of a task's sandbox, unless it is in the cache or in Docker's daemon.

    Args:
        backend: from `playing`. setup: the task's folder, or the verifier of one of its steps.
    Raises: TaskError naming the step of the Dockerfile that fails; SandboxError.
    """
    if is_built_by_docker(task):
        bases = base_images(setup.dockerfile, builder=DOCKER)
        image = await build_by_daemon(setup, [base.requested for base in bases])
    else:
        image = await build_image(backend, setup, _images_of(task))
    spec = SandboxSpec(
        image=image.digest,
        writable_root=True,
        memory_mib=setup.memory_mib,
        disk_mib=disk_from(task.parameters, setup.disk_mib),
        cpu_cores=setup.cpu_cores,
        processes=PROCESSES,
        inodes=INODES,
        environment=tuple({**dict(image.config.environment), **setup.environment}.items()),
        preload=PRELOADED,
    )
    entrypoint = image.config.entrypoint if setup.starts_entrypoint else ()
    return TaskImage(spec, setup.workdir or image.config.workdir, entrypoint)


def is_built_by_docker(task: Task) -> bool:
    """Return whether Docker's daemon builds the image of a task. Raises: TaskError for an unknown builder."""
    builder = checked_builder(task.parameters.get("build", BUILDERS[0]))
    return builder == DOCKER


def checked_builder(value: object) -> str:
    """Return a task's parameter `build`. Raises: TaskError."""
    if value not in BUILDERS:
        raise TaskError(f"build must be one of {', '.join(BUILDERS)}, not {value!r:.80}")
    return str(value)


def playing(backend: Backend, task: Task) -> Backend:
    """Return the backend that plays a task: Docker's for an image of its daemon, whatever else is chosen.

    Raises: TaskError if Docker is to play an image that is not in its daemon.
    """
    if is_built_by_docker(task):
        return docker_backend(backend)
    if is_docker(backend):
        raise TaskError(
            f"{task.id} is built in agentgym's cache, of which Docker's daemon knows nothing. Import it again by "
            "`agentgym tasks import harbor FOLDER --option build=docker`, or play it on the backend namespaces."
        )
    return backend


async def run_tests(
    sandbox: Sandbox, image: TaskImage, step: TaskStep, network: TaskNetwork, tests: Files | None = None
) -> ExecResult:
    """Run the test script of a step in a sandbox of its image. `tests`: the files of /tests, if not the step's.

    An image that has its tests gets those that differ alone.
    """
    await network.prepare(sandbox)
    files = step.tests if tests is None else tests
    if step.brings_tests:
        files = {path: file for path, file in files.items() if step.tests.get(path) != file}
    for path, (data, mode) in files.items():
        await sandbox.write(f"/tests/{path}", data, mode)
    await sandbox.exec(["mkdir", "-p", "/logs/verifier", "/logs/agent"])
    return await sandbox.exec(
        ["bash", f"/tests/{step.test_script}"],
        cwd=image.workdir,
        env={"PYTHONNOUSERSITE": "1", **network.variables(image.spec), **step.verifier_environment},
        timeout_s=step.verifier_s,
        max_output_bytes=OUTPUT,
    )


def folder_of(task: Task) -> TerminalFolder:
    """Read the folder of a task. Raises: TaskError if it is missing, or has changed since it was imported."""
    path, digest = task.parameters.get("folder"), task.parameters.get("digest")
    if not isinstance(path, str):
        raise TaskError(f"{task.id} needs the parameter 'folder'. Import it by `agentgym tasks import harbor`.")
    folder = TerminalFolder.read(path)
    if digest != folder.digest:
        raise TaskError(f"{task.id}: {path} has changed since it was imported. Import it again.")
    return folder


def _images_of(task: Task) -> dict[str, BaseImage]:
    """Return the images of a task by the names that its Dockerfile has. Raises: TaskError if they are missing."""
    try:
        return images_from(task.parameters["images"])
    except (KeyError, TypeError) as error:
        raise TaskError(
            f"{task.id} has no valid parameter 'images'. Import it again by `agentgym tasks import harbor`."
        ) from error
