"""Builds the image of a Dockerfile: each RUN, with the copies before it, makes a layer that is kept by its content.

An image is recorded under a hash of the image below and the steps, with the files that they copy. So task folders whose
Dockerfiles begin alike share these layers, whichever process makes them. KEY.failed beside the record says which step
has failed, and why; it is valid for some minutes, and in that process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentgym import SandboxSpec, TaskError
from agentgym.sandbox import Backend, Sandbox, rootfs

from .base_images import BaseImage, unpacked_base
from .build_context import copied_files
from .build_sandbox import PRELOADED, BuildSandbox
from .build_steps import Copy, ImageConfig, Run, Step
from .built_image import BuiltImage, recorded_image, remember_failure, remembered_failure
from .disk import ALLOWED as DISK_ALLOWED
from .disk import disk_of_build
from .dockerfile import BuildStage
from .folder import SandboxSetup
from .task_network import ALLOWED, host_indexes
from .uv import INSTALLER, SITE, find_uv
from .uv import PROGRAM as UV

MEMORY_MIB, CPU_CORES, PROCESSES, INODES = 2048, 2.0, 512, 500_000
"""Limits of a build; a task's own memory is allowed where it is more. Files count as memory too."""
MAX_LAYERS = 40
MAX_TEXT = 70
USED_UP = ("No space left on device", "as much data as it may")
"""What a failed step prints, and what the network says, when the disk or the transfer is used up."""


async def build_image(backend: Backend, setup: SandboxSetup, images: Mapping[str, BaseImage]) -> BuiltImage:
    """Build the image of a sandbox, or find it in the cache. Says on standard error which steps are carried out.

    Args: `images`, those that the Dockerfile names.
    Raises: TaskError naming the step that fails, its last lines, and what the network refused; SandboxError.
    """
    return await _Build(backend, setup, images).image()


