"""The list of reference pages, and the function that writes each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from research.reference import recipe_page, records_page

NOTICE = "<!-- Made from the code by `make reference`. Edit the docstrings instead. -->"
PAGES: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "recipe.md": ("The keys of a recipe", recipe_page.lines),
    "records.md": ("Records and file formats", records_page.lines),
}


def make_pages() -> dict[str, str]:
    """Return the text of every page, by its file name."""
    return {name: "\n".join([NOTICE, "", f"# {title}", "", *lines(), ""]) for name, (title, lines) in PAGES.items()}


def write_pages(folder: Path) -> list[Path]:
    """Write the pages whose text has changed. Returns: their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in make_pages().items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed
