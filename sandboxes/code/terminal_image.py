"""Prepares the initial state of a terminal task: an image, and the files that its Dockerfile's steps left."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import posixpath
import shutil
import sys
import tempfile
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from agentgym import SandboxSpec, SandboxUnavailable, TaskError
from agentgym.sandbox import Backend, Sandbox, Snapshot, cache_folder, rootfs, shared_snapshot

from .build_plan import STORE, BuildPlan, Step, expanded, stored
from .terminal_folder import TerminalFolder
from .transcript import last_lines

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
PROCESSES, INODES = 256, 50_000
MAX_MOVED = 200
HOME = "/root"


def image_of(base: str) -> str:
    """Return the image in agentgym's cache for an image that a FROM names: one of its name, such as
    `python-3.12-slim` for python:3.12-slim, else its stand-in, else `python3.12`, made from an interpreter.

    A Dockerfile must not name a path, because it is not trusted. Raises: TaskError saying how to get the image.
    """
    names = rootfs.names()
    version = base.partition(":")[2].partition("-")[0]
    likely = [base, base.replace(":", "-").replace("/", "-"), base.rpartition("/")[2].replace(":", "-")]
    stand_in = rootfs.stand_in_for(base)
    if stand_in is not None:
        likely.append(stand_in.name)
    if base.rpartition("/")[2].startswith("python:"):
        likely.append("python" + ".".join(version.split(".")[:2]))
    if match := next((name for name in likely if name in names), None):
        return match
    make = f"Make a stand-in for it by `agentgym sandbox base {base}`, put" if stand_in is not None else "Put"
    raise TaskError(
        f"its base image {base!r} is not in the cache (which has {', '.join(names) or 'none'}). {make} it there by "
        f"`docker save {base} -o {cache_folder() / 'images' / (likely[1] + '.tar')}`, or use another image for all "
        "tasks by --option image=NAME, where `host` means this host's programs"
    )


def chosen_image(name: str) -> str:
    """Return the image that the user named; a path becomes absolute. Raises: TaskError."""
    try:
        return name if name == rootfs.HOST_IMAGE or "/" not in name else str(rootfs.locate(name))
    except SandboxUnavailable as error:
        raise TaskError(str(error)) from error


def make_image(plan: BuildPlan, base: str) -> tuple[Path, tuple[tuple[str, str], ...]]:
    """Return the image of a plan (made if the cache lacks it), and the variables of its base. Raises: TaskError."""
    try:
        name = str(rootfs.make_python_image(HERE)) if base == rootfs.HOST_IMAGE else base
        source = rootfs.prepare_rootfs(name)
    except SandboxUnavailable as error:
        raise TaskError(str(error)) from error
    system = {path: [hashlib.sha256(data).hexdigest(), mode] for path, (data, mode) in sorted(plan.system.items())}
    key = hashlib.sha256(json.dumps([source.digest, plan.folders, system]).encode()).hexdigest()[:32]
    target = cache_folder() / "terminal" / key
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".scratch-", dir=target.parent) as scratch:
            unfinished = Path(scratch) / "image"
            root = unfinished / "root"
            shutil.copytree(source.root, root, symlinks=True, copy_function=_link)
            (unfinished / "moved").mkdir()
            for folder in plan.folders:
                _link_into_work(root, folder, unfinished / "moved")
            for path, (data, mode) in plan.system.items():
                file = _position(root, path)
                file.unlink(missing_ok=True)  # removed first, because it may be a hard link to a file of the base
                file.write_bytes(data)
                file.chmod(mode)
            try:
                unfinished.rename(target)
            except OSError:  # another process was faster
                if not target.is_dir():
                    raise
    return target, source.environment


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _position(root: Path, path: str) -> Path:
    """Return the host path of a path in an image, and make its folder. Raises: TaskError if links lead out of it."""
    position = root / path[1:]
    if not position.parent.resolve().is_relative_to(root.resolve()):
        raise TaskError(f"In the base image, links of {path} lead out of the image")
    position.parent.mkdir(parents=True, exist_ok=True)
    return position


def _link_into_work(root: Path, folder: str, moved: Path) -> None:
    """Replace a folder of the image below `root` by a link into /work. Its files go to `moved`, for the build."""
    path = _position(root, folder)
    if path.is_dir() and not path.is_symlink():
        if sum(1 for _ in islice(path.rglob("*"), MAX_MOVED + 1)) > MAX_MOVED:
            if folder == HOME:
                return  # programs are installed in this folder, so another one becomes the home folder
            raise TaskError(
                f"The base image has more than {MAX_MOVED} files in {folder}, too many to make this folder writable"
            )
        (moved / folder[1:]).parent.mkdir(parents=True, exist_ok=True)
        path.rename(moved / folder[1:])
    path.unlink(missing_ok=True)
    path.symlink_to(f"{STORE}{folder}")


async def spec_of(folder: TerminalFolder, base: str) -> SandboxSpec:
    """Return the spec of a task's sandbox. `base`: the name of the base image. Raises: TaskError."""
    image, variables = await asyncio.to_thread(make_image, folder.plan, base)
    home = HOME if (image / "root" / HOME[1:]).is_symlink() else f"{STORE}{HOME}"
    environment = {"HOME": home, **dict(variables)}
    environment |= {name: expanded(value, environment) for name, value in folder.plan.environment}
    return SandboxSpec(
        image=str(image / "root"),
        memory_mib=folder.memory_mib,
        disk_mib=folder.disk_mib,
        cpu_cores=folder.cpu_cores,
        processes=PROCESSES,
        inodes=INODES,
        environment=tuple(environment.items()),
    )


