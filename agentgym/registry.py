"""Registered names: environments, task sets, importers, rewards, estimators, backends, policies and the like.

What a name refers to, by kind: an environment is a class or a factory, called to make an instance; a task set or a
reward is an instance or a callable that makes one; an importer is a function from the path of a public data set to a
task set; an asset (a database, a corpus, a repository) is a function that returns bytes; an environment scheme, such
as the `http` of http://10.0.0.7:8650/agentgym/sql-v1, is a function from such an address to a factory.

A name is registered in this process (`register`), or by an installed package as an entry point in the group
`agentgym.<kind>`. A registered object is imported only when loaded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args
from weakref import WeakSet

from agentgym._imports import install_command
from agentgym.environment.contract import Environment
from agentgym.errors import DuplicateNameError, MissingExtraError, RegistrationError, UnknownNameError
from agentgym.reward.contract import Reward
from agentgym.sandbox import Backend
from agentgym.sandbox.limits import SandboxSpec
from agentgym.task.definition import Task
from agentgym.task.script import task_player
from agentgym.task.task_set import TaskSet

Kind = Literal[
    "environments",
    "task_sets",
    "importers",
    "rewards",
    "estimators",
    "credit_wrappers",
    "objectives",
    "loss_terms",
    "samplers",
    "gatherers",
    "training_parts",
    "optimisers",
    "signal_providers",
    "stages",
    "selections",
    "trackers",
    "searches",
    "search_values",
    "backends",
    "policies",
    "call_formats",
    "logit_hooks",
    "episode_hooks",
    "environment_schemes",
    "engines",
    "assets",
    "commands",
    "exporters",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
T = TypeVar("T")
DEFAULT_BACKEND = "namespaces"
MAX_NAMED = 8
"""How many names an error lists if none is similar."""

_VERSIONED = re.compile(r"[a-z0-9][\w.-]*/[a-z0-9][\w.-]*-v\d+", re.ASCII)
_registered: dict[Kind, dict[str, Any]] = {kind: {} for kind in KINDS}
_backends: dict[str, Backend] = {}
_backend_users: WeakSet[BackendUser] = WeakSet()


def register(name: str, registered: Any, *, kind: Kind = "environments") -> None:
    """Register an object under a name in this process; a package uses an entry point instead.

    Args:
        name: `namespace/name-vN` for environments and task sets.
        registered: for an environment its class, or a factory: any callable that takes the options of `make` and
            returns a new instance, such as a function that builds one from a file or from a server's tools.
        kind: one of KINDS.
    Raises: DuplicateNameError if the name is already taken by another object; ValueError if an environment or
        task set is not named `namespace/name-vN`, or for an unknown kind; RegistrationError for an environment that
        cannot be called.
    """
    _check_kind(kind)
    if name_fault := _name_fault(kind, name):
        raise ValueError(name_fault)
    if kind == "environments" and not callable(registered):
        raise RegistrationError(
            f"{name!r} was given {registered!r:.80}. Register an Environment class, or a function that returns a new "
            "instance."
        )
    point = None if name in _registered[kind] else _points(kind).get(name)
    holder = _imported(kind, point) if point is not None else _registered[kind].setdefault(name, registered)
    if holder is not registered:
        raise DuplicateNameError(f"{name!r} is already registered in {kind}. Choose another name or version.")


def registrations() -> dict[tuple[str, str], Any]:
    """Return the objects registered in this process, by kind and name, for `adopt` in another process."""
    return {(kind, name): registered for kind, by_name in _registered.items() for name, registered in by_name.items()}


def adopt(registered: Mapping[tuple[str, str], Any]) -> None:
    """Register the objects that another process has registered, replacing those of the same name."""
    for (kind, name), value in registered.items():
        _registered[kind][name] = value  # type: ignore[index]


def names(kind: Kind) -> list[str]:
    """Return all registered names of a kind, sorted."""
    _check_kind(kind)
    return sorted({*_registered[kind], *_points(kind)})


def load(kind: Kind, name: str) -> Any:
    """Return the object registered under a name; import it if necessary.

    Raises: UnknownNameError with the nearest name; RegistrationError for an invalid entry point;
        MissingExtraError if a required package is not installed.
    """
    _check_kind(kind)
    if not isinstance(name, str):
        raise UnknownNameError(
            f"{name!r:.80} is not a name. Register the object by register(NAME, ..., kind={kind!r}), and give its "
            "name here."
        )
    if name in _registered[kind]:
        return _registered[kind][name]
    if kind == "environments" and "://" in name:
        return load("environment_schemes", name.partition("://")[0])(name)
    point = _points(kind).get(name)
    if point is None:
        raise UnknownNameError(_not_found(kind, name))
    return _imported(kind, point)


def make(
    name: str | Callable[..., Environment], *, backend: Backend | str | None = None, **options: Any
) -> Environment:
    """Return a fresh environment: `agentgym.make("agentgym/sql-v1")`.

    Args:
        name: registered id of the environment, its address on an environment server, or its class or factory.
        backend: creates its sandboxes; a name or a Backend, by default `namespaces`. Ignored if the factory set one.
        options: passed to the environment's class or factory.
    Raises: UnknownNameError; RegistrationError if a factory does not return an Environment.
    """
    environment = prototype(name, **options)
    if environment.sandbox is not None and environment.backend is None:
        environment.backend = shared_backend(backend or DEFAULT_BACKEND)
    return environment


def prototype(name: str | Callable[..., Environment], **options: Any) -> Environment:
    """Return an instance without a backend, to read `tools`, `reward`, `sandbox` and `unavailable_reason()`.

    The registered object may be a class or a factory; only an instance is sure to have these attributes.
    """
    factory = load("environments", name) if isinstance(name, str) else name
    environment = factory(**options)
    if not isinstance(environment, Environment):
        raise RegistrationError(
            f"The factory of {name!r} must return an environment, but it returned {environment!r:.80}, which is not "
            "an instance of Environment."
        )
    if environment.sandbox is not None and not isinstance(environment.sandbox, SandboxSpec):
        raise RegistrationError(
            f"{type(environment).__qualname__}.sandbox is {environment.sandbox!r:.80}. Give a SandboxSpec, such as "
            "SandboxSpec(memory_mib=256), or None for an environment in memory. The backend is an option of `make`."
        )
    return environment


def environment_of(chosen: str | None, task_environment: str) -> str:
    """Return the environment to play a task in.

    Args:
        chosen: None for the task's own environment; the id or address of another one; or the address of a server,
            ending with a slash, for the task's own environment on that server.
        task_environment: the environment that the task names.
    """
    if chosen is None:
        return task_environment
    return f"{chosen}{task_environment}" if chosen.endswith("/") else chosen


def shared_backend(name: str | Backend = DEFAULT_BACKEND) -> Backend:
    """Return the process-wide backend of this name, made on first use. A Backend is returned unchanged.

    To close the shared backends at the end, a long-running program holds a `BackendUser`; a script calls
    `close_backends`.
    """
    if not isinstance(name, str):
        return name
    if name not in _backends:
        _backends[name] = load("backends", name)()
    return _backends[name]


class BackendUser:
    """A user of the shared backends, such as a rollout manager. The last user to close also closes the backends."""

    def __init__(self) -> None:
        _backend_users.add(self)

    async def close(self) -> None:
        """Close the shared backends, unless another user is still open. May be called twice."""
        _backend_users.discard(self)
        if not _backend_users:
            await close_backends()


async def close_backends() -> None:
    """Close every shared backend now, even if still used; the next `make` starts new ones."""
    while _backends:
        await _backends.popitem()[1].close()


def load_task_set(name: str) -> TaskSet:
    """Return a task set by registered name, or from a `.jsonl` file by its path. The oracle of a file's tasks is the
    class method `solution_of(task)` of their environments, if all have one.

    Raises: UnknownNameError, TaskError, SplitLeakError; RegistrationError if the name is not a task set's.
    """
    if name.endswith((".jsonl", ".json")) or Path(name).is_file():
        task_set = TaskSet.from_jsonl(name)
        task_set.oracle = task_set.oracle or _oracle_of_environments(task_set)
        return task_set
    return _instance("task_sets", name, TaskSet, {})


def _oracle_of_environments(task_set: TaskSet) -> Callable[[Task], Any] | None:
    """Return the player of the tasks' own solutions; None if an environment has none, or cannot be loaded here."""
    identifiers = {task.environment for tasks in task_set.values() for task in tasks}
    if not identifiers <= set(names("environments")):
        return None
    try:
        players = {name: getattr(load("environments", name), "solution_of", None) for name in identifiers}
    except MissingExtraError:  # playing the tasks raises it again
        return None
    known: dict[str, Callable[[Task], Any]] = {name: player for name, player in players.items() if player}
    return task_player(lambda task: known[task.environment](task)) if known.keys() == identifiers else None


