"""Writes the changes between two trees of files as a unified diff that `git apply` accepts."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import unified_diff

from agentgym import ToolError

MAX_FILE, MAX_PATCH = 2**20, 200_000


def make_patch(before: Mapping[str, bytes], after: Mapping[str, bytes | None]) -> str:
    """Return the diff from `before` to `after`.

    Both map paths to contents; in `after`, None stands for a deleted file, and a missing path for an unchanged one.
    Only file contents are compared: nothing else in the repository, such as its git folder or settings, has an effect.
    Raises: ToolError, for the agent, if a change is not text or is too large to be submitted.
    """
    parts: list[str] = []
    for path in sorted(after):
        old, new = before.get(path), after[path]
        if old == new:
            continue
        parts.append(f"diff --git a/{path} b/{path}\n")
        if old is None:
            parts.append("new file mode 100644\n")
        if new is None:
            parts.append("deleted file mode 100644\n")
        old_name = "/dev/null" if old is None else f"a/{path}"
        new_name = "/dev/null" if new is None else f"b/{path}"
        parts += unified_diff(_lines(path, old), _lines(path, new), old_name, new_name)
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)
    if len(text) > MAX_PATCH:
        raise ToolError(f"The changes are {len(text)} characters; at most {MAX_PATCH} can be handed in. Change less.")
    return text


def paths_of(patch: str) -> list[str]:
    """Return the files that a unified diff touches, each once, in order."""
    paths: dict[str, None] = {}
    for line in patch.splitlines():
        if line.startswith("diff --git a/"):
            paths[line.rpartition(" b/")[2]] = None
        elif line.startswith(("--- a/", "+++ b/")):
            paths[line[6:].partition("\t")[0]] = None
    return list(paths)


def _lines(path: str, content: bytes | None) -> list[str]:
    if content is None:
        return []
    if len(content) > MAX_FILE or b"\0" in content:
        raise ToolError(f"{path} is {len(content)} bytes, or no text: such a change cannot be handed in. Remove it.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is no UTF-8 text: such a change cannot be handed in. Remove it.") from error
    lines = text.split("\n")  # not splitlines, which also splits at form feeds and the like
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
