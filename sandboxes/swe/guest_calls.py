"""Runs inside the sandbox in which tasks are made: records the functions that tests reach, and their calls.

This file is sent to the sandbox unchanged. It uses only the standard library and pytest.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import sys
from types import CodeType, FrameType
from typing import Any

from .guest_repository import PLAIN, begin

MAX_VALUE, MAX_CALLS, MAX_YIELDED, MAX_DEPTH = 300, 40, 20, 6
ADDRESS = re.compile(r" at 0x[0-9a-f]+|(?<![0-9a-zA-Z])[0-9A-F]{9,16}(?![0-9a-zA-Z])")


def reached(chosen: list[str], source: list[str]) -> None:
    """Print, as a line of JSON, the functions as path:name, and for each test the numbers of those that it reaches."""
    numbers: dict[str, int] = {}
    known: dict[CodeType, int | None] = {}
    by_test: dict[str, list[int]] = {}
    now: set[int] = set()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in known:
            path = _inside(code.co_filename)
            name = code.co_qualname.replace(".<locals>", "")
            known[code] = numbers.setdefault(f"{path}:{name}", len(numbers)) if path else None
        if (number := known[code]) is not None:
            now.add(number)

    import pytest

    class Reach:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
            now.clear()
            sys.setprofile(profile)
            try:
                return (yield)
            finally:
                sys.setprofile(None)
                by_test[item.nodeid] = sorted(now)

    _run(chosen, source, Reach(), lambda: [list(numbers), by_test])


def calls(chosen: list[str], source: list[str]) -> None:
    """Print, as a line of JSON, for each test its arguments by name, and its calls of the repository's functions with
    their outcomes: [{name: text}, [[call, outcome], ...]].
    """
    by_test: dict[str, Any] = {}

    import pytest

    class Record:
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_call(self, item: pytest.Item) -> Any:
            given = dict(getattr(getattr(item, "callspec", None), "params", {}))
            given |= {
                name: value
                for name, value in getattr(item, "funcargs", {}).items()
                if name[0] != "_" and _is_plain(value)
            }
            watcher = CallWatcher(item.path.as_posix())
            by_test[item.nodeid] = [{name: text_of(value) for name, value in given.items()}, watcher.calls]
            sys.settrace(watcher.enter)
            try:
                return (yield)
            finally:
                sys.settrace(None)

    _run(chosen, source, Record(), lambda: by_test)


class CallWatcher:
    """A trace function that records a test file's calls of the repository's functions.

    Attributes:
        calls: [call, outcome] in order; the outcome is `returns ...`, `yields ...` or `raises ...`.
    """

    def __init__(self, test_file: str) -> None:
        self._test_file = test_file
        self._open: dict[FrameType, list[Any]] = {}  # the call, the error it may end with, the values it yielded
        self.calls: list[list[str]] = []

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Record an event. This is a trace function for `sys.settrace`."""
        caller = frame.f_back
        if caller is None or caller.f_code.co_filename != self._test_file or len(self.calls) >= MAX_CALLS:
            return None
        name = frame.f_code.co_filename
        if name == self._test_file or not _inside(name) or frame.f_code.co_name.startswith("<"):
            return None
        if frame not in self._open:
            entry = [_call(frame), ""]
            self.calls.append(entry)
            self._open[frame] = [entry, None, []]
        return self._inside

    def _inside(self, frame: FrameType, event: str, argument: Any) -> Any:
        entry, error, yielded = state = self._open[frame]
        generates = frame.f_code.co_flags & inspect.CO_GENERATOR
        if event == "exception":
            state[1] = argument[1]
        elif event == "line":
            state[1] = None
        elif event == "return" and error is not None and argument is None:
            entry[1] = f"raises {type(error).__name__}: {str(error)[:MAX_VALUE]}"
        elif event == "return" and generates:
            if argument is not None and len(yielded) < MAX_YIELDED:
                yielded.append(text_of(argument))
            entry[1] = f"yields {', '.join(yielded) or 'nothing'}"
        elif event == "return":
            entry[1] = f"returns {text_of(argument)}"
        return self._inside


def text_of(value: Any) -> str:
    """Return a Python expression for a value if there is one, else its repr without addresses. A long text is cut."""
    text = _expression(value)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."


def _expression(value: Any, depth: int = 0) -> str:
    kind = type(value)
    if kind is float and not math.isfinite(value):
        return f"float('{value}')"
    if depth < MAX_DEPTH and kind in (list, tuple, set) and value:
        inner = ", ".join(_expression(item, depth + 1) for item in (sorted(value, key=repr) if kind is set else value))
        shape = {"list": "[{}]", "tuple": "({},)" if len(value) == 1 else "({})", "set": "{{{}}}"}[kind.__name__]
        return shape.format(inner)
    if depth < MAX_DEPTH and kind is dict:
        return f"{{{', '.join(f'{_expression(k, depth + 1)}: {_expression(v, depth + 1)}' for k, v in value.items())}}}"
    if isinstance(value, type) or inspect.isroutine(value):
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "<")
        if "<" not in name:
            return name if module in (None, "builtins") else f"{module}.{name}"
    try:
        return ADDRESS.sub("", repr(value))
    except Exception:  # noqa: BLE001  an object that is half made
        return f"<{kind.__name__}>"


def _call(frame: FrameType) -> str:
    """Return a call as source text: arguments by name, except the object of a method."""
    code, values = frame.f_code, frame.f_locals
    count, all_count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    positional, keywords = list(code.co_varnames[:count]), list(code.co_varnames[count:all_count])
    title = code.co_qualname.rpartition("<locals>.")[2]
    if positional and positional[0] in ("self", "cls"):
        del positional[0]
        title = title.removesuffix(".__init__").removesuffix(".__new__")
    more_names = code.co_varnames[all_count:]
    more: tuple[Any, ...] = ()
    if code.co_flags & inspect.CO_VARARGS:
        more, more_names = values.get(more_names[0], ()), more_names[1:]
    given = [f"{'' if more else f'{name}='}{text_of(values.get(name))}" for name in positional]
    given += [text_of(value) for value in more]
    given += [f"{name}={text_of(values.get(name))}" for name in keywords]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        given += [f"{name}={text_of(value)}" for name, value in values.get(more_names[0], {}).items()]
    return f"{title}({', '.join(given)})"


def _is_plain(value: Any) -> bool:
    """Return whether a value consists of numbers, texts and the like, so that its repr is an expression for it."""
    if isinstance(value, list | tuple | set):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _inside(path: str) -> str:
    """Return a file's path within the repository; empty if the file is outside or a test."""
    if not path.startswith("/work/repo/"):
        return ""
    name = path.removeprefix("/work/repo/")
    parts = name.split("/")
    is_test = parts[-1].startswith(("test_", "conftest")) or {"tests", "test", "testing"} & set(parts[:-1])
    return "" if is_test else name


def _run(chosen: list[str], source: list[str], plugin: Any, result: Any) -> None:
    """Run pytest without its output, and print the results of a plugin."""
    own = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    begin(source)
    import pytest

    options = ["-q", "-p", "no:cacheprovider", *PLAIN, "--continue-on-collection-errors", "-W", "ignore"]
    pytest.main([*options, "--rootdir=/work/repo", *chosen], plugins=[plugin])
    data = json.dumps(result()).encode() + b"\n"
    while data:
        data = data[os.write(own, data) :]
    os._exit(0)
