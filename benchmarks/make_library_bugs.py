"""Make the bugs of `swe/javascript-v1` and `swe/c-v1`: `python benchmarks/make_library_bugs.py`.

Changes one place of a library at a time, runs its tests in a sandbox, and writes to tasks/library_bugs/bugs.json what
some tests catch and most do not. Needs node, cmake and a C compiler.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym import SandboxSpec, close_backends, seed_of, shared_backend
from agentgym.sandboxes.swe.runners import RUNNERS, Report
from agentgym.tasks.library_bugs.libraries import LANGUAGES, SmallLibrary, libraries

OUT = Path(__file__).parents[1] / "tasks" / "library_bugs" / "bugs.json"
MAX_FAILING_SHARE = 0.6
"""The largest share of a library's tests that may catch a bug: a bug that more tests catch is too easy."""
SIGNS = (
    ("boundary", r" < ", " <= "),
    ("boundary", r" <= ", " < "),
    ("boundary", r" > ", " >= "),
    ("boundary", r" >= ", " > "),
    ("operator", r" === ", " !== "),
    ("operator", r" == ", " != "),
    ("operator", r" !== ", " === "),
    ("operator", r" != ", " == "),
    ("operator", r" && ", " || "),
    ("operator", r" \|\| ", " && "),
    ("operator", r" \+ ", " - "),
    ("operator", r" - ", " + "),
    ("operator", r" \* ", " + "),
    ("operator", r" % ", " / "),
    ("operator", r" \+= ", " -= "),
    ("operator", r" << ", " >> "),
    ("operator", r" >> ", " << "),
    ("operator", r" & ", " | "),
    ("constant", r"(?<![\w.])1(?![\w.])", "2"),
    ("constant", r"(?<![\w.])0(?![\w.])", "1"),
    ("constant", r"(?<![\w.])2(?![\w.])", "3"),
    ("constant", r"\btrue\b", "false"),
    ("loop", r"\bcontinue;", "break;"),
    ("loop", r"\bbreak;", "continue;"),
    ("argument", r"\((\w+), (\w+)\)", r"(\2, \1)"),
    ("return", r"return \w[^;{]*;", "return 0;"),
)
NO_CODE = re.compile(
    r"^\s*(//|/\*|\*|#|'use strict'|module\.exports|const \{|function |class |static const)|^\w.*\{$|^$"
)
SIMPLE = re.compile(
    r"^\s+(?!const |let |int |long |return|struct |static |break|continue|while|for|if|\}|uint)[^{}]*;$"
)


def edits(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield edits: the kind, the text to replace, which occurs once, and its replacement."""
    lines = source.split("\n")
    for number, line in enumerate(lines):
        if NO_CODE.search(line):
            continue
        changed: list[tuple[str, list[str]]] = []
        for kind, pattern, other in SIGNS:
            for match in re.finditer(pattern, line):
                changed.append((kind, [line[: match.start()] + match.expand(other) + line[match.end() :]]))
        if SIMPLE.match(line):
            changed.append(("call" if "(" in line and " = " not in line else "statement", []))
        guard = line.strip().startswith("if (") and "return" in "".join(lines[number + 1 : number + 2])
        if guard and lines[number + 2].strip() == "}":
            yield from _placed("handling", lines, number, 3, [])
        for kind, new in changed:
            yield from _placed(kind, lines, number, 1, new)


def _placed(kind: str, lines: list[str], at: int, count: int, new: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the edit with enough surrounding lines that old and new text are each unique in the file, if possible."""
    source = "\n".join(lines)
    for around in range(4):
        if at - around < 0 or at + count + around > len(lines):
            return
        before, after = lines[at - around : at], lines[at + count : at + count + around]
        right, wrong = "\n".join([*before, *lines[at : at + count], *after]), "\n".join([*before, *new, *after])
        if wrong.strip() and source.count(right) == 1 and source.replace(right, wrong).count(wrong) == 1:
            yield kind, right, wrong
            return


async def bugs_of(library: SmallLibrary, count: int) -> list[dict[str, Any]]:
    """Return bugs of a library that its tests catch, in random order."""
    sandbox = await shared_backend("namespaces").create(SandboxSpec(memory_mib=1024, processes=64, disk_mib=128))
    runner = RUNNERS[library.language.runner]
    source = library.files[library.path]

    async def report(text: str) -> Report:
        await sandbox.write(f"repo/{library.path}", text.encode())
        more = " --output-on-failure" if runner.title == "CTest" else ""
        command = f"ulimit -t 2; {runner.command}{more}"
        result = await sandbox.exec(["sh", "-c", command], cwd="repo", env={"HOME": "/tmp"}, timeout_s=15)
        text = result.stdout.decode("utf-8", "replace")
        seen = runner.parse("" if result.timed_out else text)
        if runner.title == "CTest":
            for test in seen.outcomes:
                message = re.search(rf": {test} \.+\*\*\*Failed.*\n(.+)", text)
                seen.reasons[test] = message[1] if message else ""
        return seen

    for path, text in library.files.items():
        await sandbox.write(f"repo/{path}", text.encode())
    good = await report(source)
    assert good.outcomes, library
    assert set(good.outcomes.values()) == {"passed"}, (library, good.outcomes)
    rng = random.Random(seed_of("swe/libraries", library.name, 0))
    candidates = list(edits(source))
    rng.shuffle(candidates)
    rows: list[dict[str, Any]] = []
    for kind, right, wrong in candidates:
        bad = await report(source.replace(right, wrong))
        failing = sorted(test for test in good.outcomes if bad.outcomes.get(test) == "failed")
        if set(bad.outcomes) != set(good.outcomes) or not 1 <= len(failing) <= MAX_FAILING_SHARE * len(good.outcomes):
            continue
        example = min(
            (test for test in failing if bad.reasons.get(test)), key=lambda t: len(library.tests[t]), default=""
        )
        if not example or any(row["wrong"] == wrong for row in rows):
            continue
        says = said_by(bad.reasons[example]) if runner.title != "CTest" else bad.reasons[example]
        rows.append(
            {
                **{"language": library.language.name, "library": library.name, "kind": kind, "right": right},
                **{"wrong": wrong, "failing": failing, "example": example, "says": says},
            }
        )
        if len(rows) == count:
            break
    await sandbox.close()
    return rows


def said_by(reason: str) -> str:
    """Return the message of a failed assertion in Node's report, without the source locations."""
    lines = reason.split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("error:")), 0)
    end = next(
        (n for n, line in enumerate(lines) if n > start and line.startswith(("code:", "stack:", "name:"))), start + 1
    )
    text = "\n".join([lines[start].removeprefix("error:").strip(" '|-"), *lines[start + 1 : end]])
    return re.sub(r"\n{2,}", "\n", text).strip()


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--each", type=int, default=30, help="bugs of a library")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for language in LANGUAGES.values():
        for library in libraries(language):
            rows += (of_library := await bugs_of(library, options.each))
            print(language.name, library.name, len(of_library), flush=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")
    await close_backends()


if __name__ == "__main__":
    asyncio.run(main())
