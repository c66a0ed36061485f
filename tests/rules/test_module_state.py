"""Modules keep no state, except those that docs/stability.md names with what they hold."""

from __future__ import annotations

import ast
import re

from source_tree import ROOT, module_name, source_files, syntax_tree, walk

LITERALS = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
CONTAINERS = re.compile(
    r"(?:\w+\.)*(?:dict|list|set|deque|defaultdict|Counter|Lock|RLock|local|ContextVar|Weak\w+|\w*Pool|\w*Executor)"
)


def test_the_only_module_state_is_what_the_stability_page_names():
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8").partition("## State that outlives a call")[2]
    documented = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    states = [(module_name(path), name) for path in source_files() for name in state_in(syntax_tree(path))]
    unnamed = [f"{module}.{name}" for module, name in states if not is_within(module, documented)]
    assert unnamed == [], "make it an object that somebody owns, or name the module in docs/stability.md"
    assert [entry for entry in documented if not any(is_within(module, [entry]) for module, _ in states)] == []


def is_within(module: str, documented: list[str]) -> bool:
    return any(f"{module}.".startswith(f"{entry}.") for entry in documented)


def state_in(tree: ast.Module) -> list[str]:
    """Names of a module, not written as constants, that hold something that can be changed; and `global` names."""
    names = [name for node in walk(tree) if isinstance(node, ast.Global) for name in node.names]
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
            is_constant = target.isupper() or target.startswith("__") or not target.isidentifier()
            if not is_constant and is_mutable(node.value):
                names.append(target)
    return names


def is_mutable(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return CONTAINERS.fullmatch(ast.unparse(value.func)) is not None
    return isinstance(value, LITERALS)


def test_state_is_seen():
    code = "_open = {}\n_lock: Lock = threading.Lock()\nNAMES = []\n_x = 3\n__all__ = ['a']\ndef f():\n    global _x\n"
    assert sorted(state_in(ast.parse(code))) == ["_lock", "_open", "_x"]
