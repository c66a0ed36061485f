"""The accessibility trees of all programs on the display, by AT-SPI. Runs on a Python that has `gi`; speaks JSON lines.

It prints one line when it has found the accessibility bus, then the screen's contents for each line that it reads.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

MAX_NODES, MAX_LINES, MAX_TEXT, MAX_S, CALL_MS = 3_000, 400, 200, 4.0, 1_000
DUMB = {"filler", "panel", "separator", "unknown", "redundant object"}  # roles that are shown only if they have a name
STATES = ("FOCUSED", "CHECKED", "SELECTED", "EXPANDED")


class TreeWalk:
    """Reads the accessibility trees of all programs once, within MAX_NODES, MAX_LINES and MAX_S."""

    def __init__(self, atspi: Any, failure: type[Exception]) -> None:
        """`atspi`: the module Atspi. `failure`: the error that its calls raise."""
        self._atspi, self._failure = atspi, failure
        self.lines: list[str] = []
        self._left, self._deadline = MAX_NODES, time.monotonic() + MAX_S

    def visit(self, node: Any, depth: int) -> None:
        """Add the lines of a node and its descendants, as far as they are on the screen."""
        if node is None or not self._left or len(self.lines) >= MAX_LINES or time.monotonic() > self._deadline:
            return
        self._left -= 1
        states = node.get_state_set()
        role = node.get_role_name()
        if role != "application":
            if not states.contains(self._atspi.StateType.SHOWING):
                return
            if line := self._line(node, role, states):
                self.lines.append("  " * min(depth, 20) + line)
                depth += 1
        for index in range(min(node.get_child_count(), MAX_NODES)):
            with contextlib.suppress(self._failure):  # the node has gone, or its program does not answer
                self.visit(node.get_child_at_index(index), depth)

    def _line(self, node: Any, role: str, states: Any) -> str:
        name, text = (node.get_name() or "").strip(), ""
        with contextlib.suppress(self._failure):
            if node.get_text_iface() is not None:
                text = self._atspi.Text.get_text(node, 0, MAX_TEXT)
        if role in DUMB and not name:
            return ""
        box = node.get_extents(self._atspi.CoordType.SCREEN)
        words = [role, json.dumps(name[:MAX_TEXT], ensure_ascii=False)]
        if text.strip() and text.strip() != name:
            words.append("says " + json.dumps(text, ensure_ascii=False))
        words += [state.casefold() for state in STATES if states.contains(getattr(self._atspi.StateType, state))]
        x, y = box.x + box.width // 2, box.y + box.height // 2
        return " ".join([*words, f"at {x},{y}"] if x >= 0 and y >= 0 else words)


def main() -> None:
    import gi

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi, GLib

    if Atspi.init() not in (0, 1):
        sys.exit(1)
    Atspi.set_timeout(CALL_MS, CALL_MS)
    desktop = Atspi.get_desktop(0)
    print(json.dumps([]), flush=True)
    for _ in sys.stdin:
        walk = TreeWalk(Atspi, GLib.Error)
        for index in range(desktop.get_child_count()):
            with contextlib.suppress(GLib.Error):
                walk.visit(desktop.get_child_at_index(index), 0)
        print(json.dumps(walk.lines), flush=True)


if __name__ == "__main__":
    main()
