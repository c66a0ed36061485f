"""Puts a repository's files into sandboxes: unpacked and committed once, then forked for every episode."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from agentgym import GuestModule, SandboxError, SandboxSpec, TaskError
from agentgym.sandbox import Backend, Sandbox, Snapshot, shared_snapshot

ROOT = "repo"
PREFIX = "packages/env"
"""Folders of the packages and commands of a task's environment, below /work."""
FILES = GuestModule(__package__, "guest_repository")
SETUP_S, COMPILE_S = 900, 300
MAX_FILES, MAX_BYTES = 20_000, 200 * 2**20
QUIET = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "HOME": "/tmp",
    "PYTHONDONTWRITEBYTECODE": "1",
    "GIT_AUTHOR_NAME": "base",
    "GIT_AUTHOR_EMAIL": "base@localhost",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "base",
    "GIT_COMMITTER_EMAIL": "base@localhost",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}


@dataclass(frozen=True)
class Repository:
    """Regular files by path, and which of them are executable. Links are left out.

    `beside`: other repositories that this one needs, by name. They are put under /work/packages, outside its git
        history.
    """

    files: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()
    beside: Mapping[str, Repository] = field(default_factory=dict)

    @classmethod
    def from_archive(cls, data: bytes, where: str) -> Repository:
        """Read a tar archive, such as a package's source distribution; a single enclosing folder is stripped.

        Raises: TaskError, beginning with `where`, for an invalid or too large archive.
        """
        files: dict[str, bytes] = {}
        executable: set[str] = set()
        total = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                for member in archive:
                    path = PurePosixPath(member.name)
                    if not member.isfile() or path.is_absolute() or ".." in path.parts:
                        continue
                    total += member.size
                    if total > MAX_BYTES or len(files) >= MAX_FILES:
                        raise TaskError(f"{where} has more than {MAX_FILES} files or {MAX_BYTES} bytes.")
                    content = archive.extractfile(member)
                    files[str(path)] = content.read() if content is not None else b""
                    if member.mode & 0o100:
                        executable.add(str(path))
        except (tarfile.TarError, EOFError, OSError, ValueError) as error:
            raise TaskError(f"{where} is not a tar archive that can be read: {error}.") from error
        tops = {PurePosixPath(name).parts[0] for name in files}
        if len(tops) == 1 and all("/" in name for name in files):
            cut = len(next(iter(tops))) + 1
            files = {name[cut:]: content for name, content in files.items()}
            executable = {name[cut:] for name in executable}
        if not files:
            raise TaskError(f"{where} contains no files.")
        return cls(files, frozenset(executable))

    @classmethod
    def from_folder(cls, folder: Path) -> Repository:
        """Read a folder without its .git, whose history would reveal later changes. Raises: TaskError."""
        files: dict[str, bytes] = {}
        executable: set[str] = set()
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_symlink() or not path.is_file() or name.partition("/")[0] == ".git" or "__pycache__" in name:
                continue
            files[name] = path.read_bytes()
            if path.stat().st_mode & 0o100:
                executable.add(name)
        if not files:
            raise TaskError(f"{folder} contains no files.")
        return cls(files, frozenset(executable))

    @classmethod
    def from_git(cls, clone: Path, commit: str) -> Repository:
        """Return the files of one commit of a local clone, without any other commit. Raises: TaskError."""
        if not re.fullmatch(r"[0-9a-zA-Z][\w./-]*", commit):
            raise TaskError(f"{commit!r} cannot be the name of a commit.")
        command = [
            "git",
            "-C",
            str(clone),
            "-c",
            "safe.directory=*",
            "archive",
            "--format=tar",
            "--prefix=top/",
            commit,
        ]
        try:
            completed = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError as error:
            raise TaskError("Reading a git clone needs git, which is not installed. Install it.") from error
        if completed.returncode:
            errors = completed.stderr.decode("utf-8", "replace").strip()[-300:]
            raise TaskError(f"git cannot read commit {commit} of {clone}: {errors}")
        return cls.from_archive(completed.stdout, f"{clone}@{commit}")

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of paths, contents, executable bits, and the repositories in `beside`."""
        digest = hashlib.sha256()
        for name, other in sorted(self.beside.items()):
            digest.update(f"{name}={other.digest}\0".encode())
        for name in sorted(self.files):
            digest.update(f"{name}\0{name in self.executable}\0".encode())
            digest.update(hashlib.sha256(self.files[name]).digest())
        return digest.hexdigest()

    def archive(self) -> bytes:
        """Return all files as an uncompressed tar archive, identical for equal files."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for folder, repository in (
                (ROOT, self),
                *((f"packages/{name}", other) for name, other in sorted(self.beside.items())),
            ):
                for name in sorted(repository.files):
                    info = tarfile.TarInfo(f"{folder}/{name}")
                    info.size, info.mode = (
                        len(repository.files[name]),
                        0o755 if name in repository.executable else 0o644,
                    )
                    archive.addfile(info, io.BytesIO(repository.files[name]))
        return buffer.getvalue()