def task_set_for(environment: str) -> TaskSet | None:
    """Return the task set that an environment declares, or else a registered set whose tasks use it; None if none does.

    Bundled environments declare theirs, so only sets that are not bundled are built to look for one.
    """
    environment = environment.partition("://")[2].partition("/")[2] or environment  # the id in an address
    if environment in names("environments") and (
        declared := getattr(load("environments", environment), "task_set", "")
    ):
        return load_task_set(declared)
    for name in names("task_sets"):
        if _is_bundled("task_sets", name):
            continue
        task_set = load_task_set(name)
        if any(len(tasks) and tasks[0].environment == environment for tasks in task_set.values()):
            return task_set
    return None


def load_reward(name: str, **options: Any) -> Reward:
    """Return a reward by registered name. The registered object is a Reward, or makes one when called with options.

    Raises: UnknownNameError; RegistrationError if the name is not a reward's.
    """
    return _instance("rewards", name, Reward, options)


def _instance(kind: Kind, name: str, expected: type[T], options: Mapping[str, Any]) -> T:
    """Return the registered instance, or the one that the registered maker returns. Raises: RegistrationError."""
    registered = load(kind, name)
    is_maker = callable(registered) and (options or not isinstance(registered, expected))
    instance = registered(**options) if is_maker else registered
    if not isinstance(instance, expected):
        verb = "returned" if is_maker else "is"
        raise RegistrationError(
            f"{name!r} is registered in {kind}, but it {verb} {instance!r:.80}. Register an instance of "
            f"{expected.__name__}, or a function that returns one."
        )
    return instance


