"""The words of our own that names and docstrings do not use; docs/README.md has the table of the words to use.

They came from the project's first months, in which sandboxes were machines and trajectories "what was played".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from source_tree import walk

# These say nothing about the value they hold. Only a whole name counts: `found`, but not `not_found`.
WHOLE_NAMES = {
    "found": "matches, row, path: what was found",
    "one": "row, task, sandbox: what one of them is",
    "said": "answer, error_text, message",
    "told": "output, config, message",
    "asked": "request, question",
    "wanted": "expected, requested",
    "made": "created, environment: what was made",
    "much": "count, amount, n_bytes",
    "whole": "document, trajectory: what is whole",
    "shown": "text, excerpt, prompt",
    "again": "retry, repeated",
    "lacking": "missing",
    "played": "trajectories, episodes, mask",
    "setting": "config",
    "patience": "retry_policy",
    "place": "slot, position, path",
    "kept": "trajectories, selected",
}

# Private nouns. A name that has one of them as a part counts (`open_world`, `SqlWorld`), and so does a docstring.
NOUNS = {
    "asker": "waiter, caller or tenant",
    "askers": "waiters, callers or tenants",
    "lottery": "TaskGenerator",
    "novice": "imperfect_oracle",
    "novices": "imperfect oracles",
    "lookout": "probe",
    "crew": "workers",
    "world": "environment",
    "worlds": "environments",
}

# Private nouns that are also good English: only names count, not docstrings.
NAMED_NOUNS = {
    "machine": "sandbox",
    "machines": "sandboxes",
    "duties": "callbacks",
    "sight": "vision_inputs",
}

# What the field itself calls so.
LEGITIMATE = re.compile(
    r"hello[,_]? ?world|real[- ]world|world[_ -]?size|text[- ]world|around the world|world[- ]wide|worldcup"
    r"|state[_ ]machine|virtual[_ ]machine|machine[_ -](checked|made|readable|learning|code)|platform\.machine",
    re.IGNORECASE,
)

EXEMPT = {Path("agentgym/deprecation.py"), Path("tests/test_deprecation.py")}  # their matter is old names


def words_in(tree: ast.Module, path: Path) -> Iterator[tuple[int, str]]:
    """The line and the word of every private name that a file defines, and of private nouns in its docstrings."""
    if path in EXEMPT or path.parts[:2] == ("tests", "rules"):
        return
    nodes = walk(tree)
    fixed = [node for node in nodes if keeps_its_name(node)]
    fixed_names = {child for node in fixed for child in (node, *names_it_fixes(node))}
    for node in nodes:
        for name in () if node in fixed_names else names_defined_by(node):
            if word := private_word_of(name):
                yield node.lineno, f"{name} ({word})"
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for word in private_words_of_text(ast.get_docstring(node, clean=False) or ""):
                yield getattr(node, "lineno", 1), f"docstring: {word} ({NOUNS[word.lower()]})"


def keeps_its_name(node: ast.AST) -> bool:
    """Whether a definition cannot be renamed.

    A tool, which agents see; a key of a recipe, which is in users' files.
    """
    match node:
        case ast.ClassDef(bases=[ast.Name(id="Section")]):
            return True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return any(ast.unparse(decorator).startswith("tool") for decorator in node.decorator_list)
    return False


def names_it_fixes(node: ast.AST) -> list[ast.expr]:
    """The names that keep theirs with a definition that cannot be renamed: of a section its keys, not its methods."""
    if isinstance(node, ast.ClassDef):
        return [child.target for child in node.body if isinstance(child, ast.AnnAssign)]
    return []


def names_defined_by(node: ast.AST) -> list[str]:
    """The names that a node binds: variables, parameters, attributes, functions, classes, import aliases."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name):
            return [name]
        case ast.alias(asname=str(name)):
            return [name]
        case ast.ExceptHandler(name=str(name)):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
    return []


def private_word_of(name: str) -> str:
    """What to write instead of a name in our own words; nothing for any other name."""
    if LEGITIMATE.search(name):
        return ""
    if name.startswith("test_"):  # a sentence
        return next((NOUNS[part] for part in parts_of(name) if part in NOUNS), "")
    bare = name.strip("_").lower()
    if bare in WHOLE_NAMES:
        return WHOLE_NAMES[bare]
    nouns = {**NOUNS, **NAMED_NOUNS}
    return next((nouns[part] for part in parts_of(name) if part in nouns), "")


def parts_of(name: str) -> list[str]:
    """`SqlWorld` and `sql_world` are both sql, world."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def private_words_of_text(text: str) -> list[str]:
    """The private nouns in a text, without what the field itself calls so and without `code`."""
    prose = LEGITIMATE.sub("", re.sub(r"`[^`\n]*`", "", text))
    return [word for word in re.findall(r"[A-Za-z]+", prose) if word.lower() in NOUNS]
