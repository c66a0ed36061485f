"""Every code block of the README and of docs/ runs, in the order a reader would run them.

A comment before a block changes how:

    <!-- test: file=NAME -->     the block is saved as NAME, for the blocks that follow
    <!-- test: append=WORDS -->  WORDS are added to each `agentgym train` in it, to make it short
    <!-- test: skip, REASON -->  not run; `make` and `pip`, which would install things, and fragments of other files
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_commands import forked_commands

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")]
BLOCK = re.compile(
    r"(?:<!-- test: (?P<how>[^\n]*?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
MAY_BE_SKIPPED = re.compile(
    r"^(make |torchrun |pip install |\[project\.entry-points|python -m agentgym\.sandboxes|AGENTGYM_\w+=|export VLLM_)"
)


@dataclass(frozen=True)
class Block:
    """One code block: its document and line, what it is, what to do with it."""

    where: str
    kind: str
    text: str
    how: str = ""


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    return [
        Block(f"{path.name}:{text.count(chr(10), 0, m.start('text')) + 1}", m["kind"], m["text"], m["how"] or "")
        for m in BLOCK.finditer(text)
    ]


AT_NIGHT = {f"docs/{name}.md" for name in ("actors", "credit", "how-to/programs", "models", "scale", "stages")}
"""Pages whose blocks take ten seconds of a processor each and use what other pages and tests use: `make test-all`."""


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    thorough = [pytest.mark.thorough] if page_name(path) in AT_NIGHT else []
    return [*thorough, pytest.mark.slow] if trains(path) else thorough


def trains(path: Path) -> bool:
    return any("agentgym train" in b.text and not b.how.startswith("skip") and b.kind == "sh" for b in blocks_of(path))


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> Iterator[Path]:
    """The folder of an `agentgym` that is quick to start, and of a Python whose warnings are errors."""
    with forked_commands(tmp_path_factory.mktemp("commands")) as folder:
        yield folder


def run(block: Block, folder: Path, commands: Path) -> None:
    program = [str(commands / "python-code"), block.text] if block.kind == "python" else None
    if block.kind == "sh":
        text = block.text.replace("\\\n", " ")
        if block.how.startswith("append="):
            more = block.how.removeprefix("append=")
            trains = r"^(agentgym (?:train|cluster plan) .*)$"
            assert re.search(trains, text, re.MULTILINE), f"{block.where} trains nothing, so nothing can be shortened"
            text = re.sub(trains, rf"\1 {more}", text, flags=re.MULTILINE)
        program = ["bash", "-euo", "pipefail", "-c", text]
    assert program is not None, f"{block.where}: a {block.kind!r} block cannot be run; mark it as file= or skip"
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(folder), "NO_COLOR": "1"}
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{block.where}:\n{block.text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("path", [pytest.param(p, id=page_name(p), marks=marks_of(p)) for p in DOCUMENTS])
def test_every_block_of_a_document_runs(path, tmp_path, commands):
    for block in blocks_of(path):
        if block.how.startswith("skip"):
            for line in block.text.strip().splitlines():
                assert not line.startswith("agentgym"), f"{block.where} skips a command that could be run"
            assert MAY_BE_SKIPPED.match(block.text), f"{block.where} may not be skipped"
        elif block.how.startswith("file="):
            (tmp_path / block.how.removeprefix("file=")).write_text(block.text, encoding="utf-8")
        else:
            run(block, tmp_path, commands)


@pytest.mark.parametrize("path", DOCUMENTS, ids=page_name)
def test_no_block_is_overlooked(path):
    """A fence that the pattern does not see, or an unknown kind, would be a block that nobody runs."""
    text = path.read_text(encoding="utf-8")
    assert text.count("\n```") == 2 * len(blocks_of(path))
    assert {block.kind for block in blocks_of(path)} <= {"python", "sh", "toml"}


@pytest.mark.parametrize("path", [*DOCUMENTS, *OTHER_PAGES], ids=page_name)
def test_every_relative_link_leads_somewhere(path):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        page = path.parent / target if target else path
        assert page.exists(), f"{path.name} links to {target}"
        assert not anchor or page.suffix != ".md" or anchor in anchors_of(page), f"{path.name}: {target}#{anchor}"


def anchors_of(page: Path) -> set[str]:
    """The anchors that a Markdown viewer gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readmes_own_environment_is_short_and_its_file_map_is_true():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = next(b for b in blocks_of(ROOT / "README.md") if b.kind == "python")
    assert sum(bool(line.strip()) for line in block.text.splitlines()) <= 20
    assert set(re.findall(r"^(?:from|import) (agentgym\S*)", block.text, re.MULTILINE)) == {"agentgym"}
    for folder in re.findall(r"`([a-z]+/(?:[a-z]+/)?)`", text.split("## What is where")[1].split("##")[0]):
        assert (ROOT / folder).is_dir(), f"the file map names {folder}"


def test_a_block_that_fails_fails_its_document(tmp_path, commands):
    for text, kind in (("raise ValueError('broken')", "python"), ("agentgym show nowhere", "sh")):
        with pytest.raises(AssertionError, match="here:1"):
            run(Block("here:1", kind, text), tmp_path, commands)
