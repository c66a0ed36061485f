"""The public line: what users import is what `agentgym` and its packages declare in `__all__`.

README, docs, examples, the Python of recipes and the bundled sandboxes, tasks and rewards are written as a user's own
code would be, so they import public names alone. A single module directly under `agentgym` (agentgym.errors, for
example) or directly in a content folder (agentgym.methods.attempts) counts as a package if it declares `__all__`.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_tree import CONTENT, ROOT, module_name, source_files, syntax_tree, tracked_files, walk

PYTHON_BLOCK = re.compile(r"^```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
USER_FOLDERS = ("examples", "recipes", *CONTENT)


def imports_past_the_line() -> Iterator[tuple[Path, int, str]]:
    """Each import of an internal name in what is written as users write: the file, the line and the import."""
    for path in tracked_files():
        if path.suffix == ".py" and path.parts[0] in USER_FOLDERS:
            yield from ((path, line, words) for line, words in internal_imports(syntax_tree(path)))
        elif path.suffix == ".md" and path.parts[0] in ("README.md", "docs", *USER_FOLDERS):
            text = (ROOT / path).read_text(encoding="utf-8")
            for block in PYTHON_BLOCK.finditer(text):
                first = text.count("\n", 0, block.start("text"))
                tree = ast.parse(textwrap.dedent(block["text"]))
                yield from ((path, first + line, words) for line, words in internal_imports(tree))


def internal_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The absolute imports in a tree that reach behind the public line, each with its line."""
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "agentgym":
            for alias in node.names:
                if not is_public(node.module or "", alias.name):
                    yield node.lineno, f"from {node.module} import {alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("agentgym.") and alias.name not in public_names():
                    yield node.lineno, f"import {alias.name}"


def is_public(module: str, name: str) -> bool:
    """Whether `from module import name` stays on the users' side of the line."""
    return name == "__version__" or name in public_names().get(module, ()) or f"{module}.{name}" in public_names()


@cache
def public_names() -> dict[str, frozenset[str]]:
    """What each public package declares in `__all__`, by its dotted name, read without importing anything."""
    packages = {}
    for path in source_files():
        name = module_name(path)
        depth = 2 if path.parts[0] in CONTENT else 1
        if path.name != "__init__.py" and name.count(".") != depth:
            continue
        if (declared := declared_names(syntax_tree(path))) is not None:
            packages[name] = declared
    return packages


def declared_names(tree: ast.Module) -> frozenset[str] | None:
    """The names in `__all__`; None if a module declares none."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            constants = (child.value for child in ast.walk(node) if isinstance(child, ast.Constant))
            return frozenset(value for value in constants if isinstance(value, str))
    return None