async def built(backend: Backend, folder: TerminalFolder, base: str) -> tuple[SandboxSpec, Snapshot]:
    """Return the spec of a task's sandbox and its initial files, which are made once and shared by all episodes.

    Raises: TaskError with the output of the step of the Dockerfile that fails; SandboxError.
    """
    spec = await spec_of(folder, base)
    snapshot = await shared_snapshot(
        backend, "terminal", f"{folder.digest}:{spec!r}", lambda: _build(backend, spec, folder)
    )
    return spec, snapshot


async def _build(backend: Backend, spec: SandboxSpec, folder: TerminalFolder) -> Snapshot:
    plan = folder.plan
    sandbox = await backend.create(spec)
    try:
        await _make(sandbox, plan.folders)
        moved = Path(spec.image).parent / "moved"
        files = [path for path in sorted(moved.rglob("*")) if path.is_file() and not path.is_symlink()]
        for path in files:
            target = stored(f"/{path.relative_to(moved).as_posix()}", plan.folders)
            await sandbox.write(target, path.read_bytes(), path.stat().st_mode & 0o777 | 0o600)
        for step in plan.steps:
            await _carry_out(sandbox, step, folder, dict(spec.environment))
        return await sandbox.snapshot()
    finally:
        await sandbox.close()


async def _carry_out(sandbox: Sandbox, step: Step, folder: TerminalFolder, variables: Mapping[str, str]) -> None:
    if step.kind == "folder":
        await _make(sandbox, [step.path])
    elif step.kind == "file":
        await sandbox.write(stored(step.path, folder.plan.folders), step.data, step.mode)
    else:
        result = await sandbox.exec(
            step.argv,
            cwd=step.cwd,
            env={name: expanded(value, variables) for name, value in step.environment},
            timeout_s=folder.build_s,
            max_output_bytes=2**20,
        )
        if not result.ok:
            ended = f"did not end in {folder.build_s:g} s" if result.timed_out else f"ended with {result.exit_code}"
            output = last_lines(result.stderr or result.stdout, 3)
            raise TaskError(
                f"{folder.name}: the step RUN {' '.join(step.argv)[-80:]!r} of its Dockerfile {ended}: {output} "
                f"(There is no network, and only {', '.join(folder.plan.folders)} and /tmp are writable.)"
            )


async def _make(sandbox: Sandbox, folders: list[str] | tuple[str, ...]) -> None:
    paths = [f"{STORE}{path}" if path else path for path in folders]
    result = await sandbox.exec(["mkdir", "-p", "--", *map(posixpath.normpath, paths)])
    if not result.ok:
        raise TaskError(f"The folders {', '.join(folders)} cannot be created: {last_lines(result.stderr, 2)}")
