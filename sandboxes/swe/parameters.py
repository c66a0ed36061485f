"""The parameters of a task that describe its repository and the packages it needs, and how to find both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym import SandboxSpec, Task, TaskError, UnknownNameError, load
from agentgym.sandbox import Backend, Sandbox, cache_folder, rootfs

from . import wheels
from .repository import PREFIX, Repository, prepared
from .runners import RUNNERS, SuiteRunner
from .sources import PINNED, archive

TEXTS = ("patch", "guidance", "repository", "python", "image", "runner", "command")
LISTS = ("source", "requires", "packages", "requirements", "setup", "plugins", "shown", "tests")
NUMBERS = {"attempts": 1, "memory_mib": 16, "disk_mib": 1}  # with their minimum values


@dataclass(frozen=True, slots=True)
class RepositoryParameters:
    """A task's parameters for its repository.

    Attributes:
        repository: a package as name==version, an asset's name, the path of a tar archive or folder, or a git clone
            with a commit, as path@commit.
        files: the files of a small repository, text by path, instead of `repository`.
        patch: a unified diff applied before the agent's first commit, such as the bug; empty for none.
        source: folders put on the import path. `requires`: modules installed on the host that its tests import.
        packages: packages that its tests import and that are not installed, as name==version: their source
            distributions are unpacked beside the repository and follow it on the import path, without metadata.
        requirements: all installed packages, including pytest, as name==version (`wheels.lock` makes such a list). If
            given, none of the host's packages is visible to the agent or the judge; otherwise the host's pytest is.
        python: the version of Python, such as 3.9; empty for the image's or the host's version. `image`: a root file
            system; empty for the host's programs, or, for another Python than the host's, a cached image such as
            python3.9.
        setup: shell commands that are run once in the repository before its first commit, with the environment.
        plugins: modules of the repository that are pytest plugins, loaded when the judge runs the tests. Installed
            plugins are loaded automatically; plugins that only the repository's metadata names are not loaded.
        runner: the program that runs the tests: pytest, unittest, go, node, cargo, junit or ctest; empty for pytest.
            `command`: a command for `sh` that runs them and prints the runner's report; empty for the runner's usual
                command.
        shown: files that `agentgym/swe-given-v1` shows at the start.
        tests: pytest ids of the tests that the agent is told about; it may run any test that it finds.
        attempts: how often the agent may submit while `tests` still fail. `guidance`: text added to each refusal.
        memory_mib, disk_mib: limits of the sandbox in MiB, 0 for the usual limits.
    """

    repository: str = ""
    files: tuple[tuple[str, str], ...] = ()
    patch: str = ""
    source: tuple[str, ...] = (".",)
    requires: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    python: str = ""
    image: str = ""
    setup: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    runner: str = ""
    command: str = ""
    shown: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    attempts: int = 1
    guidance: str = ""
    memory_mib: int = 0
    disk_mib: int = 0

    @classmethod
    def of(cls, task: Task) -> RepositoryParameters:
        """Read a task's parameters. Raises: TaskError naming the parameter and its value."""
        given = dict(task.parameters)
        values: dict[str, Any] = {}
        for name in TEXTS:
            values[name] = given.pop(name, "")
            if not isinstance(values[name], str):
                raise TaskError(f"{task.id}: parameters[{name!r}] must be text, not {values[name]!r}.")
        for name in LISTS:
            value = given.pop(name, None)
            if value is None:
                continue
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise TaskError(f"{task.id}: parameters[{name!r}] must be a list of texts, not {value!r}.")
            values[name] = tuple(value)
        for name in ("packages", "requirements"):
            for package in values.get(name, ()):
                if not PINNED.fullmatch(package):
                    raise TaskError(f"{task.id}: parameters[{name!r}] has {package!r}. Write it as name==version.")
        inline = given.pop("files", None) or {}
        if not isinstance(inline, Mapping) or not all(
            isinstance(text, str) for item in inline.items() for text in item
        ):
            raise TaskError(f"{task.id}: parameters['files'] must map paths to texts, but it is {inline!r:.80}.")
        if bool(inline) == bool(values["repository"]):
            raise TaskError(f"{task.id} needs either parameters['repository'] or parameters['files'], not both.")
        values["files"] = tuple(sorted(inline.items()))
        for name, least in NUMBERS.items():
            if name in given:
                values[name] = number = given.pop(name)
                if isinstance(number, bool) or not isinstance(number, int) or number < least:
                    raise TaskError(
                        f"{task.id}: parameters[{name!r}] must be a whole number of at least {least}, not {number!r}."
                    )
        if given:
            raise TaskError(
                f"{task.id}: unknown parameters {sorted(given)}. The parameters are: {', '.join(cls.__slots__)}."
            )
        runner = values["runner"] or "pytest"
        if runner not in RUNNERS:
            raise TaskError(f"{task.id}: there is no runner {runner!r}. Runners are: {', '.join(RUNNERS)}.")
        if not (values["command"] or RUNNERS[runner].command):
            raise TaskError(
                f"{task.id}: the runner {runner!r} needs parameters['command'], a command that prints its report."
            )
        return cls(**values)

    @property
    def test_runner(self) -> SuiteRunner | None:
        """Return the runner whose command runs the tests; None for plain pytest, which has its own judge."""
        return None if self.runner in ("", "pytest") and not self.command else RUNNERS[self.runner or "pytest"]

    @property
    def test_command(self) -> str:
        """Return the command that runs all tests and prints the runner's report."""
        return self.command or RUNNERS[self.runner or "pytest"].command

    @property
    def path(self) -> tuple[str, ...]:
        """Return the import path, relative to the repository."""
        beside = (f"../packages/{package}" for package in self.packages)
        folders = (*self.source, *(folder for package in beside for folder in (package, f"{package}/src")))
        return (*folders, f"../{PREFIX}/{wheels.SITE}") if self.requirements else folders

    @property
    def preparation(self) -> dict[str, Any]:
        """Return the arguments of `prepared` other than repository and patch."""
        programs = self.test_runner.needs if self.test_runner else None
        return {"setup": self.setup, "path": self.path, "python": self.python, "programs": programs}

    def spec(self, base: SandboxSpec) -> SandboxSpec:
        """Return the spec of the sandbox that the tests need. Raises: TaskError without such a version of Python."""
        image = self.image or image_of_python(self.python) or base.image
        warm = () if self.requirements or image != base.image else base.preload
        return replace(
            base,
            image=image,
            preload=(*warm, *self.requires),
            memory_mib=self.memory_mib or base.memory_mib,
            disk_mib=self.disk_mib or base.disk_mib,
        )