def origin(kind: Kind, name: str) -> str | None:
    """Return a name's entry point as `module:attribute`; None if registered in this process. Imports nothing."""
    if name in _registered[kind] or name not in _points(kind):
        return None
    return _points(kind)[name].value


def everything() -> Iterator[tuple[Kind, str]]:
    """Yield every kind and registered name, without importing anything."""
    for kind in KINDS:
        for name in names(kind):
            yield kind, name


def _is_bundled(kind: Kind, name: str) -> bool:
    """Return whether a name is bundled with agentgym."""
    return (origin(kind, name) or "").startswith("agentgym.")


@cache
def _points(kind: Kind) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"agentgym.{kind}")}


def _imported(kind: Kind, point: EntryPoint) -> Any:
    """Return the object of an entry point. Raises: RegistrationError, MissingExtraError, as `load`."""
    remedy = "Correct it in the pyproject.toml of that package, and install the package again."
    if name_fault := _name_fault(kind, point.name):
        raise RegistrationError(f"{name_fault} The name is an entry point of {_package_of(point)}. {remedy}")
    try:
        return point.load()
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if f"{point.module}.".startswith(f"{missing}."):
            raise RegistrationError(f"{_entry(kind, point)}, but there is no module {missing!r}. {remedy}") from error
        if missing.split(".")[0] in ("", "agentgym"):
            raise
        raise MissingExtraError(
            f"{point.name!r} of {kind} needs the package {missing!r}, which is not installed. Install it, or install "
            f"every optional package: {install_command('all')}."
        ) from error
    except AttributeError as error:
        if point.module not in sys.modules:
            raise  # importing it failed: a bug in its own code
        close = get_close_matches(point.attr, dir(sys.modules[point.module]), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        fault = f"{_entry(kind, point)}, but {point.module} has no {point.attr!r}."
        raise RegistrationError(f"{fault}{hint} {remedy}") from error


def _entry(kind: Kind, point: EntryPoint) -> str:
    return f"{point.name!r} of {kind} is given as {point.value!r} by {_package_of(point)}"


def _package_of(point: EntryPoint) -> str:
    """Return the package of an entry point. Its metadata is parsed on each call: use for errors only."""
    return f"the package {point.dist.name!r}" if point.dist else "a package"


def _name_fault(kind: Kind, name: str) -> str:
    """Return what is wrong with a name; "" if it may be registered."""
    if kind not in ("environments", "task_sets") or _VERSIONED.fullmatch(name):
        return ""
    return (
        f"{name!r} cannot name one of the {kind}: write namespace/name-vN, for example 'acme/sql-v1'. "
        "The version goes up when old results would no longer compare."
    )


def _check_kind(kind: str) -> None:
    if kind not in _registered:
        raise ValueError(f"{kind!r} is not a kind of registered object. The kinds are: {', '.join(KINDS)}.")


def _not_found(kind: Kind, name: str) -> str:
    known = names(kind)
    stem = re.sub(r"-v\d+$", "", name)
    close = [k for k in known if re.sub(r"-v\d+$", "", k) == stem]
    close = close or [k for k in known if k.split("/")[-1].rsplit("-v", 1)[0] == stem.split("/")[-1]]
    close = close or get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[-1]!r}?" if close else f"Registered: {', '.join(known[:MAX_NAMED]) or 'none'}"
    if not close:
        hint += f" and {len(known) - MAX_NAMED} more." if len(known) > MAX_NAMED else "."
    return (
        f"Nothing in {kind} is named {name!r}. {hint} `agentgym list {kind}` names all {len(known)}. "
        f"A package adds one under the entry-point group 'agentgym.{kind}'."
    )
