"""What a verifier with an image of its own gets of the agent's files: the artifacts that the task folder names.

They are packed in a new sandbox with the agent's files, in which no process of the agent runs. Links that lead out of
an artifact, devices, owners and set-user-id bits are left out.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from agentgym import TaskError
from agentgym.sandbox import Sandbox

from .build_sandbox import ARCHIVE, COPY_S, COPYING

ARTIFACTS = "/logs/artifacts"
KEPT_FROM_AGENT = ("/tests", "/logs/verifier")
MAX_PACKED = 2**29


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder. `source`: its path. `exclude`: patterns of names and paths below it that are left out."""

    source: str
    exclude: tuple[str, ...] = ()

    def path(self, workdir: str) -> str:
        """Return the absolute path. Raises: TaskError for one whose files would be the tests' own."""
        path = posixpath.normpath(posixpath.join(workdir or "/", self.source))
        for own in KEPT_FROM_AGENT:
            if f"{own}/".startswith(f"{path.rstrip('/')}/") or path.startswith(f"{own}/"):
                raise TaskError(f"the artifact {self.source} would replace {own}, which is the tests' own")
        return path


async def collect(sandbox: Sandbox, artifacts: Sequence[Artifact], workdir: str) -> bytes:
    """Return a tar archive of the artifacts that a sandbox has. Raises: as `safe_archive`."""
    paths = [artifact.path(workdir) for artifact in artifacts]
    listed = await COPYING.call(sandbox, "paths", paths, timeout_s=COPY_S)
    pairs = [[str(path), str(path).lstrip("/")] for path, _ in listed]
    await COPYING.call(sandbox, "pack", pairs, ARCHIVE, timeout_s=COPY_S)
    archive = await sandbox.read(ARCHIVE, max_bytes=MAX_PACKED)
    excluded = {path.lstrip("/"): artifact.exclude for path, artifact in zip(paths, artifacts, strict=True)}
    return await asyncio.to_thread(safe_archive, archive, excluded)


async def put(sandbox: Sandbox, archive: bytes) -> None:
    """Put artifacts into a sandbox, in place of what it has at their paths."""
    await sandbox.write(ARCHIVE, archive)
    await COPYING.call(sandbox, "unpack", ARCHIVE, True, timeout_s=COPY_S)


def safe_archive(archive: bytes, excluded: Mapping[str, Sequence[str]]) -> bytes:
    """Return those members of an archive that may be put among the files of another sandbox.

    A link is kept if it leads, from a folder of its artifact, to a path below that artifact; no member lies below a
    link, and `..` stands at a target's beginning alone, so no chain of links leads out.

    Args: `excluded`: by the path of each artifact, the patterns of what is left out.
    Raises: ValueError for data that is not an archive, or that holds too much.
    """
    result, size = io.BytesIO(), 0
    files: set[str] = set()
    links: set[str] = set()
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as source,
            tarfile.open(fileobj=result, mode="w", format=tarfile.PAX_FORMAT) as target,
        ):
            for member in source:
                path = posixpath.normpath(member.name).lstrip("/")
                parents = {parent.as_posix() for parent in PurePosixPath(path).parents}
                top = next((top for top in excluded if top == path or top in parents), None)
                if top is None or parents & links or _is_excluded(path[len(top) + 1 :], excluded[top]):
                    continue
                info = tarfile.TarInfo(path)
                info.mode, info.mtime, info.type = member.mode & 0o777, member.mtime, member.type
                content = None
                if member.isreg() and not member.issparse():
                    info.size, content = member.size, source.extractfile(member)
                    size += info.size
                    if size > MAX_PACKED:
                        raise ValueError(f"the artifacts have more than {MAX_PACKED} bytes")
                elif member.issym() and _stays(path, member.linkname, top):
                    info.linkname = member.linkname
                elif member.islnk() and (linked := posixpath.normpath(member.linkname).lstrip("/")) in files - {path}:
                    info.linkname = linked
                elif not member.isdir():
                    continue
                for paths, is_one in ((files, info.isreg()), (links, info.issym())):
                    (paths.add if is_one else paths.discard)(path)
                target.addfile(info, content)
    except (tarfile.TarError, EOFError, OverflowError) as error:
        raise ValueError(f"the artifacts are not an archive: {error}") from error
    return result.getvalue()


def _stays(path: str, linked: str, top: str) -> bool:
    """Return whether a link that an artifact holds leads to a path below that artifact."""
    parts = PurePosixPath(linked).parts
    ups = len(list(itertools.takewhile(lambda part: part == "..", parts)))
    depth = len(PurePosixPath(path).parent.relative_to(top).parts) if path != top else -1
    return bool(parts) and not linked.startswith("/") and ups <= depth and ".." not in parts[ups:]


def _is_excluded(path: str, patterns: Sequence[str]) -> bool:
    """Return whether a path below an artifact, or a folder above it, has an excluded name or path."""
    parts = PurePosixPath(path).parts
    names = [*parts, *("/".join(parts[: number + 1]) for number in range(len(parts)))]
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
