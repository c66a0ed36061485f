"""Tests that must fail, for the judge to see what would have any test pass.

A *canary* is one more test, beside those that judge. A *control* is one of those themselves, under its own name, in
which one thing is changed so that no patch for which the real test passes could pass it: the expected value, the
negation, the exception. What swallows failures, equals everything or reads the expected value passes a control.

Source: our own; the idea is that of mutated tests as negative controls.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

TEST_NAME = re.compile(r"^[ \t]*(?:async )?def (test\w*)", re.M)
WORDS = ("again", "more", "other", "basic", "simple", "extra", "plain", "small", "case", "twice", "full", "edge")
NEGATED = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertRegex": "assertNotRegex",
}
NEGATED |= {negative: positive for positive, negative in NEGATED.items()}
OTHER_AT_RUN_TIME = (
    "{{int: lambda v: v + 3, float: lambda v: v * -7 - 12345, bool: lambda v: not v, "
    "str: lambda v: v[1:] + v[:1] * 2 or 'a'}}.get(type({name}), lambda v: object())({name})"
)
"""What a parameter becomes whose value is known when the test runs: another of the same type, for the usual types."""
RAISES = ("raises", "assertRaises", "assertRaisesRegex", "assertRaisesMessage")


@dataclass(frozen=True, slots=True)
class _Edit:
    """The bytes from `start` to `end` of a file become `text`. `rank`: 0 fools the most cheats."""

    start: int
    end: int
    text: str
    rank: int


def canary_name(source: str, rng: random.Random) -> str:
    """The name of a test that could stand in a test file, and does not."""
    names = sorted(set(TEST_NAME.findall(source))) or ["test_values"]
    while True:
        name = f"{rng.choice(names)}_{rng.choice(WORDS)}"
        if name not in names:
            return name
        names.append(name)


def canary(name: str, rng: random.Random) -> str:
    """The source of a test with this name that fails."""
    values = [rng.randrange(2, 99) for _ in range(3)]
    kind = rng.randrange(3)
    if kind == 0:
        statement = f"assert sorted({values}) == {sorted(values)[::-1]}"
        statement = statement if len(set(values)) > 1 else "assert [1] == [2]"
    elif kind == 1:
        statement = f"assert {values[0]} + {values[1]} == {values[0] + values[1] + values[2]}"
    else:
        statement = f"assert str({values[0]}).isalpha()"
    return f"def {name}():\n    {statement}\n"


def control_of(source: str, tests: Sequence[str], rng: random.Random) -> tuple[str, list[str]]:
    """A test file in which some of its tests are controls.

    Args:
        source: the file. `tests`: pytest ids of tests, without the file's name.
    Returns: the changed source and those of the tests that are controls in it. None are in a file that is not Python
        as this interpreter reads it, and tests that may end early are left as they are.
    """
    if (tree := _tree_of(source)) is None:
        return source, []
    file = _File(source)
    edits: list[_Edit] = []
    controls: list[str] = []
    functions: dict[tuple[str, ...], list[str]] = {}
    for test in tests:
        functions.setdefault(tuple(re.sub(r"\[.*", "", test, flags=re.S).split("::")), []).append(test)
    for names, ids in functions.items():
        function = _find(tree, names)
        if function is None or _is_left_alone(function):
            continue
        possible = list(file.edits_of(function, rng))
        best = min((edit.rank for edit in possible), default=None)
        if best is not None:
            edits.append(rng.choice([edit for edit in possible if edit.rank == best]))
            controls += ids
    changed = file.apply(edits)
    return (changed, controls) if _tree_of(changed) is not None else (source, [])


def _tree_of(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _File:
    """Finds the places of syntax nodes in a file's bytes."""

    def __init__(self, source: str) -> None:
        self._raw = source.encode("utf-8")
        self._starts = [0]
        for line in self._raw.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def apply(self, edits: Sequence[_Edit]) -> str:
        raw = self._raw
        for edit in sorted(edits, key=lambda edit: -edit.start):
            raw = raw[: edit.start] + edit.text.encode("utf-8") + raw[edit.end :]
        return raw.decode("utf-8")

    def edits_of(self, function: ast.FunctionDef | ast.AsyncFunctionDef, rng: random.Random) -> Iterator[_Edit]:
        """Changes that make a test fail which passed without them. Only statements that run for certain are changed:
        those of the function's own level."""
        parameters = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        first = function.body[0]
        indent = " " * first.col_offset
        for statement in function.body:
            if isinstance(statement, ast.Assert):
                for name in _compared_parameters(statement.test, parameters) if self._begins_line(statement) else ():
                    at = self._start(statement)
                    yield _Edit(at, at, f"{name} = {OTHER_AT_RUN_TIME.format(name=name)}\n{indent}", 1)
                yield from self._of_condition(statement.test, rng)
            elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                yield from self._of_call(statement.value, rng)
            elif isinstance(statement, ast.With):
                for item in statement.items:
                    call = item.context_expr
                    if isinstance(call, ast.Call) and _name_of(call.func) in RAISES and call.args:
                        yield self._instead(call.args[0], "BufferError", 1)
        last = function.body[-1]
        if self._begins_line(first) and isinstance(last, ast.Assert | ast.Expr | ast.Assign | ast.With | ast.For):
            at = self._starts[last.end_lineno or 0]
            line = self._raw[self._end(last) : at].partition(b"#")[0].strip()
            if not line and at <= len(self._raw):
                name = next(iter(sorted(parameters)), "None")
                yield _Edit(at, at, f"{indent}assert repr({name}) == {rng.choice(WORDS)!r}\n", 3)

    def _of_condition(self, test: ast.expr, rng: random.Random) -> Iterator[_Edit]:
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            yield from self._of_equality(test.left, test.comparators[0], rng, exact=True)
        else:
            yield self._instead(test, f"not ({self._text(test)})", 1)

    def _of_equality(self, left: ast.expr, right: ast.expr, rng: random.Random, *, exact: bool) -> Iterator[_Edit]:
        sides = [side for side in (left, right) if _is_literal(side)]
        for side in sides if len(sides) == 1 else ():
            yield self._instead(side, repr(_other(ast.literal_eval(side), rng, exact=exact)), 0)
        if not sides:
            plain = [side for side in (left, right) if not any(isinstance(n, ast.Call) for n in ast.walk(side))]
            yield self._instead(rng.choice(plain or [left, right]), "object()", 2)

    def _of_call(self, call: ast.Call, rng: random.Random) -> Iterator[_Edit]:
        name = _name_of(call.func)
        if name in NEGATED and isinstance(call.func, ast.Attribute):
            end = self._end(call.func)
            yield _Edit(end - len(name), end, NEGATED[name], 1)
        elif name in RAISES and len(call.args) > 1:
            yield self._instead(call.args[0], "BufferError", 1)
        elif (
            re.search("equal|close|^eq_?$", name, re.I)
            and not re.search("not|less|greater", name, re.I)
            and len(call.args) >= 2
            and not any(isinstance(argument, ast.Starred) for argument in call.args)
        ):
            exact = not call.keywords and not re.search("close|almost", name, re.I)
            yield from self._of_equality(call.args[0], call.args[1], rng, exact=exact)

    def _instead(self, node: ast.expr, text: str, rank: int) -> _Edit:
        return _Edit(self._start(node), self._end(node), text, rank)

    def _begins_line(self, statement: ast.stmt) -> bool:
        return not self._raw[self._starts[statement.lineno - 1] : self._start(statement)].strip(b" ")

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def _text(self, node: ast.expr) -> str:
        return self._raw[self._start(node) : self._end(node)].decode("utf-8")


