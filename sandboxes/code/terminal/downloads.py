"""What a test script installs and downloads before it tests, as layers of the image, so that it does so once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentgym import SandboxSpec
from agentgym.sandbox import Backend, Snapshot, archive_of, rootfs

from .built_image import recorded_image
from .folder import TaskStep
from .sandbox import TaskImage, run_tests
from .submission import part_of
from .task_network import DOWNLOADS, UPDATED, TaskNetwork, check_reached

MAX_BYTES = 4 * 2**30
TEMPORARY = ("tmp", "tests", "logs", "run", "proc", "sys", "dev")
MAX_LINE = 1_000
_QUIET = r"(?:\s*(?:[12&]?>>?\s*/dev/null|2>&1))*"
_WORDS = r"(?:\s+[\w=<>~!,:+\[\]-][\w.=<>~!,:+\[\]-]*|\s+[\"'][\w.=<>~!,:+\[\] -]+[\"'])+"
_MANAGER = rf"(?:\w+=\S+\s+)*(?:apt|apt-get|pip3?|python3? -m pip){_WORDS}{_QUIET}(?:\s*\|\|\s*true)?"
_COMMAND = rf"(?:{_MANAGER}|rm -rf /var/lib/apt/lists/\*)"
INSTALLING = re.compile(rf"\s*(?:{_COMMAND}(?:\s*(?:&&|;)\s*{_COMMAND})*;?|mkdir -p /logs/\w+|set [-+]\w+)?\s*")
"""A line that changes nothing but what a package manager installs; or an empty one."""
FROM_FILES = re.compile(r"\bpip.*\s-[erc]\b|--(requirement|editable|constraint)|\.(txt|whl|gz|deb)\b")
"""What makes an installation depend on files, which may be the agent's."""
COMMENT = re.compile(r"(^|\s)#.*")


async def with_downloads(
    backend: Backend,
    spec: SandboxSpec,
    task_image: TaskImage,
    step: TaskStep,
    network: TaskNetwork,
    submission: Snapshot | None,
) -> SandboxSpec:
    """Return a spec whose image has what the test script installs in its first lines, and what it downloads.

    Both come from one run on the initial files, once on this machine; no process of an agent takes part. The image of a
    submission that changes a file which is installed, and of a script without network, stays as it is.

    Raises: SandboxUnavailable if this host's network does not reach a package index; SandboxError.
    """
    if not network.names:
        return spec
    tests = sorted((path, hashlib.sha256(data).hexdigest(), mode) for path, (data, mode) in step.tests.items())
    script = b"" if step.brings_tests else step.tests[step.test_script][0]
    lines = installing_lines(script.decode("utf-8", "replace"))
    parts = [
        "tests",
        spec.image,
        lines,
        tests,
        sorted(network.environment.items()),
        sorted(step.verifier_environment.items()),
    ]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    async def make(record: Path) -> rootfs.RootFilesystem:
        image = await asyncio.to_thread(rootfs.prepare_rootfs, spec.image, as_root=True)
        sandbox = await backend.create(spec)
        try:
            installed = None
            if lines:
                first = {step.test_script: (lines.encode(), 0o755)}
                ended = await run_tests(sandbox, task_image, step, network, first)
                if ended.ok:
                    installed = await sandbox.snapshot()
                    if "update" in lines:
                        await sandbox.write(UPDATED, b"")
            await task_image.start(sandbox)
            await run_tests(sandbox, task_image, step, network)
            check_reached(sandbox, "The test script")
            downloaded = await sandbox.snapshot()
        finally:
            await sandbox.close()
        for snapshot, keep in ((installed, _is_installed), (downloaded, _is_downloaded)):
            layer = None if snapshot is None else await asyncio.to_thread(part_of, snapshot, keep)
            if layer is not None and layer.entries and layer.size_bytes <= MAX_BYTES:
                image = await asyncio.to_thread(rootfs.add_layer, image, layer, dict(image.environment))
        return image

    image = await recorded_image(key, make)
    if submission is not None:
        own = await asyncio.to_thread(rootfs.prepare_rootfs, spec.image, as_root=True)
        if await asyncio.to_thread(_overlap, submission, image.trees[len(own.trees) :]):
            return spec
    return replace(spec, image=image.digest)


def installing_lines(script: str) -> str:
    """Return the first lines of a script, as long as each only installs packages by name."""
    lines = []
    for line in script.replace("\\\n", " ").splitlines():
        command = COMMENT.sub("", line)
        if len(command) > MAX_LINE or FROM_FILES.search(command) or not INSTALLING.fullmatch(command):
            break
        lines.append(line)
    return "\n".join(lines) if any("install" in line for line in lines) else ""


def _is_downloaded(path: str, kind: str) -> bool:
    return f"/{path}/".startswith(f"{DOWNLOADS}/") or (kind == "d" and DOWNLOADS.startswith(f"/{path}/"))


def _is_installed(path: str, kind: str) -> bool:
    return path.partition("/")[0] not in TEMPORARY


def _overlap(submission: Snapshot, layers: Sequence[Path]) -> bool:
    """Return whether a submission changes a file that one of the layers has, or hides one."""
    hidden = [os.fsdecode(path) for path in submission.entries if path.endswith(b"/")]
    overlaps = [(layer / path).exists() for path in hidden for layer in layers]

    def see(path: str, kind: str) -> bool:
        for own in (layer / path for layer in layers):
            is_folder = own.is_dir() and not own.is_symlink()
            overlaps.append(kind != "d" if is_folder else own.exists() or own.is_symlink())
        return True

    archive_of(submission, see)
    return any(overlaps)
