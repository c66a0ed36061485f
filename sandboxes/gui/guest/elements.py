"""What a tab shows: its elements as numbered lines. Finds an element by its number or name."""

from __future__ import annotations

from typing import Any

from . import scripts, tree
from .cdp import Refused
from .tab import NotPossible, Tab

LONG = 1_500
"""A page with more elements than this is long: only the part in view is read."""
_MAX_DIGITS, _MAX_PIECES = 9, 400
Line = tuple[int, int, str, str]  # number, depth, role, text
Box = tuple[float, float, float, float]  # left, top, right, bottom


class Elements:
    """The elements of a tab and their numbers. Elements keep their numbers until the page is left."""

    lines: list[Line]
    before: int  # how many of the lines that were read come before the lines shown, and how many after them
    after: int
    is_long: bool
    _numbers: dict[int, int]
    _nodes: dict[int, int]
    _frames: dict[int, str]  # the frame of each element of an inner frame, by the element's number
    _named: dict[str, list[tuple[int, str]]]
    _pages: list[int]  # the first line of each page of lines, up to the current one
    _pieces_text: list[str]

    def __init__(self, tab: Tab) -> None:
        self._tab, self._shows = tab, 0
        self._numbers, self._nodes, self._frames, self._named = {}, {}, {}, {}
        self.lines, self.before, self.after, self._pages = [], 0, 0, [0]
        # number of elements of a page with too many lines, which is not read whole again
        self._long_count = LONG
        self.title, self.is_long, self._pieces_text = "", False, []

    # ---- reading -----------------------------------------------------------------------------------------------------

    def look(self, max_chars: int, with_text: bool = False) -> None:
        """Read the page.

        Args:
            max_chars: a page with more characters than this, in its lines or (`with_text`) in its text, is long, and
                only the part in view is read.
        """
        for attempt in range(3):
            try:
                return self._look(max_chars, with_text)
            except Refused:  # the page is changing
                if attempt == 2:
                    raise
                self._tab.settle()

    def _look(self, max_chars: int, with_text: bool) -> None:
        tab = self._tab
        if self._shows != tab.shows:
            self._shows = tab.shows
            self._numbers, self._nodes, self._frames, self._pages, self._long_count = {}, {}, {}, [0], LONG
        frames = self._owned_frames()
        self.title, count, text_length = tab.evaluate(
            scripts.MEASURE % (LONG, str(with_text).lower()), context=tab.isolated_context()
        )
        self.is_long = count >= min(LONG, self._long_count) or (with_text and text_length > max_chars)
        self._pieces_text = []
        if not self.is_long:
            self._number_lines(self._all_lines(frames))
            self.is_long = sum(map(length_of, self.lines)) > max_chars
            self._long_count = int(0.8 * count) if self.is_long else LONG
        if self.is_long:
            self._number_lines(self._in_view(frames))
        self._cut_to(max_chars)

    def _cut_to(self, max_chars: int) -> None:
        """Keep as many lines as fit, from the first line of the current page of lines."""
        begin = min(self._pages[-1], max(len(self.lines) - 1, 0))
        used, end = 0, begin
        while end < len(self.lines) and (end == begin or used + length_of(self.lines[end]) <= max_chars):
            used += length_of(self.lines[end])
            end += 1
        self.before, self.after = begin, len(self.lines) - end
        self.lines = self.lines[begin:end]

    def turn_page(self, forward: bool) -> bool:
        """Show the lines that follow the ones shown, or the ones before them. Returns: whether there are any."""
        if forward and self.after:
            self._pages.append(self.before + len(self.lines))
        elif not forward and len(self._pages) > 1:
            self._pages.pop()
        else:
            self._pages = [0]
            return False
        return True

    def _owned_frames(self) -> list[tuple[str, str, int]]:
        """Return id, parent's id and owner element (as backend node id) of the inner frames, outer frames first."""
        frames = [(frame, parent) for frame, parent in self._tab.inner_frames()]
        posted = [self._tab.post("DOM.getFrameOwner", {"frameId": frame}) for frame, _ in frames]
        owned = []
        for (frame, parent), command in zip(frames, posted, strict=True):
            try:
                owned.append((frame, parent, self._tab.result(command)["backendNodeId"]))
            except Refused:  # the element was removed meanwhile
                continue
        return owned

    def _all_lines(self, frames: list[tuple[str, str, int]]) -> list[tree.TreeLine]:
        """Return the lines of the whole page."""
        tab = self._tab
        posted = [tab.post("Accessibility.getFullAXTree", {"frameId": frame}) for frame, _, _ in frames]
        main = tab.call("Accessibility.getFullAXTree")["nodes"]
        inside: dict[int, list[tree.TreeLine]] = {}
        for (frame, _, owner), command in reversed(list(zip(frames, posted, strict=True))):
            try:
                nodes = tab.result(command)["nodes"]
            except Refused:
                continue
            inside[owner] = self._lines_of(frame, nodes, inside)
        return tree.visible_lines(main, inside)

    def _in_view(self, frames: list[tuple[str, str, int]]) -> list[tree.TreeLine]:
        """Return the lines of those parts of the page and its frames that are in view."""
        width, height = self._tab.viewport
        places: dict[str, Box] = {self._tab.main: (0.0, 0.0, float(width), float(height))}
        for frame, parent, owner in frames:  # computes where each frame's content is within the view
            if parent in places and (box := self.content_box(owner)) is not None:
                places[frame] = _shared(box, places[parent])
        inside: dict[int, list[tree.TreeLine]] = {}
        for frame, _, owner in reversed(frames):
            if frame in places:
                left, top, *_ = self.content_box(owner) or (0.0, 0.0)
                inside[owner] = self._pieces(frame, _moved(places[frame], -left, -top), inside)
        return self._pieces(self._tab.main, places[self._tab.main], inside)

    def _pieces(self, frame: str, view: Box, inside: dict[int, list[tree.TreeLine]]) -> list[tree.TreeLine]:
        """Return the lines of the pieces of a frame that are in `view`, a box in the frame's own pixels.

        `inside`: the lines of the frame's own inner frames, by the element that holds each.
        """
        tab, context = self._tab, self._tab.isolated_context(frame)
        left, top, right, bottom = view
        if right <= left or bottom <= top:
            return []
        described = tab.evaluate(scripts.PIECES % (left, top, right, bottom, _MAX_PIECES), context=context)
        posted = [
            tab.post("Runtime.evaluate", {"expression": f"agentgymPieces[{index}]", "contextId": context})
            for index in range(len(described))
        ]
        objects = [tab.result(command)["result"].get("objectId") for command in posted]
        trees = [
            tab.post(
                "Accessibility.queryAXTree" if complete else "Accessibility.getPartialAXTree",
                {"objectId": object_id, **({} if complete else {"fetchRelatives": False})},
            )
            for object_id, (_, complete, _) in zip(objects, described, strict=True)
        ]
        lines: list[tree.TreeLine] = []
        for (depth, complete, text), command in zip(described, trees, strict=True):
            try:
                nodes = tab.result(command)["nodes"]
            except Refused:  # it is gone
                continue
            if text is not None and nodes:  # only this part of a long text is in view
                nodes[0]["name"] = {"value": text}
            piece_lines = self._lines_of(frame, nodes if complete else nodes[:1], inside)
            lines += [(depth + line[0], *line[1:]) for line in piece_lines]
        self._pieces_text.append(str(tab.evaluate("agentgymPieces.text", context=context) or ""))
        return lines

    def _lines_of(
        self, frame: str, nodes: list[tree.Node], inside: dict[int, list[tree.TreeLine]]
    ) -> list[tree.TreeLine]:
        lines = tree.visible_lines(nodes, inside)
        if frame != self._tab.main:
            for line in lines:
                if line[1] is not None:
                    self._frames.setdefault(line[1], frame)
        return lines

    def _number_lines(self, lines: list[tree.TreeLine]) -> None:
        self.lines, self._named = [], {}
        for depth, backend, role, text, name in lines:
            if backend is None:
                continue
            if backend not in self._numbers:
                self._numbers[backend] = len(self._numbers) + 1
                self._nodes[self._numbers[backend]] = backend
            self.lines.append((self._numbers[backend], depth, role, text))
            self._named.setdefault(name, []).append((self._numbers[backend], role))

    def text(self) -> str:
        """Return the visible text of the page (of a long page, the part in view); the text of its frames comes last."""
        tab = self._tab
        if self.is_long:
            return "\n".join(text for text in reversed(self._pieces_text) if text)  # the main frame was read last
        texts = [tab.evaluate(scripts.TEXT, context=tab.isolated_context())]
        for frame, _ in tab.inner_frames():
            try:
                texts.append(tab.evaluate(scripts.TEXT, context=tab.isolated_context(frame)))
            except Refused:
                continue
        return "\n".join(str(text) for text in texts if text)

    # ---- finding -----------------------------------------------------------------------------------------------------

    def node(self, element: int | str) -> tuple[int, int]:
        """Return number and backend node id of an element, given by its number or its name. Raises: NotPossible."""
        number = self._number(element) if isinstance(element, str) else element
        if number not in self._nodes:
            raise NotPossible(f"There is no element [{number}] on this page.")
        return number, self._nodes[number]

    def number_of(self, backend: int) -> int | None:
        return self._numbers.get(backend)

    def named(self, name: str) -> list[tuple[int, str]]:
        """Return number and role of the elements with a name."""
        return self._named.get(name, [])

    def role(self, number: int) -> str:
        return next((role for element, _, role, _ in self.lines if element == number), "")

    def frame_of(self, backend: int) -> str:
        """Return the frame of the element with this backend node id; the main frame if it lies in no inner frame."""
        return self._frames.get(backend, self._tab.main)

    def _number(self, name: str) -> int:
        """Return the number of the element with a name; a name of digits is the number itself.

        Interactive elements come first, because the heading above a button may have the same name.
        """
        name = " ".join(name.split())
        if name.isascii() and name.isdigit():
            return int(name[:_MAX_DIGITS])
        candidates = self._named.get(name, ()) if name else ()
        numbers = [number for number, role in candidates if role in tree.ACTED_ON] or [
            number for number, _ in candidates
        ]
        if not numbers:
            raise NotPossible(f"No element is named {name[:60]!r}: give the number of one that is shown.")
        if len(numbers) > 1:
            choices = ", ".join(f"[{number}]" for number in numbers[:10])
            raise NotPossible(f"{len(numbers)} elements are named {name[:60]!r}: give the number of one, {choices}.")
        return numbers[0]

    def on(self, element: int | str, function: str, *arguments: Any) -> Any:
        """Call one of our JavaScript functions on an element, in the isolated execution context. Raises: as `node`."""
        number, backend = self.node(element)
        try:
            return self.on_node(self.frame_of(backend), backend, function, *arguments)
        except Refused as error:
            raise NotPossible(f"The element [{number}] is no longer on the page.") from error

    def on_node(self, frame: str, backend: int, function: str, *arguments: Any) -> Any:
        """Call one of our JavaScript functions on the node of a frame with this backend node id.

        Raises: Refused if the node is gone.
        """
        tab = self._tab
        resolved = tab.call(
            "DOM.resolveNode", {"backendNodeId": backend, "executionContextId": tab.isolated_context(frame)}
        )
        answer = tab.call(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": function,
                "objectId": resolved["object"]["objectId"],
                "arguments": [{"value": argument} for argument in arguments],
                "returnByValue": True,
            },
        )
        return answer.get("result", {}).get("value")

    def content_box(self, backend: int) -> Box | None:
        """Return the content box of the element with this backend node id, in pixels of the view; None without one."""
        try:
            quad = self._tab.call("DOM.getBoxModel", {"backendNodeId": backend})["model"]["content"]
        except Refused:
            return None
        return min(quad[::2]), min(quad[1::2]), max(quad[::2]), max(quad[1::2])


def length_of(line: Line) -> int:
    """Return the largest number of characters that a line takes when shown."""
    return min(len(line[3]), tree.MAX_LINE) + min(line[1], 8) + len(str(line[0])) + 4


def _shared(first: Box, second: Box) -> Box:
    """Return the intersection of two boxes; without area if they do not overlap."""
    return max(first[0], second[0]), max(first[1], second[1]), min(first[2], second[2]), min(first[3], second[3])


def _moved(box: Box, x: float, y: float) -> Box:
    return box[0] + x, box[1] + y, box[2] + x, box[3] + y
