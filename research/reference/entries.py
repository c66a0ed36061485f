"""What a docstring says of each name: `name`: text, as sections of recipes and dataclasses have it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Sequence

_NAMES = re.compile(r"(?:(?<=\n)|(?<=^)|(?<=[.:)] ))`?(\w+)`?((?:, `?\w+`?)*):\s(?=\S)")


def entries_of(text: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Split a docstring into what stands before the first entry, and the text of each entry.

    Args:
        names: what may be explained; anything else before a colon is part of a sentence.
    """
    text = inspect.cleandoc(text)
    marks = []
    for match in _NAMES.finditer(text):
        explained = re.findall(r"\w+", match[1] + match[2])
        if set(explained) <= set(names):
            marks.append((match.start(), match.end(), explained))
    texts: dict[str, str] = {}
    ends = [start for start, _, _ in marks[1:]] + [len(text)]
    for (_, start, explained), end in zip(marks, ends, strict=False):
        for name in explained:
            texts[name] = one_line(text[start:end])
    return text[: marks[0][0]] if marks else text, texts


def attributes_of(cls: type, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """The same for a class whose docstring has a part "Attributes:" or "Args:"."""
    before, texts = entries_of(re.sub(r"\n    +", "\n", inspect.getdoc(cls) or ""), names)
    return re.sub(r"\n(Attributes|Args):\s*$", "", before.rstrip()), texts


def one_line(text: str) -> str:
    """Text in one line, with a full stop and a capital."""
    line = " ".join(text.split()).removesuffix("See also")
    if not line:
        return ""
    line = line if line.startswith("`") or "_" in line.split()[0] else line[0].upper() + line[1:]
    return line if line.endswith((".", "!", "?")) else line + "."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *cells)]