class _Build:
    def __init__(self, backend: Backend, setup: SandboxSetup, images: Mapping[str, BaseImage]) -> None:
        self._backend, self._setup, self._images = backend, setup, images
        self._stages: dict[str, tuple[rootfs.RootFilesystem, ImageConfig]] = {}
        self._disk_mib = disk_of_build(setup.disk_mib)
        self._count = self._total = 0

    async def image(self) -> BuiltImage:
        stages = self._setup.dockerfile.needed()
        self._total = sum(len(stage.steps(ImageConfig())[0]) for stage in stages)
        for stage in stages:
            self._stages[stage.name] = await self._stage(stage)
        filesystem, config = self._stages[stages[-1].name]
        return BuiltImage(filesystem.digest, config)

    async def _stage(self, stage: BuildStage) -> tuple[rootfs.RootFilesystem, ImageConfig]:
        if stage.from_stage:
            below, config = self._stages[stage.base]
        else:
            below = await self._base(stage.base)
            config = ImageConfig(environment=below.environment)
        steps, config = stage.steps(config)
        key = below.digest
        for group in _groups(steps, MAX_LAYERS - len(below.layers)):
            parts = [key, *[await self._content(step) for step in group]]
            key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
            below = await self._layer(key, below, group)
            self._count += len(group)
        return below, config

    async def _base(self, name: str) -> rootfs.RootFilesystem:
        if name not in self._images:
            raise TaskError(f"its parameters name no image for {name!r}. Import it again.")
        return await asyncio.to_thread(unpacked_base, self._images[name])

    async def _content(self, step: Step) -> str:
        """Return what a step's result depends on, beside the image below."""
        text = repr(replace(step, line=0, text=""))
        if await _uses_uv(step):
            text += UV
        if isinstance(step, Copy) and step.from_stage:
            text += (await self._source(step.from_stage)).digest
        elif isinstance(step, Copy):
            files = copied_files(step, self._setup.context, into_folder=step.into_folder)
            total = hashlib.sha256()
            for path, (data, mode) in sorted(files.items()):
                total.update(f"{path} {mode} {hashlib.sha256(data).hexdigest()}\n".encode("utf-8", "surrogateescape"))
            text += total.hexdigest()
        return text

    async def _source(self, name: str) -> rootfs.RootFilesystem:
        """Return the files of an earlier stage, or of an image."""
        return self._stages[name][0] if name in self._stages else await self._base(name)

    async def _layer(self, key: str, below: rootfs.RootFilesystem, steps: Sequence[Step]) -> rootfs.RootFilesystem:
        async def make(record: Path) -> rootfs.RootFilesystem:
            failure = record.with_suffix(".failed")
            if about := remembered_failure(failure, self._conditions()):
                raise self._error(steps, *about)
            try:
                return await self._make(below, steps)
            except _StepFailed as error:
                remember_failure(failure, self._conditions(), [error.index, error.reason])
                raise self._error(steps, error.index, error.reason) from error

        return await recorded_image(key, make)

    async def _make(self, below: rootfs.RootFilesystem, steps: Sequence[Step]) -> rootfs.RootFilesystem:
        indexes = await asyncio.to_thread(host_indexes)
        uses_uv = any([await _uses_uv(step) for step in steps])
        uv = await asyncio.to_thread(find_uv) if uses_uv else None
        spec = SandboxSpec(
            image=below.digest,
            writable_root=True,
            memory_mib=max(MEMORY_MIB, self._setup.memory_mib) + self._disk_mib,
            disk_mib=self._disk_mib,
            cpu_cores=CPU_CORES,
            processes=PROCESSES,
            inodes=INODES,
            network=indexes.network or False,
            transfer_mib=self._disk_mib,
            programs=(uv.name,) if uv else (),
            preload=PRELOADED,
        )
        sandbox = await self._backend.create(spec)
        try:
            build = BuildSandbox(sandbox, self._setup.context, self._opened, indexes, self._setup.build_s, uv)
            for index, step in enumerate(steps):
                await self._carry_out(build, step, index)
            snapshot = await sandbox.snapshot()
        finally:
            await sandbox.close()
        return await asyncio.to_thread(rootfs.add_layer, below, snapshot, dict(below.environment))

    async def _carry_out(self, build: BuildSandbox, step: Step, index: int) -> None:
        started = time.monotonic()
        name = self._name(index)
        if isinstance(step, Run):
            print(f"{name}: {_excerpt(step)}", file=sys.stderr, flush=True)
        try:
            await build.carry_out(step)
        except TaskError as error:
            raise _StepFailed(index, f"{error}{self._remedy(str(error))}") from error
        if isinstance(step, Run):
            print(f"{name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)

    def _remedy(self, text: str) -> str:
        """Return how a build gets more of what a step has used up."""
        if not any(sign in text for sign in USED_UP):
            return ""
        return f" A build may write and transfer {self._disk_mib} MiB here; {DISK_ALLOWED}=MIB allows more."

    def _name(self, index: int) -> str:
        return f"{self._setup.name}: step {self._count + index + 1} of {self._total}"

    def _error(self, steps: Sequence[Step], index: int, reason: str) -> TaskError:
        step = steps[index]
        return TaskError(f"{self._name(index)} of its Dockerfile, line {step.line}, {_excerpt(step)!r}, {reason}")

    def _conditions(self) -> list[object]:
        """Return what a step's failure depends on, beside its layer: what the build may use."""
        return [os.environ.get(ALLOWED, ""), self._setup.build_s, self._setup.memory_mib, self._disk_mib]

    async def _opened(self, stage: str) -> Sandbox:
        source = await self._source(stage)
        spec = SandboxSpec(
            image=source.digest,
            writable_root=True,
            memory_mib=MEMORY_MIB + self._disk_mib,
            disk_mib=self._disk_mib,
            inodes=INODES,
            preload=PRELOADED,
        )
        return await self._backend.create(spec)


class _StepFailed(Exception):
    """The step of this index failed, for a reason that may concern other folders too."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index, self.reason = index, reason


async def _uses_uv(step: Step) -> bool:
    """Return whether a step runs uv's installer, and this host does not allow builds to reach its site."""
    if not isinstance(step, Run) or not any(INSTALLER.search(word) for word in step.argv):
        return False
    indexes = await asyncio.to_thread(host_indexes)
    return not any(rule.partition(":")[0] in (SITE, f"*.{SITE}") for rule in indexes.network)


def _excerpt(step: Step) -> str:
    text = " ".join(step.text.split())
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def _groups(steps: Sequence[Step], most: int) -> list[list[Step]]:
    """Return the steps of each layer. A layer ends with a RUN; the last one takes what is beyond `most` layers."""
    groups: list[list[Step]] = [[]]
    for step in steps:
        groups[-1].append(step)
        if isinstance(step, Run) and len(groups) < most:
            groups.append([])
    return [group for group in groups if group]