async def prepared(
    backend: Backend,
    spec: SandboxSpec,
    repository: Repository,
    patch: str = "",
    *,
    setup: Sequence[str] = (),
    path: Sequence[str] = (".",),
    python: str = "",
    programs: Sequence[str] | None = None,
) -> Snapshot:
    """Return a sandbox with a repository under /work/repo, whose single commit is the agent's initial state.

    The first call with these arguments prepares it, and later calls share the result. Calls that differ only in `patch`
    share everything before the patch and the commit. `patch` is applied before the commit, so that the history does not
    show it.

    Args:
        setup: shell commands to run in the repository. `path`: the import path, relative to the repository.
        python: the required version of Python, such as 3.11; empty for any.
        programs: programs that the image must have; None for pytest.
    Raises: TaskError if the patch does not fit, a command of the set-up fails, pytest or a program is missing, or
        Python has another version; SandboxError.
    """
    key = f"{repository.digest}:{spec!r}:{tuple(setup)!r}:{tuple(path)!r}:{python}:{programs}"

    async def unpacked() -> Snapshot:
        return await _unpack(backend, spec, repository, setup, path, python, programs)

    async def committed() -> Snapshot:
        return await _commit(backend, spec, await shared_snapshot(backend, "unpacked", key, unpacked, kept=16), patch)

    return await shared_snapshot(
        backend, "repository", f"{key}:{hashlib.sha256(patch.encode()).hexdigest()}", committed
    )


async def _unpack(
    backend: Backend,
    spec: SandboxSpec,
    repository: Repository,
    setup: Sequence[str],
    path: Sequence[str],
    python: str,
    programs: Sequence[str] | None,
) -> Snapshot:
    """Return a snapshot of the files after the set-up, compiled ones included. Arguments: as for `prepared`."""
    sandbox = await backend.create(spec)
    try:
        await sandbox.write("repository.tar", await asyncio.to_thread(repository.archive))
        await run(sandbox, "tar -xf repository.tar && rm repository.tar")
        await _check_programs(sandbox, programs or ())
        for command in setup:
            await _run_setup(sandbox, command, path)
        version, pytest = await FILES.call(sandbox, "compile_files", list(path), timeout_s=COMPILE_S)
        if python and version != python:
            raise TaskError(f"The task needs Python {python}, but its image {spec.image!r} has {version}.")
        if not pytest and programs is None:
            raise TaskError(
                "The task's environment has no pytest. Add one to parameters['requirements'], such as pytest==8.3.5, "
                "and its dependencies (`python -m agentgym.sandboxes.swe.wheels pytest==8.3.5` lists them)."
            )
        return await sandbox.snapshot()
    finally:
        await sandbox.close()


async def _check_programs(sandbox: Sandbox, programs: Sequence[str]) -> None:
    """Check that the image has the programs. Raises: TaskError naming a missing one."""
    for program in programs:
        answer = await sandbox.exec(["sh", "-c", f"command -v {program}"], env=QUIET, timeout_s=20)
        if not answer.ok:
            raise TaskError(
                f"The tests need the program {program!r}, which the task's image does not have. Install it, or give an "
                "image that has it (parameters['image'])."
            )


async def _commit(backend: Backend, spec: SandboxSpec, unpacked: Snapshot, patch: str) -> Snapshot:
    sandbox = await backend.create(spec, snapshot=unpacked)
    try:
        if patch:
            await apply_patch(sandbox, patch)
        command = (
            "git init -q . && echo __pycache__/ >> .git/info/exclude && git add -A -f . {} && git commit -q -m base"
        )
        await run(sandbox, command.format("':(exclude,glob)**/__pycache__/**'"), cwd=ROOT)
        return await sandbox.snapshot()
    finally:
        await sandbox.close()


async def _run_setup(sandbox: Sandbox, command: str, path: Sequence[str]) -> None:
    result = await sandbox.exec(
        ["sh", "-c", in_environment(command)],
        cwd=ROOT,
        env={**QUIET, "PYTHONPATH": import_path(path)},
        timeout_s=SETUP_S,
    )
    if not result.ok:
        output = (result.stdout + result.stderr).decode("utf-8", "replace").strip()[-800:]
        ended = f"took more than {SETUP_S} s" if result.timed_out else f"ended with {result.exit_code}"
        raise TaskError(f"parameters['setup']: `{command}` {ended} (there is no network), and printed: {output}")


def in_environment(command: str) -> str:
    """Return a shell command that finds the environment's commands first."""
    return f"PATH=/work/{PREFIX}/bin:$PATH\n{command}"


def import_path(path: Sequence[str]) -> str:
    """Return the PYTHONPATH for folders relative to the repository, and for the packages visible in the sandbox."""
    return ":".join([*(f"/work/{ROOT}/{folder}" for folder in path), "/packages"])


async def apply_patch(sandbox: Sandbox, patch: str, *, exclude: tuple[str, ...] = ()) -> None:
    """Apply a unified diff to /work/repo, except to paths matching `exclude`. Raises: TaskError with git's message."""
    arguments = [f"--exclude={pattern}" for pattern in exclude]
    ended = patch if patch.endswith("\n") or not patch else f"{patch}\n"  # the last newline is often missing
    result = await sandbox.exec(
        ["git", "apply", "--whitespace=nowarn", *arguments, "-"], stdin=ended.encode(), cwd=ROOT, env=QUIET
    )
    if not result.ok:
        errors = result.stderr.decode("utf-8", "replace").strip()[-500:]
        raise TaskError(
            f"The patch cannot be applied to the repository: {errors or f'git apply ended with {result.exit_code}'}."
        )


async def run(sandbox: Sandbox, command: str, *, cwd: str | None = None) -> None:
    """Run one of our own commands. Raises: SandboxError with the command's output, for example if git is missing."""
    result = await sandbox.exec(["sh", "-c", command], cwd=cwd, env=QUIET, timeout_s=120)
    if not result.ok:
        errors = result.stderr.decode("utf-8", "replace").strip()[-500:]
        raise SandboxError(f"The repository could not be prepared: `{command}` ended with {result.exit_code}: {errors}")
