"""How often each folder still breaks a rule that the whole project does not keep yet.

`allowed.toml` holds the numbers. A test fails where the sum of a rule has risen, so that it can only fall:

    python tests/rules/ratchet.py             what breaks which rule where, beside what is allowed
    python tests/rules/ratchet.py --list      every place
    python tests/rules/ratchet.py --update    write today's numbers into allowed.toml
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))  # where pytest finds source_tree by itself

from private_words import words_in
from public_line import imports_past_the_line
from sentences import argument_without_noun, as_class, is_no, not_imperative, people_for_programs
from source_tree import ROOT, source_files, syntax_tree, tracked_files

TABLE = Path(__file__).with_name("allowed.toml")
FORMATTER_ESCAPE = re.compile(r"#\s*fmt: (skip|off)")


def folder_of(path: Path) -> str:
    """The folder that a count belongs to: `agentgym/credit` for the framework, `tests/credit`, `docs` for a page."""
    depth = 2 if path.parts[0] in ("agentgym", "sandboxes", "tests") and len(path.parts) > 2 else 1
    return "/".join(path.parts[:depth]) if len(path.parts) > 1 else "."


def private_words() -> Iterable[tuple[Path, str]]:
    """Names and docstrings in words of our own."""
    for path in scripts():
        for line, word in words_in(syntax_tree(path), path):
            yield path, f"{path}:{line}: {word}"


def formatter_escapes() -> Iterable[tuple[Path, str]]:
    """Lines that `ruff format` is told to leave alone."""
    for path in scripts():
        if path.parts[:2] == ("tests", "rules"):
            continue
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
            if FORMATTER_ESCAPE.search(line):
                yield path, f"{path}:{number}"


def past_the_public_line() -> Iterable[tuple[Path, str]]:
    """Imports of internal names in what is written as a user would write it."""
    for path, line, statement in imports_past_the_line():
        yield path, f"{path}:{line}: {statement}"


def double_class_names() -> Iterable[tuple[Path, str]]:
    """Public classes that share their name with another one, where the name comes a second time."""
    homes: dict[str, Path] = {}
    for path in source_files():
        for node in syntax_tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if node.name in homes:
                    yield path, f"{path}:{node.lineno}: {node.name}, also in {homes[node.name]}"
                homes.setdefault(node.name, path)


RULES: dict[str, Callable[[], Iterable[tuple[Path, str]]]] = {
    "private_words": private_words,
    "formatter_escapes": formatter_escapes,
    "past_the_public_line": past_the_public_line,
    "double_class_names": double_class_names,
    "not_imperative": not_imperative,
    "is_no": is_no,
    "as_class": as_class,
    "argument_without_noun": argument_without_noun,
    "people_for_programs": people_for_programs,
}


def scripts() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py"]


def count(rule: str) -> Counter[str]:
    """How often each folder breaks a rule today."""
    return Counter(folder_of(path) for path, _ in RULES[rule]())


def allowed() -> dict[str, dict[str, int]]:
    """How often each folder may break each rule: allowed.toml."""
    return tomllib.loads(TABLE.read_text())


def as_toml(numbers: dict[str, Counter[str]]) -> str:
    """The text of allowed.toml."""
    head = "# How often a folder still breaks a rule. Written by: python tests/rules/ratchet.py --update\n"
    sections = [
        f"\n[{rule}]\n" + "".join(f'"{folder}" = {counts[folder]}\n' for folder in sorted(counts))
        for rule, counts in numbers.items()
    ]
    return head + "".join(sections)


def main(arguments: list[str]) -> None:
    numbers = {rule: count(rule) for rule in RULES}
    if "--list" in arguments:
        for rule in RULES:
            print(f"\n{rule}", *(where for _, where in RULES[rule]()), sep="\n  ")
    if "--update" in arguments:
        TABLE.write_text(as_toml(numbers))
    table = allowed()
    for rule, counts in numbers.items():
        print(f"\n{rule}: {counts.total()}")
        for folder in sorted(counts):
            print(f"  {folder:24} {counts[folder]:5}   allowed {table.get(rule, {}).get(folder, 0)}")


if __name__ == "__main__":
    main(sys.argv[1:])
