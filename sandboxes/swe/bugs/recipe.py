"""A TOML file of packages to break, the number of bugs in each, and releases to compare."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from agentgym import TaskError

from .package import Package


@dataclass(frozen=True, slots=True)
class Release:
    """Two versions of a package. The task is to make the older source pass the newer tests.

    Attributes:
        old: the older package, as in a recipe. `new`: the newer version, as name==version. `new_sha256`: hash of the
            newer version's source distribution.
    """

    old: Package
    new: str
    new_sha256: str = ""

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str) -> Release:
        """Read the table of a release. Raises: TaskError, beginning with `where`."""
        values = dict(data)
        new, new_sha256 = values.pop("new", ""), values.pop("new_sha256", "")
        old = Package.parse(values, where)
        if not isinstance(new, str) or new.partition("==")[0] != old.name or new == old.pinned:
            raise TaskError(f"{where}: new = {new!r} must be another version of {old.name}, written as name==version.")
        return cls(old, new, new_sha256)


@dataclass(frozen=True, slots=True)
class BugRecipe:
    """A task set to build.

    Attributes:
        name: the set's name, such as acme/bugs-v1.
        packages: the table [[package]] of each package.
        releases: the table [[release]] of each pair of releases: the keys of a package, and `new`.
        each: number of tasks with one bug, for every package.
        of_a_kind, of_a_function: the most of these tasks with one kind of bug, and with a bug in one function.
        pairs: number of tasks with bugs in two files at once, for every package.
        seed: chooses the bugs.
    """

    name: str
    packages: tuple[Package, ...] = ()
    releases: tuple[Release, ...] = ()
    each: int = 40
    of_a_kind: int = 10
    of_a_function: int = 3
    pairs: int = 0
    seed: int = 0

    @classmethod
    def load(cls, path: str | Path) -> BugRecipe:
        """Read a recipe. Raises: TaskError naming the file and the fault, for example a package in two splits."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise TaskError(f"Cannot read the recipe {path}: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TaskError(f"{path} is not valid TOML: {error}.") from error
        packages = tuple(
            Package.parse(item, f"{path}, package {number}") for number, item in enumerate(data.pop("package", ()), 1)
        )
        releases = tuple(
            Release.parse(item, f"{path}, release {number}") for number, item in enumerate(data.pop("release", ()), 1)
        )
        if not (packages or releases) or not isinstance(data.get("name"), str):
            raise TaskError(f"{path}: a recipe needs a name and at least one [[package]] or [[release]].")
        if unknown := set(data) - {field.name for field in fields(cls)}:
            known = ", ".join(field.name for field in fields(cls))
            raise TaskError(f"{path}: unknown keys {sorted(unknown)}. The keys are: {known}.")
        names = [package.name for package in packages]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise TaskError(
                f"{path} lists {twice[0]} twice, but one version of a package would give away the other. List it once."
            )
        splits = {package.name: package.split for package in (*(r.old for r in releases), *packages)}
        for package in (*packages, *(release.old for release in releases)):
            if splits[package.name] != package.split:
                raise TaskError(
                    f"{path}: {package.name} is in two splits, but one would give away the other. Put it into one "
                    "split."
                )
        return cls(packages=packages, releases=releases, **data)
