"""Which children of a package import each other in a circle, and by which lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from source_tree import Import, imports_of, module_name, package_files, source_files

Arrows = Mapping[str, Mapping[str, list[str]]]
"""By child of a package: each other child that it imports, with the lines that do."""


def packages() -> list[str]:
    """Return the dotted name of every package of the framework and of its content."""
    return sorted(module_name(path) for path in package_files() if path.name == "__init__.py")


def arrows_between_children(package: str, imports: Mapping[Path, list[Import]] | None = None) -> Arrows:
    """Return which direct children (files and folders) of a package import which other ones.

    All imports count: those in functions and under TYPE_CHECKING too. A child that imports the package itself imports
    its `__init__`.
    """
    arrows: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, statements in (imports or {path: imports_of(path) for path in source_files()}).items():
        child = _child(package, module_name(path))
        for statement in statements if child else ():
            other = _child(package, statement.module)
            if other not in ("", child):
                arrows[child][other].append(f"{path}:{statement.line}")
    return arrows


def circles(arrows: Arrows) -> Iterator[list[str]]:
    """Yield each set of children that all reach each other, sorted by name."""
    reached = {child: _reachable(child, arrows) for child in arrows}
    remaining = sorted(child for child in arrows if child in reached[child])
    while remaining:
        circle = [child for child in remaining if child in reached[remaining[0]] and remaining[0] in reached[child]]
        remaining = [child for child in remaining if child not in circle]
        yield circle


def describe_circle(package: str, circle: list[str], arrows: Arrows) -> str:
    """Return the circle in words: each arrow between its children, with the first line that draws it."""
    drawn = [
        f"{child} -> {other} ({lines[0]}{f' and {len(lines) - 1} more' if lines[1:] else ''})"
        for child in circle
        for other, lines in arrows[child].items()
        if other in circle
    ]
    return f"{package}: {', '.join(circle)} import each other: {'; '.join(drawn)}"


def _child(package: str, module: str) -> str:
    if module == package:
        return "__init__"
    return module.removeprefix(f"{package}.").partition(".")[0] if module.startswith(f"{package}.") else ""


def _reachable(start: str, arrows: Arrows) -> set[str]:
    reached: set[str] = set()
    ahead = [*arrows.get(start, ())]
    while ahead:
        child = ahead.pop()
        if child not in reached:
            reached.add(child)
            ahead += arrows.get(child, ())
    return reached
