"""What a task says of its repository, and where that is found."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym import SandboxSpec, Task, TaskError, UnknownNameError, load
from agentgym.deprecation import renamed_attributes

from .repository import Repository
from .sources import PINNED, archive

__getattr__ = renamed_attributes(__name__, {"Parameters": "agentgym.sandboxes.swe.parameters.RepositoryParameters"})


@dataclass(frozen=True, slots=True)
class RepositoryParameters:
    """What a task says of its repository.

    Attributes:
        repository: a package as name==version, an asset's name, the path of a tar archive or folder, or of a git clone
            with a commit behind it: path@commit.
        files: a small repository itself, text by path; in place of `repository`.
        patch: a unified diff applied before the agent's first commit, such as the bug; empty for none.
        source: folders put on the import path. `requires`: installed modules that its tests import.
        packages: packages that its tests import and that are not installed, as name==version: their source
            distributions are unpacked beside the repository, and on the import path behind it.
        plugins: modules of the repository that are plugins of pytest, loaded where it judges. Installed plugins are
            loaded by themselves; those that metadata in the repository names are not.
        shown: files that `agentgym/swe-given-v1` shows at the start.
        tests: tests that the agent is told of, by their pytest ids; all it can find may be run.
        attempts: how often it may submit, while `tests` still fail. `guidance`: said with each refusal.
    """

    repository: str = ""
    files: tuple[tuple[str, str], ...] = ()
    patch: str = ""
    source: tuple[str, ...] = (".",)
    requires: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    attempts: int = 1
    guidance: str = ""

    @classmethod
    def of(cls, task: Task) -> RepositoryParameters:
        """Raises: TaskError naming the parameter and its value."""
        given = dict(task.parameters)
        values: dict[str, Any] = {}
        for name, default in (("patch", ""), ("guidance", ""), ("repository", "")):
            values[name] = given.pop(name, default)
            if not isinstance(values[name], str):
                raise TaskError(f"{task.id}: parameters[{name!r}] is {values[name]!r}: give text.")
        for name in ("source", "requires", "packages", "plugins", "shown", "tests"):
            value = given.pop(name, None)
            if value is None:
                continue
            if isinstance(value, str) or not all(isinstance(item, str) for item in value):
                raise TaskError(f"{task.id}: parameters[{name!r}] is {value!r}: give a list of text.")
            values[name] = tuple(value)
        for package in values.get("packages", ()):
            if not PINNED.fullmatch(package):
                raise TaskError(f"{task.id}: parameters['packages'] has {package!r}: give name==version.")
        inline = given.pop("files", None) or {}
        if not isinstance(inline, Mapping) or not all(
            isinstance(text, str) for item in inline.items() for text in item
        ):
            raise TaskError(f"{task.id}: parameters['files'] is {inline!r:.80}: give a mapping from path to text.")
        if bool(inline) == bool(values["repository"]):
            raise TaskError(f"{task.id}: give parameters['repository'] or parameters['files'], one of the two.")
        values["files"] = tuple(sorted(inline.items()))
        attempts = given.pop("attempts", 1)
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise TaskError(f"{task.id}: parameters['attempts'] is {attempts!r}: at least 1.")
        if given:
            raise TaskError(f"{task.id}: unknown parameters {sorted(given)}. Known: {', '.join(cls.__slots__)}.")
        return cls(**values, attempts=attempts)

    @property
    def path(self) -> tuple[str, ...]:
        """The import path, relative to the repository."""
        beside = (f"../packages/{package}" for package in self.packages)
        return (*self.source, *(folder for package in beside for folder in (package, f"{package}/src")))

    def spec(self, base: SandboxSpec) -> SandboxSpec:
        """The sandbox that its tests need."""
        return replace(base, preload=(*base.preload, *self.requires))


async def repository_of(parameters: RepositoryParameters, task: str) -> Repository:
    """The repository of a task, and the packages beside it. Raises: TaskError if there is no such package, path or
    asset."""
    try:
        if parameters.files:
            beside = {name: await asyncio.to_thread(_repository, name) for name in parameters.packages}
            return Repository({path: text.encode() for path, text in parameters.files}, beside=beside)
        return await asyncio.to_thread(_repository, parameters.repository, parameters.packages)
    except TaskError as error:
        raise TaskError(f"{task}: {error}") from error


@lru_cache(maxsize=64)
def _repository(name: str, packages: tuple[str, ...] = ()) -> Repository:
    """Read once a process."""
    if packages:
        return replace(_repository(name), beside={package: _repository(package) for package in packages})
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
            f"the repository {name!r} is no package in the cache, file, folder or asset. A package is fetched by "
            f"`python -m agentgym.sandboxes.swe.bugs --fetch {name}`."
        ) from error
