"""Read task folders of Harbor and Terminal-Bench that the user has."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from agentgym import Split, Task, TaskError, TaskSet, load

from .items import report_left_out

NAME, ENVIRONMENT = "code/harbor-v1", "agentgym/code-terminal-v1"
MARKS = ("task.toml", "task.yaml")
Progress = Callable[[int, int, int], None]


def load_harbor(
    path: str | Path,
    *,
    split: Split = "held_out",
    image: str = "",
    network: str = "tests",
    disk_mib: int = 0,
    build: str = "agentgym",
    progress: Progress = lambda done, total, left_out: None,
) -> TaskSet:
    """The task folders at or below a path, as tasks of `agentgym/code-terminal-v1`.

    Incomplete or unsupported folders are left out, and a LeftOutWarning names them. Do not move the folders: episodes
    and judges read them.

    Args:
        path: a task folder (task.toml or task.yaml), or a folder with such folders at any depth.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        image: one base image for all tasks, in place of those that their Dockerfiles name: an image in agentgym's
            cache, a path, or `host` for this host's programs.
        network: who may reach this host's package indexes: `none`, `tests` that install something, or `all`, the agent
            and the folders' solutions too.
        disk_mib: the most that the files of a sandbox may take, in MiB; by default an eighth of this machine's memory,
            in which they are.
        build: who builds the images and plays them: `agentgym` in its own sandboxes, or `docker`: its daemon and its
            containers. That needs the Dockerfiles' base images in the daemon.
        progress: called with the numbers of folders read, of all folders, and of those left out.
    Raises: TaskError if there is no task folder, or none that can be used.
    """
    top = Path(path)
    folders = sorted({mark.parent for name in MARKS for mark in top.rglob(name)})
    if not folders:
        raise TaskError(f"{path} contains no folder with a task.toml (Harbor) or a task.yaml (Terminal-Bench).")
    environment = load("environments", ENVIRONMENT)
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    for number, folder in enumerate(folders, 1):
        name = folder.relative_to(top).as_posix() if folder != top else folder.absolute().name
        try:
            fields = {
                **environment.task_of(folder, image=image, network=network, disk_mib=disk_mib, build=build),
                "id": name,
            }
            tasks.append(Task(environment=ENVIRONMENT, split=split, **fields))
        except TaskError as error:
            reasons[name] = str(error).removeprefix(f"{folder.absolute()}: ").removeprefix(f"{folder}: ")
        progress(number, len(folders), len(reasons))
    report_left_out(path, reasons, len(tasks))
    images = [image for task in tasks for image in task.parameters["images"] if image["stand_in"]]
    if images:
        lines = _counted(f"{image['requested']} by {image['used']}" for image in images)
        warnings.warn(f"{path}: base images are replaced by stand-ins, in other versions: {lines}.", stacklevel=2)
    disks = [task.parameters["disk"] for task in tasks]
    if capped := [disk for disk in disks if disk["used_mib"] < disk["requested_mib"]]:
        lines = _counted(f"{disk['used_mib']} MiB for {disk['requested_mib']}" for disk in capped)
        remedy = "--option disk_mib=N allows more"
        warnings.warn(f"{path}: tasks get less disk than they request: {lines}. {remedy}.", stacklevel=2)
    return TaskSet(NAME, {split: tasks}, oracle=environment.solution_of)


def _counted(lines: Iterable[str]) -> str:
    return ", ".join(f"{line} ({count})" for line, count in Counter(lines).most_common())
