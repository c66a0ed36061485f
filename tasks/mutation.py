"""Wrong versions of a right function: one operator or number of it is changed."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from typing import Any

_COMPARISONS = {ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Eq: ast.NotEq}
_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mult}


def mutants(source: str, tests: Sequence[str], rng: random.Random, *, most: int = 1) -> list[str]:
    """Versions of the function with one change each, which at least one of the assertions notices.

    The source must be ours: it is run here. Of one with a `while` there are none, as a change could make it endless.
    """
    tree = ast.parse(source)
    if any(isinstance(node, ast.While) for node in ast.walk(tree)):
        return []
    nodes = [node for node in ast.walk(tree) if _changed(node) is not None]
    rng.shuffle(nodes)
    found: list[str] = []
    for node in nodes:
        field, value = _changed(node) or ("", None)
        before = getattr(node, field)
        setattr(node, field, value)
        text = ast.unparse(tree) + "\n"
        setattr(node, field, before)
        if text not in found and _noticed(text, tests):
            found.append(text)
        if len(found) == most:
            break
    return found


def _changed(node: ast.AST) -> tuple[str, Any] | None:
    """Which field of a node can be changed, and to what."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        return "ops", [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return "op", _OPERATORS[type(node.op)]()
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1_000:
        return "value", node.value + 1
    return None


def _noticed(source: str, tests: Sequence[str]) -> bool:
    """Whether an assertion fails for code that this project wrote itself."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    for test in tests:
        try:
            exec(test, namespace)
        except Exception:  # noqa: BLE001 - a changed function may fail in any way
            return True
    return False
