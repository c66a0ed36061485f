"""Old names that keep working for one release, each with a warning that gives the new name.

    old import path             a row of `agentgym.moved.MOVED`
    old keyword argument        `@renamed_keywords(old="new")` above a function or a class
    old command-line option     `renamed_options(arguments, {"--old": "--new"}, where="agentgym eval")`
    anything else               `warn_renamed("old", "new")` in the code that handles the old name

docs/stability.md promises users how long an old name works.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

__all__ = ["AgentGymDeprecationWarning"]

REMOVED_IN = "0.4.0"
"""The release in which the current old names stop working."""

_Callable = TypeVar("_Callable", bound=Callable[..., Any])


class AgentGymDeprecationWarning(DeprecationWarning):
    """An old name was used. The message gives the new name and the release that removes the old one."""


def warn_renamed(old: str, new: str, *, advice: str = "", stacklevel: int = 1) -> None:
    """Warn that `old` is now called `new`.

    Args:
        advice: a sentence to append to the message.
        stacklevel: 1 attributes the warning to the caller of the function that calls `warn_renamed`.
    """
    message = f"{old} is now {new}. The old name stops working in agentgym {REMOVED_IN}."
    warnings.warn(f"{message} {advice}".rstrip(), AgentGymDeprecationWarning, stacklevel=stacklevel + 2)


def renamed_keywords(**renames: str) -> Callable[[_Callable], _Callable]:
    """Let a function, or a class's constructor, still accept keyword arguments under their old names.

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
                    f"{shown_name}() got both {old}= and {new}=, which are the old and the new name of one argument. "
                    f"Leave {old}= out."
                )
            warn_renamed(f"{old}= of {shown_name}()", f"{new}=")
            kwargs[new] = kwargs.pop(old)
        return function(*args, **kwargs)

    return with_new_names


def renamed_options(arguments: Sequence[str], renames: Mapping[str, str], *, where: str) -> list[str]:
    """Replace old option names in command-line arguments (`--old 4`, `--old=4`) by the new ones.

    Arguments after `--` are left unchanged.
    """
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    current = list(arguments)
    for position, argument in enumerate(arguments[:end]):
        option, equals, value = argument.partition("=")
        if option in renames:
            warn_renamed(f"{option} of {where}", renames[option], stacklevel=2)
            current[position] = f"{renames[option]}{equals}{value}"
    return current
