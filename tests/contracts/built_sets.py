"""Task sets that are built once for all contract tests about them: building one takes seconds of a processor."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

import pytest

from agentgym import TaskSet, load, load_task_set
from agentgym.registry import Kind, names, origin

together, thorough = pytest.mark.together, pytest.mark.thorough


@lru_cache(maxsize=1)
def built_set(name: str) -> TaskSet:
    """Return a registered task set. Tests marked `together` with its name follow one another in one process."""
    return load_task_set(name)


def set_of(environment: str) -> TaskSet | None:
    """Return the task set that an environment declares; None if it declares none."""
    declared = load("environments", environment).task_set
    return built_set(declared) if declared else None


def each_task_set(by_day: Collection[str] | None = None) -> Any:
    """Return the mark that tries a test on each registered task set, by its name; `make test` on those of `by_day`."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[together(name), *([] if by_day is None or name in by_day else [thorough])])
            for name in installed("task_sets")
        ],
    )


def installed(kind: Kind) -> list[str]:
    """The names that packages register, without those that other tests have registered in this process."""
    return [name for name in names(kind) if origin(kind, name)]


def one_of_each_namespace() -> set[str]:
    """Return the first task set of each namespace (`sql`), but of those that need a screen, browser or repository."""
    first = {name.partition("/")[0]: name for name in reversed(installed("task_sets"))}
    return {name for namespace, name in first.items() if namespace not in ("gui", "swe", "web")}


def one_of_each_reward() -> set[str]:
    """Return, for each reward, the task set of the first environment that declares both."""
    environments = [load("environments", name) for name in reversed(installed("environments"))]
    return set({each.reward: each.task_set for each in environments if each.task_set}.values())


def each_environment(*, without: Collection[str] = (), at_night: Collection[str] = ()) -> Any:
    """Return the mark that tries a test on each registered environment, by its name.

    On those of `at_night`, `make test-all` alone tries it.
    """
    task_sets = {name: load("environments", name).task_set for name in installed("environments") if name not in without}
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[*([together(of)] if of else []), *([thorough] if name in at_night else [])])
            for name, of in task_sets.items()
        ],
    )
