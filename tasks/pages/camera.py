"""Takes the photographs: opens pages in Chromium and reads the bounding boxes of their elements."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from agentgym import Call, SandboxDied, Task, ToolError, make

from .photographs import Box, Element, Photograph
from .visits import STRATA, Stop, Visit, visit

FEWEST, SMALLEST = 6, 4
"""The fewest elements of a page that is photographed, and the smallest width and height of an element in pixels."""
AT_ONCE, TRIES = 4, 9
"""Pages open at the same time, and attempts to open one (a busy host can make an attempt fail)."""
_NAMED = re.compile(r'(\w+?)\d? "([^"]{1,60})"')
_ARRIVED = """new Promise(done => {
  const look = () => document.readyState === 'complete' && document.title ? done() : setTimeout(look, 20);
  look();
})"""
_BROKEN = """(() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const rects = (walker.currentNode.nodeType === 3 ? range : walker.currentNode).getClientRects();
    if (rects.length > 1) found.push([rects[0].left, rects[0].top]);
  }
  return found;
})()"""
"""JavaScript that returns the top left corner of every element that wraps over several lines, which no single box
fits.
"""


async def photograph_all(on_progress: Callable[[int], object] = lambda count: None) -> list[tuple[Photograph, bytes]]:
    """Take all photographs of the task set, each with its picture; no two pictures are equal.

    Args:
        on_progress: called with the number of photographs so far.
    """
    environments = [make("agentgym/web-v1", observe=("screenshot",)) for _ in range(AT_ONCE)]
    photographs: list[tuple[Photograph, bytes]] = []
    known_images: set[bytes] = set()
    try:
        for stratum, number in STRATA.items():
            total, attempts = len(photographs) + number, count()
            while len(photographs) < total:
                visits = [visit(stratum, next(attempts)) for _ in environments]
                albums = await asyncio.gather(*map(photograph, environments, visits))
                for page_visit, elements, image in [
                    (v, *shot) for v, album in zip(visits, albums, strict=True) for shot in album
                ]:
                    if len(photographs) == total or len(elements) < FEWEST or image in known_images:
                        continue
                    known_images.add(image)
                    size, content = packed(image)
                    photo = Photograph(f"{len(photographs):04d}", stratum, page_visit.site, size, tuple(elements))
                    photographs.append((photo, content))
                on_progress(len(photographs))
    finally:
        await asyncio.gather(*(environment.close() for environment in environments))
    return photographs


async def photograph(environment: Any, page_visit: Visit) -> list[tuple[list[Element], bytes]]:
    """Return, for every stop of a visit, the elements in view and the PNG picture.

    Raises: SandboxDied or ToolError if a stop failed in every attempt.
    """
    data = {"site": page_visit.site, "data": page_visit.data, "viewport": list(page_visit.viewport)}
    is_open, album = False, []
    for stop in page_visit.stops:
        for attempts_left in reversed(range(TRIES)):
            try:
                if not is_open:
                    await environment.reset(Task("photograph", "agentgym/web-v1", "Look.", parameters=data), seed=0)
                    is_open = True
                album.append(await _look(environment, stop, page_visit.viewport))
                break
            except (SandboxDied, ToolError):
                is_open = False
                if not attempts_left:
                    raise
    return album


async def _look(environment: Any, stop: Stop, viewport: tuple[int, int]) -> tuple[list[Element], bytes]:
    await environment.evaluate(f"void (document.title = '', location.href = {json.dumps(stop.path)})")
    with suppress(ToolError):  # leaving the page also cancels the pending query
        await environment.evaluate(_ARRIVED)
    await environment.evaluate(_ARRIVED)
    await environment.evaluate(
        f"void (document.head.append(Object.assign(document.createElement('style'), {{textContent: "
        f"{json.dumps(stop.look)}}})), scrollTo(0, {stop.down}))"
    )
    result = await environment.call(Call("wait", {"seconds": 0.0}))
    if not result.ok:
        raise ToolError(str(result.content))
    broken = [tuple(corner) for corner in await environment.evaluate(_BROKEN)]
    [image] = result.message().images
    return elements_of(await environment.boxes(), broken, viewport), base64.b64decode(image.data)


def elements_of(
    boxes: Sequence[Sequence[Any]], broken: Sequence[tuple[float, ...]], viewport: tuple[int, int]
) -> list[Element]:
    """Return the elements that have a name, fit a single box and are wholly in view, but none whose name an element
    partly in view also has.

    Args:
        boxes: as `Web.boxes` returns them. broken: corners, as `_BROKEN` returns them.
    """
    complete, partial_names = [], set()
    for _, _, line, (left, top, right, bottom) in boxes:
        named = _NAMED.match(line)
        if named is None or right <= 0 or bottom <= 0 or left >= viewport[0] or top >= viewport[1]:
            continue
        inside = min(left, top) >= 0 and right <= viewport[0] and bottom <= viewport[1]
        box: Box = (round(left), round(top), round(right), round(bottom))
        large_enough = box[2] - box[0] >= SMALLEST and box[3] - box[1] >= SMALLEST
        if inside and large_enough and not any(abs(left - x) < 1 and abs(top - y) < 1 for x, y in broken):
            complete.append(Element(named[1], named[2], box))
        else:
            partial_names.add(named[2])
    return [element for element in complete if element.name not in partial_names]


def packed(image: bytes) -> tuple[tuple[int, int], bytes]:
    """Return the size in pixels, and the picture as lossless WebP, which takes about a third of the bytes."""
    from PIL import Image

    picture = Image.open(io.BytesIO(image)).convert("RGB")
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", lossless=True, quality=100)
    return picture.size, buffer.getvalue()
