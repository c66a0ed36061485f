"""What a user would report of a bug: what was tried, and what came of it. Never where it is, or its fix."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from ..repository import Repository

MAX_CODE, MAX_ERROR = 1_200, 600
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where an object lies in memory: another place in every run, and no two builds would be the same."""


def issue_text(repository: Repository, failing: Sequence[str], reasons: Mapping[str, str], package: str) -> str | None:
    """The text of an issue from the tests that fail, shortest first; None where no test shows what was tried.

    Args:
        failing: pytest ids. `reasons`: what pytest said of each; its traceback, which leads to the bug, is left out.
    """
    bodies = [(test, code) for test in failing if (code := _code_of(repository, test)) is not None]
    if not bodies:
        return None
    test, code = min(bodies, key=lambda pair: (len(pair[1]), pair[0]))
    words = _words(test)
    complaint = _error_lines(reasons.get(test, ""))
    parts = [f"{package}: {words} does not work as it should", "", "What I ran:", "", code]
    if complaint:
        parts += ["", "What came of it:", "", complaint]
    others = sorted({_words(other) for other in failing} - {words})
    if others:
        parts += ["", f"It seems to be the same with: {', '.join(others[:5])}{', ...' if len(others) > 5 else ''}."]
    return "\n".join(parts)


def missing_text(function: str, path: str, package: str) -> str:
    """The text for a function whose body is gone."""
    return (
        f"{package}: {function} is not implemented\n\n`{function}` in {path} raises NotImplementedError. Write it: its "
        "docstring says what it does, and it is used and tested elsewhere in the package."
    )


def leaks(text: str, fix: str) -> bool:
    """Whether the text says a line that the fix would add."""
    added = (line[1:].strip() for line in fix.splitlines() if line.startswith("+") and not line.startswith("+++"))
    lines = {line.strip() for line in text.splitlines()}
    return any(len(line) > 6 and line in lines for line in added)


def _code_of(repository: Repository, test: str) -> str | None:
    """The body of a test function, without its name; None if it is not in a file that can be read."""
    path, _, inside = test.partition("::")
    names = [re.sub(r"\[.*", "", part) for part in inside.split("::")]
    try:
        source = repository.files[path].decode("utf-8")
        node: ast.AST = ast.parse(source)
    except (KeyError, UnicodeDecodeError, SyntaxError, ValueError):
        return None
    for name in names:
        node_found = next((child for child in getattr(node, "body", ()) if getattr(child, "name", "") == name), None)
        if node_found is None:
            return None
        node = node_found
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    lines = source.split("\n")[node.body[0].lineno - 1 : node.end_lineno]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    code = "\n".join(line[margin:] for line in lines).strip()
    parameters = re.search(r"\[(.*)\]$", inside)
    if parameters and node.args.args:
        code = f"# with {', '.join(a.arg for a in node.args.args if a.arg != 'self')} = {parameters[1]}\n{code}"
    return code if 0 < len(code) <= MAX_CODE else None


def _error_lines(reason: str) -> str:
    """The lines in which pytest says what was wrong, without the code it went through."""
    lines = [line[1:].strip() for line in reason.splitlines() if line.startswith("E ")]
    return ADDRESS.sub("", "\n".join(lines))[:MAX_ERROR]


def _words(test: str) -> str:
    name = re.sub(r"\[.*", "", test.rpartition("::")[2])
    return re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", name.removeprefix("test")).strip().lower() or name
