"""Writes the source of the documentation site: `python docs/site/pages.py FOLDER`, which `make site` calls.

FOLDER then holds mkdocs.yml and its pages: those of docs/, the README as the first one, every file that a page links
to, and the reference of the API. The documents are written to be read in the repository, where `../tests/x.py` leads to
a file; on the site such a link leads to a page that shows the file, a link to a test to the line where it begins.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "docs/README.md": "documents.md"}
"""Files whose page has a name of its own. The page of `docs/x` is `x`, that of another file `source/x.md`."""
LINK = re.compile(r"(\]\()([^)\s]+)(?=\))")
ALIGNED = re.compile(r"^\S.*\S {2,}\S", re.MULTILINE)  # a table of modules, in columns
FENCE = re.compile(r"^ *(```|~~~)", re.MULTILINE)
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh", ".yml": "yaml"}


class BrokenLink(Exception):
    """A document links to a file, or to a name in a file, that does not exist."""


def write_site(folder: Path) -> None:
    """Write mkdocs.yml and all pages into `folder`. Raises: BrokenLink."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.py", "*.md", "*.yml", "__pycache__"))
    waiting = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
    written = set(waiting)
    while waiting:
        path = waiting.pop()
        targets = linked_paths(path)
        write(pages / page_of(path), with_site_links(path))
        linked = {target for target in targets if not target.startswith("docs/") or target.endswith(".py")} - written
        waiting += sorted(linked)
        written |= linked
    packages = public_packages()
    for package, tree in packages.items():
        write(pages / f"api/{package}.md", api_page(package, tree))
    config = (ROOT / "docs/site/mkdocs.yml").read_text("utf-8").replace("REPOSITORY", str(ROOT))
    write(folder / "mkdocs.yml", config + "  - API:\n" + "".join(f"      - api/{package}.md\n" for package in packages))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def with_site_links(path: str) -> str:
    """The page of a file of the repository, with links that lead to pages of the site."""
    return "".join(
        part if is_code else LINK.sub(lambda link: link[1] + site_link(path, link[2]), part)
        for part, is_code in parts_of(source_page(path))
    )


def public_packages() -> dict[str, ast.Module]:
    """The packages of agentgym that declare public names, by dotted name; they are read, and not imported."""
    files = sorted((ROOT / "agentgym").rglob("__init__.py"))
    trees = {".".join(file.parent.relative_to(ROOT).parts): ast.parse(file.read_text("utf-8")) for file in files}
    return {package: tree for package, tree in trees.items() if public_names(tree)}


def public_names(tree: ast.Module) -> list[str]:
    """What a module declares in `__all__`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [value for child in ast.walk(node.value) if isinstance(value := getattr(child, "value", None), str)]
    return []


def api_page(package: str, tree: ast.Module) -> str:
    """The page of a package: what it is, then each public name."""
    blocks = (ast.get_docstring(tree) or "").split("\n\n")
    overview = (f"```text\n{block}\n```" if ALIGNED.search(block) else block for block in blocks)
    return "\n\n".join([f"# {package}", *overview, *(f"::: {package}.{name}" for name in public_names(tree))])


def page_of(path: str) -> str:
    """The site's page for a file of the repository, as a path within the site."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    if (ROOT / path).is_dir() and (ROOT / path / "README.md").is_file():
        path += "/README.md"
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def parts_of(markdown: str) -> Iterator[tuple[str, bool]]:
    """The parts of a page in order, each with whether it is a fenced block of code."""
    start, is_code = 0, False
    for fence in FENCE.finditer(markdown):
        yield markdown[start : fence.start()], is_code
        start, is_code = fence.start(), not is_code
    yield markdown[start:], is_code


def linked_paths(path: str) -> set[str]:
    """The files and folders of the repository that a page links to. Raises: BrokenLink for one that does not exist."""
    if not path.endswith(".md"):
        return set()
    parts = "".join(part for part, is_code in parts_of((ROOT / path).read_text("utf-8")) if not is_code)
    targets = {target for link in LINK.finditer(parts) if (target := target_of(path, link[2]))}
    for target in sorted(targets):
        if not (ROOT / target).exists():
            raise BrokenLink(f"{path} links to {target}, which does not exist")
    return targets


def target_of(path: str, link: str) -> str:
    """The file that a link of the file `path` leads to; empty for a link to elsewhere or within the page."""
    address = link.partition("#")[0]
    if not address or ":" in address:
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), address))


def site_link(path: str, link: str) -> str:
    """A link of the file `path` as the site needs it."""
    target = target_of(path, link)
    if not target:
        return link
    anchor = link.partition("#")[2]
    if anchor and target.endswith(".py"):
        anchor = f"__codelineno-0-{line_of(target, anchor)}"
    here = posixpath.dirname(page_of(path)) or "."
    return posixpath.relpath(page_of(target), here) + (f"#{anchor}" if anchor else "")


def line_of(path: str, name: str) -> int:
    """The line of a module where a function or class begins. Raises: BrokenLink if it has none of this name."""
    for number, line in enumerate((ROOT / path).read_text("utf-8").splitlines(), 1):
        if re.match(rf"\s*(async def|def|class) {re.escape(name)}\b", line):
            return number
    raise BrokenLink(f"{path} has no {name}, to which a page links")


def source_page(path: str) -> str:
    """A file or folder as a page: Markdown as it is, other text as code, a folder as a list of its files."""
    file = ROOT / path
    if file.is_dir():
        readme = file / "README.md"
        if readme.is_file():
            return readme.read_text("utf-8")
        return f"# {path}/\n\n" + "\n".join(
            f"- `{child.name}`" for child in sorted(file.iterdir()) if child.name[0] != "_"
        )
    text = file.read_text("utf-8")
    return text if path.endswith(".md") else f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n````\n"


if __name__ == "__main__":
    try:
        write_site(Path(sys.argv[1]))
    except BrokenLink as error:
        sys.exit(f"The site cannot be built: {error}.")
