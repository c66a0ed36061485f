"""Old names that keep working for one release, each with a warning that gives the new name.

    old import path             a module of the old name: `__getattr__ = moved_module(__name__, "agentgym.new.home")`
    old name in a module        `__getattr__ = renamed_attributes(__name__, {"Old": "agentgym.home.New"})`
    old method or property      `old = renamed_member("new")` in the class, `adopt_renamed_members(cls)` in
                                `__init_subclass__`, so that a user's subclass that overrides `old` overrides `new`
    old keyword argument        `@renamed_keywords(old="new")` above a function or a class
    old key of a file           `renamed_keys(table, {"old": "new"}, where="[episode]")`
    old command-line option     `renamed_options(arguments, {"--old": "--new"}, where="agentgym eval")`
    old registered name         `current_name("old", {"old": "new"}, what="The policy")`

docs/stability.md promises users how long an old name works.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

__all__ = [
    "REMOVED_IN",
    "AgentGymDeprecationWarning",
    "adopt_renamed_members",
    "current_name",
    "moved_module",
    "renamed_attributes",
    "renamed_keys",
    "renamed_keywords",
    "renamed_member",
    "renamed_options",
    "warn_removed",
    "warn_renamed",
]

REMOVED_IN = "0.4.0"
"""The release in which the names that are old today stop working."""

_Callable = TypeVar("_Callable", bound=Callable[..., Any])


class AgentGymDeprecationWarning(DeprecationWarning):
    """An old name was used. The message gives the new name and the release that removes the old one."""


def warn_renamed(old: str, new: str, *, advice: str = "", stacklevel: int = 1) -> None:
    """Warn that `old` is now called `new`.

    Args:
        advice: a sentence that is added to the message.
        stacklevel: 1 points the warning at the caller of the function that calls this one.
    """
    message = f"{old} is now {new}. The old name stops working in agentgym {REMOVED_IN}."
    warnings.warn(f"{message} {advice}".rstrip(), AgentGymDeprecationWarning, stacklevel=stacklevel + 2)


def warn_removed(old: str, reason: str, *, stacklevel: int = 1) -> None:
    """Warn that `old` does nothing any more.

    Args:
        reason: why nobody needs it, a clause.
        stacklevel: as in `warn_renamed`.
    """
    message = f"{old} does nothing any more: {reason}. It is refused from agentgym {REMOVED_IN} on."
    warnings.warn(message, AgentGymDeprecationWarning, stacklevel=stacklevel + 2)


def renamed_attributes(module: str, renames: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__` that forwards old names.

    Args:
        module: the module's own `__name__`.
        renames: old name to the dotted path of the new one: `{"Manager": "agentgym.rollout.EpisodeManager"}`.
    """

    def __getattr__(name: str) -> Any:
        if name not in renames:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = renames[name].rpartition(".")
        value = getattr(import_module(home), new)
        warn_renamed(f"{module}.{name}", renames[name])
        return value

    return __getattr__


def moved_module(old: str, new: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that is left at an old import path and forwards every public name to `new`."""

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(import_module(new), name)
        warn_renamed(f"{old}.{name}", f"{new}.{name}")
        return value

    return __getattr__


class RenamedMember:
    """The old name of a method, property or field of a class. Reading it warns and reads the new one."""

    def __init__(self, new: str) -> None:
        self.new = new
        self.old = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.old = name

    def __get__(self, instance: object | None, owner: type) -> Any:
        warn_renamed(f"{owner.__name__}.{self.old}", f"{owner.__name__}.{self.new}")
        return getattr(owner if instance is None else instance, self.new)


def renamed_member(new: str) -> Any:
    """Declare the old name of a member in a class body: `progress = renamed_member("potential")`."""
    return RenamedMember(new)


def adopt_renamed_members(cls: type) -> None:
    """Make a subclass that overrides an old name override the new one; call it from `__init_subclass__`.

    An attribute that merely has an old name, but is another kind of thing (a field, say, where the base class has a
    coroutine method), is left alone.
    """
    for base in cls.__mro__:
        for old, alias in list(vars(base).items()):
            if isinstance(alias, RenamedMember):
                _adopt(cls, old, alias.new)


def _adopt(cls: type, old: str, new: str) -> None:
    old_definer = next(base for base in cls.__mro__ if old in vars(base))
    new_definer = next((base for base in cls.__mro__ if new in vars(base)), None)
    if new_definer is None:  # an optional member, which only some subclasses define
        return
    override, replaced = vars(old_definer)[old], vars(new_definer)[new]
    is_nearer = cls.__mro__.index(old_definer) < cls.__mro__.index(new_definer)
    if is_nearer and _kind_of(override) == _kind_of(replaced):
        advice = f"If it is not meant as {new}, define {new} as well, or give it another name."
        warn_renamed(f"{cls.__name__}.{old}", f"{cls.__name__}.{new}", advice=advice, stacklevel=3)
        setattr(cls, new, override)


def _kind_of(member: object) -> tuple[type, bool]:
    return type(member), inspect.iscoroutinefunction(getattr(member, "__func__", member))


def renamed_keywords(**renames: str) -> Callable[[_Callable], _Callable]:
    """Let a function, or the constructor of a class, still take keyword arguments by their old names.

    Raises: TypeError, in the decorated function, if the old and the new name are both given.
    """

    def decorate(function: _Callable) -> _Callable:
        if isinstance(function, type):
            function.__init__ = _accepting(function.__init__, function.__name__, renames)  # type: ignore[misc]
            return function
        accepting: _Callable = _accepting(function, function.__qualname__, renames)
        return accepting

    return decorate


def _accepting(function: Any, shown_name: str, renames: Mapping[str, str]) -> Any:
    @wraps(function)
    def with_new_names(*args: Any, **kwargs: Any) -> Any:
        for old in [name for name in renames if name in kwargs]:
            new = renames[old]
            if new in kwargs:
                raise TypeError(
                    f"{shown_name}() got both {old}= and {new}=, two names of one argument: leave {old}= out."
                )
            warn_renamed(f"{old}= of {shown_name}()", f"{new}=")
            kwargs[new] = kwargs.pop(old)
        return function(*args, **kwargs)

    return with_new_names


def renamed_keys(
    table: Mapping[str, Any], renames: Mapping[str, str], *, where: str, stacklevel: int = 2
) -> dict[str, Any]:
    """A copy of a table in which old keys have their new names, in the same order.

    Args:
        where: what the warning calls the table, for example `[episode]`.
        stacklevel: 1 points the warning at the caller of this function, 2 at the caller of that one.
    Raises: ValueError if the old and the new key are both there.
    """
    both = [old for old in renames if old in table and renames[old] in table]
    if both:
        old = both[0]
        raise ValueError(f"{where} has both {old} and {renames[old]}, two names of one key: leave {old} out.")
    for old in (name for name in renames if name in table):
        warn_renamed(f"{old} in {where}", renames[old], stacklevel=stacklevel)
    return {renames.get(key, key): value for key, value in table.items()}


def renamed_options(arguments: Sequence[str], renames: Mapping[str, str], *, where: str) -> list[str]:
    """Command-line arguments in which old options (`--old 4`, `--old=4`) have their new names.

    What follows `--` is left as it is.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    current = list(arguments)
    for position, argument in enumerate(arguments[:end]):
        option, equals, value = argument.partition("=")
        if option in renames:
            warn_renamed(f"{option} of {where}", renames[option], stacklevel=2)
            current[position] = f"{renames[option]}{equals}{value}"
    return current


def current_name(name: str, renames: Mapping[str, str], *, what: str) -> str:
    """The present name of something that is known by a string; `what` begins the warning, for example `The policy`."""
    if name not in renames:
        return name
    warn_renamed(f"{what} {name!r}", repr(renames[name]), stacklevel=2)
    return renames[name]
