"""Pictures of a tab: the plain view, or with a numbered frame around each element that reacts to the pointer."""

from __future__ import annotations

import json
from typing import Any

from . import scripts, tree
from .cdp import Refused
from .elements import Elements
from .tab import LOAD_S, Tab

_MAX_MARKS, _MAX_LISTENING = 100, 1_000
_REACTS = {"click", "dblclick", "mousedown", "mouseup", "pointerdown", "pointerup", "touchstart", "contextmenu"}


def picture(tab: Tab) -> Any:
    """Return a PNG of the view in base64."""
    return tab.call("Page.captureScreenshot", {"format": "png"}, LOAD_S)["data"]


def marked_picture(tab: Tab, elements: Elements) -> Any:
    """Take a picture with a numbered frame around each element in view that reacts.

    An element is marked if it, or an element around it, has an interactive role, a pointer listener, or the link
    cursor. Of several lines inside one reacting element, only the first is marked.
    """
    width, height = tab.viewport
    posted = [
        (number, role, tab.post("DOM.getContentQuads", {"backendNodeId": elements.node(number)[1]}))
        for number, _, role, _ in elements.lines
    ]
    boxes: dict[int, list[float]] = {}
    plain = []
    for number, role, command in posted:
        try:
            quads = tab.result(command)["quads"]
        except Refused:
            continue
        for quad in quads[:1]:
            left, top, right, bottom = min(quad[::2]), min(quad[1::2]), max(quad[::2]), max(quad[1::2])
            if left < width and top < height and right > 0 and bottom > 0:
                boxes[number] = [left, top, right, bottom]
                if role not in tree.ACTED_ON:
                    plain.append(number)
    chosen = set(boxes) - set(plain)
    owners: set[tuple[str, int]] = set()
    for number, owner in _owners(tab, elements, plain):
        if owner not in owners:
            owners.add(owner)
            chosen.add(number)
    marks = [[number, *boxes[number]] for number in sorted(chosen)[:_MAX_MARKS]]
    tab.evaluate(scripts.MARK % json.dumps(marks), context=tab.isolated_context())
    try:
        return picture(tab)
    finally:
        tab.evaluate(scripts.UNMARK, context=tab.isolated_context())


def _owners(tab: Tab, elements: Elements, numbers: list[int]) -> list[tuple[int, tuple[str, int]]]:
    """Return the elements that react to the pointer, each with the id of what reacts: it, or an element around it."""
    by_frame: dict[str, list[int]] = {}
    for number in numbers:
        by_frame.setdefault(elements.frame_of(elements.node(number)[1]), []).append(number)
    listening = _listening(tab)
    reacting = []
    for frame, of_frame in by_frame.items():
        context = tab.isolated_context(frame)
        posted = [
            tab.post("DOM.resolveNode", {"backendNodeId": node, "executionContextId": context})
            for node in (*listening, *(elements.node(number)[1] for number in of_frame))
        ]
        objects: list[str | None] = []
        for command in posted:
            try:
                objects.append(tab.result(command)["object"].get("objectId"))
            except Refused:  # it is gone
                objects.append(None)
        answer = tab.call(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": scripts.OWNERS,
                "executionContextId": context,
                "arguments": [
                    {"value": len(listening)},
                    *({"value": None} if item is None else {"objectId": item} for item in objects),
                ],
                "returnByValue": True,
            },
        )
        owners = answer.get("result", {}).get("value") or []
        reacting += [(number, (frame, owner)) for number, owner in zip(of_frame, owners, strict=False) if owner >= 0]
    return sorted(reacting)


def _listening(tab: Tab) -> list[int]:
    """Return the backend node ids of the elements that have a pointer listener."""
    document = tab.call("Runtime.evaluate", {"expression": "document"})["result"]["objectId"]
    try:
        listeners = tab.call("DOMDebugger.getEventListeners", {"objectId": document, "depth": -1, "pierce": True})
    except Refused:
        return []
    nodes = {entry.get("backendNodeId"): None for entry in listeners["listeners"] if entry["type"] in _REACTS}
    nodes.pop(None, None)  # the window
    return list(nodes)[:_MAX_LISTENING]