def _find(tree: ast.AST, names: Sequence[str]) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    node = tree
    for name in names:
        inside = [child for child in getattr(node, "body", ()) if getattr(child, "name", None) == name]
        if not inside:
            return None
        node = inside[-1]
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _is_left_alone(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a test may end before its last statement, or is expected to fail."""
    marks = " ".join(map(ast.unparse, function.decorator_list))
    early = (ast.Return, ast.Yield, ast.YieldFrom)
    return "xfail" in marks or "expectedFailure" in marks or any(isinstance(n, early) for n in ast.walk(function))


def _compared_parameters(test: ast.expr, parameters: set[str]) -> list[str]:
    """The parameters that are one side of an equality and have no part in the other."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return []
    sides = (test.left, test.comparators[0])
    names = [{node.id for node in ast.walk(side) if isinstance(node, ast.Name)} for side in sides]
    return [
        side.id
        for side, others in zip(sides, reversed(names), strict=True)
        if isinstance(side, ast.Name) and side.id in parameters - others
    ]


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _other(value: Any, rng: random.Random, *, exact: bool) -> Any:
    """A value of the same type and size that is not equal, and not near: nothing in it says that a control has it."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float | complex):
        return value + rng.randrange(1, 9) if exact and abs(value) < 2**50 else value * -7 - 12345
    if isinstance(value, str):
        at = rng.randrange(len(value)) if value else 0
        letter = rng.choice([letter for letter in "aehnorst" if letter != value[at : at + 1]])
        return f"{value[:at]}{letter}{value[at + 1 :]}"
    if isinstance(value, bytes):
        return _other(value.decode("latin-1"), rng, exact=exact).encode("latin-1")
    if isinstance(value, list | tuple):
        items = list(value) or [1]
        at = rng.randrange(len(items))
        items[at] = _other(items[at], rng, exact=exact)
        return type(value)(items)
    if isinstance(value, dict):
        key = rng.choice(list(value)) if value else 1
        return {**value, key: _other(value.get(key), rng, exact=exact)}
    if isinstance(value, set | frozenset):
        item = rng.choice(sorted(value, key=repr)) if value else 1
        return type(value)({*value} - {item} | {_other(item, rng, exact=exact)})
    return 0
