"""Estimators and their wrappers in one line of text: "return_to_go(gamma=0.9) | gated(threshold=1.0)"."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from agentgym.errors import CreditError

SYNTAX_HINT = 'write a name, with options in brackets, and wrappers after a bar: "rloo | gated(threshold=1.0)".'


@dataclass(frozen=True, slots=True)
class ComposedPart:
    """One name of a composition, and the options written after it."""

    name: str
    options: dict[str, Any]


def parse_composition(text: str) -> list[ComposedPart]:
    """Return the estimator, then its wrappers from the inside out. Options are Python literals.

    Raises: CreditError naming the part that cannot be read.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CreditError(f"{text!r} cannot be read: {SYNTAX_HINT}") from error
    wrappers: list[ComposedPart] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        wrappers.append(_part(node.right, text))
        node = node.left
    return [_part(node, text), *reversed(wrappers)]


def _part(node: ast.expr, text: str) -> ComposedPart:
    options: dict[str, Any] = {}
    if isinstance(node, ast.Call):
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise CreditError(f"{ast.unparse(node)!r} in {text!r} has an option without a name. Write name=value.")
        for keyword in node.keywords:
            try:
                options[str(keyword.arg)] = ast.literal_eval(keyword.value)
            except ValueError as error:
                raise CreditError(
                    f"The option {keyword.arg}={ast.unparse(keyword.value)} in {text!r} is not a plain value. Write a "
                    "number, True, False, or text in quotation marks."
                ) from error
        node = node.func
    if not isinstance(node, ast.Name):
        raise CreditError(f"{ast.unparse(node)!r} in {text!r} is not a name: {SYNTAX_HINT}")
    return ComposedPart(node.id, options)
