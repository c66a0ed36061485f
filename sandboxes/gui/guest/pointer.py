"""The pointer: finds a reachable point of an element, clicks every button, and drags along a path."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from . import scripts
from .cdp import Posted, Refused
from .elements import Box, Elements
from .tab import NotPossible, Tab

Target = int | str | list[float] | tuple[float, float]
"""An element, by its number or its name, or a point of the view in pixels."""
BUTTONS = {"left": 1, "right": 2, "middle": 4}
_FRAME_S, _DRAG_S, _STEPS = 1 / 60, 2.0, 6
_INSIDE = ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75), (0.08, 0.5), (0.92, 0.5), (0.5, 0.08), (0.5, 0.92))


class Pointer:
    """Moves over one tab."""

    def __init__(self, tab: Tab, elements: Elements) -> None:
        self._tab, self._elements = tab, elements

    def point_of(self, target: Target, *, scroll: bool = True, reach: bool = True) -> tuple[float, float]:
        """Return the point where a target is clicked.

        Args:
            scroll: scroll an element into view first.
            reach: look for a point of the element that is not covered.
        Raises: NotPossible if the point is outside the view, or the element has no place or is covered.
        """
        if isinstance(target, (list, tuple)):
            x, y = (float(part) for part in target)
            return self._checked(x, y)
        number, backend = self._elements.node(target)
        call = self._tab.call
        try:
            if scroll:
                call("DOM.scrollIntoViewIfNeeded", {"backendNodeId": backend})
            quads = call("DOM.getContentQuads", {"backendNodeId": backend})["quads"]
        except Refused as error:
            hint = "choose an option with select" if self._elements.role(number) == "option" else "it may be hidden"
            raise NotPossible(f"The element [{number}] has no place on the page: {hint}, or gone.") from error
        if not quads:
            raise NotPossible(f"The element [{number}] has no place on the page: it may be hidden.")
        points = [(sum(quad[::2]) / 4, sum(quad[1::2]) / 4) for quad in quads[:8]]
        if reach:
            left, top, right, bottom = _box(quads[0])
            points += [(left + x * (right - left), top + y * (bottom - top)) for x, y in _INSIDE]
            return self._checked(*self._reachable(number, backend, points))
        return self._checked(*points[0])

    def click(self, target: Target, button: str = "left", count: int = 1, modifiers: int = 0) -> None:
        x, y = self.point_of(target)
        self._move_to(x, y, modifiers)
        held = {"button": button, "modifiers": modifiers}
        for number in range(1, count + 1):
            self._mouse("mousePressed", x, y, buttons=BUTTONS[button], clickCount=number, **held)
            self._tab.finish(self._mouse("mouseReleased", x, y, clickCount=number, **held))

    def hover(self, target: Target) -> None:
        self._move_to(*self.point_of(target))

    def drag(self, path: list[Target]) -> None:
        """Drag from the first target over the others to the last, in steps.

        Each step waits until the page has handled the previous step, and for one frame: pages that poll the pointer, or
        follow its path, would otherwise see only its end. If the page lets an HTML drag begin, the drag's data moves
        with the pointer and is dropped at the end.
        """
        tab = self._tab
        points = [self.point_of(path[0]), *(self.point_of(target, scroll=False, reach=False) for target in path[1:])]
        tab.forget_drag()
        x, y = points[0]
        self._mouse("mouseMoved", x, y)
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        data = None
        for to_x, to_y in points[1:]:
            steps = max(_STEPS // (len(points) - 1), 1)
            for step in range(1, steps + 1):
                at = x + (to_x - x) * step / steps, y + (to_y - y) * step / steps
                if data is not None:
                    self._drag_event("dragOver", at, data)
                else:
                    tab.finish(self._mouse("mouseMoved", *at, button="left", buttons=1))
                    data = tab.drag_data(_DRAG_S)
                    if data is not None:
                        self._drag_event("dragEnter", at, data)
                time.sleep(_FRAME_S)
            x, y = to_x, to_y
        if data is not None:
            self._drag_event("dragOver", (x, y), data)
            self._drag_event("drop", (x, y), data)
        else:
            tab.finish(self._mouse("mouseReleased", x, y, button="left", clickCount=1))

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _reachable(self, number: int, backend: int, points: list[tuple[float, float]]) -> tuple[float, float]:
        """Return the first of some points of an element at which nothing covers it.

        Raises: NotPossible if there is none.
        """
        width, height = self._tab.viewport
        inside = [(x, y) for x, y in points if 0 <= x < width and 0 <= y < height] or points[:1]
        try:
            frame = self._elements.frame_of(backend)
            chosen = self._cover(frame, backend, inside)
            point = inside[chosen] if isinstance(chosen, int) else inside[0]
            if isinstance(chosen, int):
                chosen = self._cover_of_frame(frame, point)
        except Refused as error:
            raise NotPossible(f"The element [{number}] is no longer on the page.") from error
        if isinstance(chosen, str):
            raise NotPossible(
                f"The element [{number}] is covered by {chosen}, which would get the click: close or move what covers "
                "it, or click that instead."
            )
        return point

    def _cover(self, frame: str, backend: int, points: list[tuple[float, float]]) -> int | str:
        """Return the index of the first point that reaches the element; if there is none, what covers the element."""
        left, top = self._origin(frame)
        answer = self._elements.on_node(frame, backend, scripts.COVER, points, left, top)
        return answer if isinstance(answer, str) else int(answer or 0)

    def _cover_of_frame(self, frame: str, point: tuple[float, float]) -> int | str:
        """Return 0 if a point reaches an inner frame and all frames around it; else a description of what covers it."""
        parents = dict(self._tab.inner_frames()) if frame != self._tab.main else {}
        while frame in parents:
            owner = self._tab.call("DOM.getFrameOwner", {"frameId": frame})["backendNodeId"]
            frame = parents[frame]
            if isinstance(cover := self._cover(frame, owner, [point]), str):
                return cover
        return 0

    def _origin(self, frame: str) -> tuple[float, float]:
        """Return the origin of a frame's content, in pixels of the view."""
        if frame == self._tab.main:
            return 0.0, 0.0
        owner = self._tab.call("DOM.getFrameOwner", {"frameId": frame})["backendNodeId"]
        left, top, _, _ = self._elements.content_box(owner) or (0.0, 0.0, 0.0, 0.0)
        return left, top

    def _checked(self, x: float, y: float) -> tuple[float, float]:
        width, height = self._tab.viewport
        if not (0 <= x < width and 0 <= y < height):
            raise NotPossible(f"({x:.0f}, {y:.0f}) is outside of the view, which is {width} x {height}: scroll first.")
        return x, y

    def _move_to(self, x: float, y: float, modifiers: int = 0) -> None:
        """Move the pointer and let the page react: it may replace the element under the pointer for a moment."""
        tab = self._tab
        with contextlib.suppress(Refused):  # the page was left meanwhile; the next command reports it
            tab.evaluate(scripts.NOTE_BELOW % (x, y), context=tab.isolated_context())
        tab.finish(self._mouse("mouseMoved", x, y, modifiers=modifiers))
        with contextlib.suppress(Refused):
            tab.evaluate(scripts.AGAIN_BELOW % (x, y), context=tab.isolated_context(), wait=True)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> Posted:
        return self._tab.post("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def _drag_event(self, kind: str, at: tuple[float, float], data: dict[str, Any]) -> None:
        self._tab.finish(
            self._tab.post("Input.dispatchDragEvent", {"type": kind, "x": at[0], "y": at[1], "data": data})
        )


def _box(quad: list[float]) -> Box:
    return min(quad[::2]), min(quad[1::2]), max(quad[::2]), max(quad[1::2])
