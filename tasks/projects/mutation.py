"""A wrong version of a right function: one operator or number of it is changed."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator, Sequence
from typing import Any

_COMPARISONS = {ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Eq: ast.NotEq}
_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mult}


def mutant(source: str, tests: Sequence[str], rng: random.Random) -> str | None:
    """The function with one change that at least one of the assertions notices; None if no change does.

    The source must be ours: it is run here. One with a `while` is left alone, as a change could make it endless.
    """
    tree = ast.parse(source)
    if any(isinstance(node, ast.While) for node in ast.walk(tree)):
        return None
    changed = list(_changes(tree))
    rng.shuffle(changed)
    for candidate in changed:
        text = ast.unparse(candidate) + "\n"
        if passed(text, tests) < len(tests):
            return text
    return None


def passed(source: str, tests: Sequence[str]) -> int:
    """How many assertions hold for code that this project wrote itself."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    count = 0
    for test in tests:
        try:
            exec(test, namespace)
            count += 1
        except Exception:  # noqa: BLE001 - a changed function may fail in any way
            continue
    return count


def _changes(tree: ast.Module) -> Iterator[ast.Module]:
    """Copies of the tree with one node changed each."""
    for place, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            twin, found = _twin(tree, place)
            found.ops[0] = _COMPARISONS[type(node.ops[0])]()
            yield twin
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            twin, found = _twin(tree, place)
            found.op = _OPERATORS[type(node.op)]()
            yield twin
        elif isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1_000:
            twin, found = _twin(tree, place)
            found.value = node.value + 1
            yield twin


def _twin(tree: ast.Module, place: int) -> tuple[ast.Module, Any]:
    """A copy, and the node of it that stands where the walk of the original has its `place`-th."""
    twin = copy.deepcopy(tree)
    return twin, next(node for number, node in enumerate(ast.walk(twin)) if number == place)
