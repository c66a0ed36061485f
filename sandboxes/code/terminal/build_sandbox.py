"""Carries out steps of a Dockerfile in a sandbox whose whole file system is writable."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Awaitable, Callable

from agentgym import GuestModule, TaskError
from agentgym.sandbox import Sandbox, rootfs

from ..transcript import last_lines
from .build_context import Files, copied_files, copied_paths, packed
from .build_steps import Copy, Download, MakeFolder, Run, Step
from .task_network import ALLOWED, Connected, check_reached
from .uv import INSTALL, uv_installer, with_installer

COPYING = GuestModule(__package__, "guest_copy")
PRELOADED = ("hashlib", "shutil", "tarfile", "urllib.request")
"""The modules that COPYING needs; an image may lack them."""
ARCHIVE = "/tmp/.copied-files.tar"
MAX_COPIED = 2 * 2**30
COPY_S = 600.0
OpenStage = Callable[[str], Awaitable[Sandbox]]


class BuildSandbox:
    """One sandbox of a build.

    Args:
        context: the files beside the Dockerfile.
        open_stage: opens a sandbox with the files of an earlier stage or of an image.
        indexes: the package indexes that may be reached.
        step_s: limit of each command in seconds.
        uv: a program of the sandbox; what its installer would install. None to leave the installer as it is.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        context: Files,
        open_stage: OpenStage,
        indexes: rootfs.PackageIndexes,
        step_s: float,
        uv: rootfs.InstalledProgram | None = None,
    ) -> None:
        self._sandbox, self._context, self._open_stage = sandbox, context, open_stage
        self._indexes, self._step_s, self._uv = indexes, step_s, uv

    async def carry_out(self, step: Step) -> None:
        """Carry out one step. Raises: TaskError saying how it ended; SandboxUnavailable if the network is down."""
        if isinstance(step, Run):
            await self._run(step)
        elif isinstance(step, Copy):
            await self._copy(step)
        elif isinstance(step, Download):
            await self._download(step)
        elif isinstance(step, MakeFolder):
            await self._unpack({step.path: (b"", stat.S_IFDIR | 0o755)})

    async def _run(self, step: Run) -> None:
        seen = len(self._sandbox.connections)
        files = dict(self._indexes.files)
        if self._uv is not None:
            files[INSTALL] = uv_installer(self._uv)
        for path, data in files.items():
            await self._sandbox.write(path, data)
        environment = {**self._indexes.environment, **await self._home(step.user), **dict(step.environment)}
        result = await self._sandbox.exec(
            step.argv if self._uv is None else [with_installer(word) for word in step.argv],
            stdin=step.stdin,
            cwd=step.cwd,
            env=environment,
            timeout_s=self._step_s,
            max_output_bytes=2**20,
        )
        await self._sandbox.exec(["rm", "-rf", "--", rootfs.INDEX_FOLDER], cwd="/")
        if result.ok:
            return
        if result.timed_out:
            ended = f"did not end in {self._step_s:g} s"
        elif result.oom_killed:
            ended = "used up the memory of the build"
        else:
            ended = f"ended with {result.exit_code}"
        output = last_lines(result.stderr or result.stdout, 5)
        raise TaskError(f"{ended}: {output}{refusals(self._sandbox, seen)}")

    async def _home(self, user: str) -> dict[str, str]:
        """Return the home folder of a user in the image; nothing for root and for users that it does not know."""
        name = user.partition(":")[0]
        if name in ("", "root", "0"):
            return {}
        try:
            lines = (await self._sandbox.read("/etc/passwd")).decode("utf-8", "replace").splitlines()
        except (FileNotFoundError, ValueError):
            return {}
        fields = (line.split(":") for line in lines)
        home = next((row[5] for row in fields if len(row) > 5 and name in (row[0], row[2])), "")
        return {"HOME": home, "USER": name} if home else {}

    async def _copy(self, step: Copy) -> None:
        into_folder = step.into_folder or bool(await self._call("is_folder", step.target))
        if not step.from_stage:
            await self._unpack(copied_files(step, self._context, into_folder=into_folder))
            return
        source = await self._open_stage(step.from_stage)
        try:
            tops = sorted({_fixed_part(path) for path in step.sources})
            listed = await COPYING.call(source, "paths", tops, timeout_s=COPY_S)
            folders = {str(path).lstrip("/"): bool(folder) for path, folder in listed}
            pairs = copied_paths(step, folders, into_folder=into_folder)
            named = [[f"/{path}", target.lstrip("/")] for path, target in pairs if target != "/"]
            await COPYING.call(source, "pack", named, ARCHIVE, timeout_s=COPY_S)
            archive = await source.read(ARCHIVE, max_bytes=MAX_COPIED)
        finally:
            await source.close()
        await self._put(archive)

    async def _download(self, step: Download) -> None:
        into_folder = step.into_folder or bool(await self._call("is_folder", step.target))
        path = posixpath.join(step.target, step.name) if into_folder else step.target
        seen = len(self._sandbox.connections)
        if reason := await self._call("download", step.url, path, step.mode, step.checksum):
            raise TaskError(f"failed: {reason}{refusals(self._sandbox, seen)}")

    async def _unpack(self, files: Files) -> None:
        await self._put(packed(files))

    async def _put(self, archive: bytes) -> None:
        await self._sandbox.write(ARCHIVE, archive)
        await self._call("unpack", ARCHIVE)

    async def _call(self, function: str, *arguments: object) -> object:
        return await COPYING.call(self._sandbox, function, *arguments, timeout_s=COPY_S)


def _fixed_part(source: str) -> str:
    """Return the part of a pattern above its first wildcard, as an absolute path."""
    parts: list[str] = []
    for part in posixpath.normpath(f"/{source}").lstrip("/").split("/"):
        if any(sign in part for sign in "*?["):
            break
        parts.append(part)
    return "/" + "/".join(parts)


def refusals(source: Connected, seen: int = 0) -> str:
    """Return what the network has refused after the first `seen` connections.

    Raises: SandboxUnavailable if an allowed host did not answer at all.
    """
    check_reached(source, "A build", seen)
    connections = source.connections[seen:]
    refused = {connection.host for connection in connections if "allow list" in connection.reason}
    if not refused:
        cut = [connection.reason for connection in connections if connection.allowed and connection.reason]
        return f" The network: {cut[-1]}" if cut else ""
    return f" The network refused {', '.join(sorted(refused))}. Allow hosts by {ALLOWED}='{' '.join(sorted(refused))}'."
