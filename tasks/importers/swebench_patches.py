"""Writes and reverses unified diffs, and finds the files that they touch."""

from __future__ import annotations

import re
from difflib import unified_diff
from io import StringIO

HUNK = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def patch_of(path: str, before: str | None, after: str | None) -> str:
    """Return the unified diff of a file's texts, of which None means that the file does not exist."""
    names = ["/dev/null" if before is None else f"a/{path}", "/dev/null" if after is None else f"b/{path}"]
    old, new = (list(StringIO(text or "", newline="\n")) for text in (before, after))
    mode = "new file mode 100644\n" if before is None else "deleted file mode 100644\n" if after is None else ""
    lines = [f"diff --git a/{path} b/{path}\n{mode}", *unified_diff(old, new, names[0], names[1])]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def files_in(patch: str) -> list[str]:
    """Return the files that a patch changes or adds, in its order."""
    return re.findall(r"^\+\+\+ b/(\S+)", patch, re.M)


def reversed_patch(patch: str) -> str:
    """Return the unified diff that reverts a patch. Raises: ValueError for a truncated hunk."""
    lines: list[str] = []
    removed: list[str] = []
    added: list[str] = []
    last = lines  # list of the previous line: a "no newline" mark that follows belongs to it
    left = [0, 0]  # remaining lines of the hunk, before and after
    for line in patch.splitlines(keepends=True):
        sign, rest = line[:1], line[1:]
        if sign == "\\":
            last.append(line)
        elif any(left):
            if sign not in ("-", "+", " ", "\n"):
                raise ValueError(f"a hunk of the patch ends too early, at {line!r:.60}")
            left = [left[0] - (sign != "+"), left[1] - (sign != "-")]
            last = {"-": added, "+": removed}.get(sign, lines)
            if last is lines:
                lines += [*removed, *added]
                removed, added = [], []
                last = lines
            last.append({"-": "+", "+": "-"}.get(sign, sign) + rest)
        else:
            lines += [*removed, *added]
            removed, added = [], []
            last = lines
            if hunk := HUNK.match(line):
                left = [1 if hunk[group] is None else int(hunk[group][1:]) for group in (2, 4)]
                line = f"@@ -{hunk[3]}{hunk[4] or ''} +{hunk[1]}{hunk[2] or ''} @@{line[hunk.end() :]}"
            lines.append(line if hunk else _reversed_header(line))
    lines += [*removed, *added]
    return _swap_names("".join(lines))


def _reversed_header(line: str) -> str:
    for name, opposite in (
        ("new file mode", "deleted file mode"),
        ("rename from", "rename to"),
        ("old mode", "new mode"),
    ):
        for before, after in ((name, opposite), (opposite, name)):
            if line.startswith(before):
                return line.replace(before, after, 1)
    return line


def _swap_names(patch: str) -> str:
    """Exchange the names in `---` and `+++`, with their prefixes."""

    def swapped(match: re.Match[str]) -> str:
        old, new = (re.sub(r"^[ab]/", "", name) if name != "/dev/null" else name for name in match.groups())
        return "".join(
            f"{mark} {name if name == '/dev/null' else prefix + name}\n"
            for mark, prefix, name in (("---", "a/", new), ("+++", "b/", old))
        )

    return re.sub(r"^--- (.*)\n\+\+\+ (.*)\n(?=@@ )", swapped, patch, flags=re.M)
