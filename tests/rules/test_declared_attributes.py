"""Attributes stand where a reader looks for them: in the class body or in `__init__`, none is first set in `reset`."""

from __future__ import annotations

import ast

from source_tree import source_files, syntax_tree, walk

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
NOT_OURS_BUT_EMPTY = {"ABC", "Generic", "NamedTuple", "Protocol", "object"}


def test_every_attribute_is_declared_in_the_class_body_or_set_in_init():
    classes = [node for path in source_files() for node in walk(syntax_tree(path)) if isinstance(node, ast.ClassDef)]
    by_name = {node.name: node for node in classes}
    undeclared = {
        f"{node.name}.{attribute}"
        for node in classes
        if (declared := declared_by(node, by_name)) is not None
        for attribute in set_by(methods_of(node)) - declared
    }
    assert sorted(undeclared) == []


def test_the_rule_sees_an_attribute_that_reset_sets_first():
    tree = ast.parse("class A:\n    x: int\n    def reset(self):\n        self.x, self.y = 1, 2\n")
    (node,) = (item for item in tree.body if isinstance(item, ast.ClassDef))
    assert set_by(methods_of(node)) - (declared_by(node, {"A": node}) or set()) == {"y"}


def declared_by(node: ast.ClassDef, by_name: dict[str, ast.ClassDef]) -> set[str] | None:
    """Names that a class or its bases declare; None where a base is not in this tree and may declare any."""
    declared = {target.id for item in node.body for target in targets_of(item) if isinstance(target, ast.Name)}
    declared |= {method.name for method in methods_of(node)}  # a property's setter
    declared |= set_by(constructors_of(node))
    for base in map(name_of, node.bases):
        if base in NOT_OURS_BUT_EMPTY:
            continue
        inherited = declared_by(by_name[base], by_name) if base in by_name and base != node.name else None
        if inherited is None:
            return None
        declared |= inherited
    return declared


def constructors_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """`__init__`, and the methods of the class that it calls."""
    methods = {method.name: method for method in methods_of(node)}
    inits = [methods[name] for name in ("__init__", "__post_init__", "__set_name__") if name in methods]
    calls = (item.func for init in inits for item in ast.walk(init) if isinstance(item, ast.Call))
    called = {call.attr for call in calls if isinstance(call, ast.Attribute) and name_of(call.value) == "self"}
    return inits + [methods[name] for name in called if name in methods]


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [item for item in node.body if isinstance(item, FUNCTIONS)]


def set_by(methods: list[ast.FunctionDef | ast.AsyncFunctionDef]) -> set[str]:
    nodes = (node for method in methods for node in ast.walk(method))
    attributes = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {attribute.attr for attribute in attributes if name_of(attribute.value) == "self"}


def targets_of(item: ast.stmt) -> list[ast.expr]:
    if isinstance(item, ast.Assign):
        return item.targets
    return [item.target] if isinstance(item, ast.AnnAssign) else []


def name_of(node: ast.expr) -> str:
    inner = node.value if isinstance(node, ast.Subscript) else node
    return inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