def image_of_python(python: str) -> str:
    """Return the image with a version of Python, such as 3.9; empty for the host's.

    Raises: TaskError if there is none.
    """
    if python in ("", wheels.HERE):
        return ""
    name = f"python{python}"
    if name in rootfs.names():
        return name
    raise TaskError(
        f"It needs Python {python}, but this host has {wheels.HERE}, and the cache has no image {name!r} (it has "
        f"{', '.join(rootfs.names()) or 'none'}). Make one from an interpreter that is installed here, by `agentgym "
        f"sandbox image {python}`, or put a root file system with python3 and git, such as a Debian release with this "
        f"version, into {cache_folder() / 'images'}."
    )


async def repository_of(parameters: RepositoryParameters, task: str) -> Repository:
    """Return a task's repository with its extra packages and environment.

    Raises: TaskError for an unknown package, path or asset.
    """
    try:
        python = parameters.python or wheels.HERE
        needs = (parameters.packages, parameters.requirements, python)
        if parameters.files:
            files = {path: text.encode() for path, text in parameters.files}
            return Repository(files, beside=await asyncio.to_thread(_beside, *needs))
        return await asyncio.to_thread(_with_environment, parameters.repository, *needs)
    except TaskError as error:
        raise TaskError(f"{task}: {error}") from error


async def opened(backend: Backend, base: SandboxSpec, parameters: RepositoryParameters, task: str) -> Sandbox:
    """Return a new sandbox with the repository of a task, as the agent finds it. `base`: the spec for a task that names
    no environment. Raises: TaskError; SandboxError.
    """
    spec = parameters.spec(base)
    repository = await repository_of(parameters, task)
    snapshot = await prepared(backend, spec, repository, parameters.patch, **parameters.preparation)
    return await backend.create(spec, snapshot=snapshot)


def _beside(packages: tuple[str, ...], requirements: tuple[str, ...], python: str) -> dict[str, Repository]:
    return {"env": wheels.environment(requirements, python), **{name: repository_named(name) for name in packages}}


@lru_cache(maxsize=64)
def _with_environment(name: str, *needs: Any) -> Repository:
    """Return one shared object for equal arguments, so that its digest is computed once."""
    return replace(repository_named(name), beside=_beside(*needs))


@lru_cache(maxsize=64)
def repository_named(name: str) -> Repository:
    """Return the repository that `RepositoryParameters.repository` names, read once per process. Raises: TaskError."""
    clone, mark, commit = name.rpartition("@")
    if mark and Path(clone).is_dir():
        return Repository.from_git(Path(clone), commit)
    path = archive(name) or Path(name)
    if path.is_dir():
        return Repository.from_folder(path)
    if path.is_file():
        return Repository.from_archive(path.read_bytes(), name)
    try:
        return Repository.from_archive(load("assets", name)(), name)
    except UnknownNameError as error:
        raise TaskError(
            f"the repository {name!r} is not a file, a folder, an asset or a package in the cache. Fetch a package by "
            f"`python -m agentgym.sandboxes.swe.bugs --fetch {name}`."
        ) from error
