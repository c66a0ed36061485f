"""Makes wrong versions of a correct function by changing one operator or number."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from typing import Any

_COMPARISONS = {ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Eq: ast.NotEq}
_OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.FloorDiv, ast.FloorDiv: ast.Mult}


def mutants(source: str, tests: Sequence[str], rng: random.Random, *, limit: int = 1) -> list[str]:
    """Return changed versions of a function; each has one change, with which at least one of the assertions fails.

    The source must come from this project, because it is executed here. A function with a `while` has no mutants,
    because a change could make its loop endless.

    Args:
        source: the source of one function.
        tests: assertions, as text.
        limit: the largest number of mutants to return.
    """
    tree = ast.parse(source)
    if any(isinstance(node, ast.While) for node in ast.walk(tree)):
        return []
    nodes = [node for node in ast.walk(tree) if _change_of(node) is not None]
    rng.shuffle(nodes)
    variants: list[str] = []
    for node in nodes:
        attribute, value = _change_of(node) or ("", None)
        original = getattr(node, attribute)
        setattr(node, attribute, value)
        text = ast.unparse(tree) + "\n"
        setattr(node, attribute, original)
        if text not in variants and _fails_a_test(text, tests):
            variants.append(text)
        if len(variants) == limit:
            break
    return variants


def _change_of(node: ast.AST) -> tuple[str, Any] | None:
    """Return a node's changeable attribute and its new value; None if the node cannot be changed."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
        return "ops", [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return "op", _OPERATORS[type(node.op)]()
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1_000:
        return "value", node.value + 1
    return None


def _fails_a_test(source: str, tests: Sequence[str]) -> bool:
    """Return whether an assertion fails. The code was written by this project, so it is executed here."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    for test in tests:
        try:
            exec(test, namespace)
        except Exception:  # noqa: BLE001 - a changed function may fail in any way
            return True
    return False
