"""Writes a user's report of a bug: the call, its values, the actual and the expected outcome. Never the location of the
bug, or its fix."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..repository import Repository

MAX_CODE, MAX_ERROR = 1_800, 600
ADDRESS = re.compile(r" at 0x[0-9a-f]+|(?<![0-9a-zA-Z])[0-9A-F]{9,16}(?![0-9a-zA-Z])")
"""An object's memory address: it differs in every run, so it would make all builds different."""
SET_UP = ("setup_method", "setUp")


@dataclass(frozen=True, slots=True)
class Seen:
    """A test's values by name, and its calls with their outcomes, as `guest_calls.py` records them."""

    values: Mapping[str, str] = field(default_factory=dict)
    calls: Sequence[Sequence[str]] = ()

    @classmethod
    def by_test(cls, observed: Any) -> dict[str, Seen]:
        """Read the result of `Package.observe` for `calls`."""
        return {test: cls(*seen) for test, seen in (observed or {}).items()}


def shortest(repository: Repository, failing: Sequence[str], count: int) -> list[str]:
    """Return the `count` failing tests with the least code: these tell the most about a bug."""
    readable = [(len(code), test) for test in failing if (code := _code_of(repository, test, {})) is not None]
    return [test for _, test in sorted(readable)[:count]]


def report(
    repository: Repository, tests: Sequence[str], reasons: Mapping[str, str], seen: Mapping[str, tuple[Seen, Seen]]
) -> tuple[str, str] | None:
    """Return a title and a text that reproduces a bug; None if no test shows the code that was run.

    Args:
        tests: failing tests; the first test with a call that gave a wrong outcome is shown, if possible a test whose
            values can all be written as Python.
        reasons: pytest's message about each test; the traceback is left out, because it leads to the bug.
        seen: the calls of each test without the bug, and with it.
    """
    wrong = {test: call for test in tests if test in seen and (call := wrong_call(*seen[test]))}
    plain = [test for test, (call, should, does) in wrong.items() if "<" not in call + should + does]
    for test in [*plain, *wrong, *tests]:
        code = _code_of(repository, test, seen[test][1].values if test in seen else {})
        if code is None or ("[" in test and test not in seen):  # it would lack the values
            continue
        title = f"{_words(test)} does not work as it should"
        parts = ["To reproduce:", "", *(f"    {line}".rstrip() for line in code.split("\n")), ""]
        if test in wrong:
            signature, should, does = wrong[test]
            name = signature.partition("(")[0]
            title = f"{name} {'raises ' + does.split()[1].rstrip(':') if does[:6] == 'raises' else 'is wrong'}"
            verb, _, value = should.partition(" ")
            parts += [f"`{signature}` {does}.", f"It should {verb.removesuffix('s')} {value}.", ""]
        if complaint := _error_lines(reasons.get(test, "")):
            parts += ["What came of it:", "", *(f"    {line}" for line in complaint.split("\n"))]
        return title, "\n".join(parts).rstrip()
    return None


def wrong_call(good: Seen, bad: Seen) -> tuple[str, str, str] | None:
    """Return the first call whose outcome differs between a run without the bug and one with it, and both outcomes.

    Return None if the two runs make different calls before that.
    """
    for (call, should), (same, does) in zip(good.calls, bad.calls, strict=False):
        if call != same:
            return None
        if should != does:
            return (call, should, does) if should and does else None
    return None


def missing_text(function: str, path: str) -> tuple[str, str]:
    """Return the issue's title and text for a function whose body was removed."""
    return (
        f"{function} is not implemented",
        f"`{function}` in {path} raises NotImplementedError. Write it: its docstring says what it does, and it is used "
        "and tested elsewhere in the package.",
    )


def others_text(failing: Sequence[str], reported: Sequence[str]) -> str:
    """Return a sentence that names the other failing tests."""
    others = sorted({_words(test) for test in failing} - {_words(test) for test in reported})
    if not others:
        return ""
    return f"\n\nThis fails as well: {', '.join(others[:5])}{', ...' if len(others) > 5 else ''}."


def leaks(text: str, fix: str) -> bool:
    """Return whether the text contains a line that the fix would add."""
    added = (line[1:].strip() for line in fix.splitlines() if line.startswith("+") and not line.startswith("+++"))
    lines = {line.strip() for line in text.splitlines()}
    return any(len(line) > 6 and line in lines for line in added)


def _code_of(repository: Repository, test: str, values: Mapping[str, str]) -> str | None:
    """Return the code that a test runs, as a script: the imports and names of its file that it uses, its arguments, its
    class's set-up and its body. None if its file cannot be read, or the script is too long.
    """
    path, _, inside = test.partition("::")
    names = [re.sub(r"\[.*", "", part) for part in inside.split("::")]
    try:
        source = repository.files[path].decode("utf-8")
        module = ast.parse(source)
    except (KeyError, UnicodeDecodeError, SyntaxError, ValueError):
        return None
    lines = source.split("\n")
    node: ast.AST = module
    parts: list[str] = []
    used: list[ast.AST] = []
    for name in names:
        members = {getattr(child, "name", ""): child for child in getattr(node, "body", ())}
        if name not in members:
            return None
        node = members[name]
        set_up = next((members[known] for known in SET_UP if known in members), None)
        if isinstance(set_up, ast.FunctionDef) and set_up is not node:
            parts.append(_body(lines, set_up))
            used.append(set_up)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    parts += [*(f"{name} = {value}" for name, value in values.items()), _body(lines, node)]
    if any("self." in part for part in parts):
        parts[:0] = ["import unittest", "self = unittest.TestCase()"]
    code = "\n".join([*_module_parts(module, lines, [*used, node], set(values)), *parts]).strip()
    return code if 0 < len(code) <= MAX_CODE else None


def _module_parts(module: ast.Module, lines: Sequence[str], nodes: Sequence[ast.AST], given: set[str]) -> Iterator[str]:
    """Yield the top-level statements of a file that define the names used by the nodes, and those used by these
    statements themselves. `given`: names that need no definition.
    """
    needed = {name for node in nodes for part in getattr(node, "body", ()) for name in _names_in(part)} - given
    chosen: list[ast.stmt] = []
    for statement in reversed(module.body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.Assign):
            bound = {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef) and not statement.name.lower().startswith("test"):
            bound = {statement.name}
        else:
            continue
        if bound & needed and statement not in nodes:
            chosen.append(statement)
            needed |= _names_in(statement)
    for statement in reversed(chosen):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            needed_names = [
                alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in needed
            ]
            statement.names = needed_names
            yield ast.unparse(statement)
        else:
            yield "\n".join(lines[statement.lineno - 1 : statement.end_lineno])


def _names_in(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _body(lines: Sequence[str], node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    body = lines[node.body[0].lineno - 1 : node.end_lineno]
    margin = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
    return "\n".join(line[margin:] for line in body)


def _error_lines(reason: str) -> str:
    """Return pytest's lines about the failure, without the traceback's code."""
    lines = [line[1:].strip() for line in reason.splitlines() if line.startswith("E ")]
    return ADDRESS.sub("", "\n".join(lines))[:MAX_ERROR]


def _words(test: str) -> str:
    name = re.sub(r"\[.*", "", test.rpartition("::")[2])
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", name.removeprefix("test")).strip().lower() or name
