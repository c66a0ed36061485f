"""Takes the photographs: opens pages in real Chromium and reads from it where their elements are."""

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

from agentgym import Call, Task, ToolError, make
from agentgym.errors import SandboxDied
from agentgym.messages import images_of

from .photographs import Box, Element, Photograph
from .visits import STRATA, Stop, Visit, visit

FEWEST, SMALLEST = 6, 4
"""Elements that a page must have to be worth a photograph, and pixels that an element must have each way."""
AT_ONCE, TRIES = 4, 9
"""Pages that are open at once, and times that one is opened before a busy machine is to blame no more."""
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
"""Where whatever is broken over several lines begins: one box would not say where it is."""


async def photograph_all(seen: Callable[[int], object] = lambda so_far: None) -> list[tuple[Photograph, bytes]]:
    """All photographs of the task set; no two show the same. `seen` is told how many there are so far."""
    environments = [make("agentgym/web-v1", observe=("screenshot",)) for _ in range(AT_ONCE)]
    taken: list[tuple[Photograph, bytes]] = []
    known: set[bytes] = set()
    try:
        for stratum, wanted in STRATA.items():
            upto, attempts = len(taken) + wanted, count()
            while len(taken) < upto:
                visits = [visit(stratum, next(attempts)) for _ in environments]
                albums = await asyncio.gather(*map(photograph, environments, visits))
                for one, elements, image in [
                    (v, *shot) for v, album in zip(visits, albums, strict=True) for shot in album
                ]:
                    if len(taken) == upto or len(elements) < FEWEST or image in known:
                        continue
                    known.add(image)
                    size, content = packed(image)
                    photo = Photograph(f"{len(taken):04d}", stratum, one.site, size, tuple(elements))
                    taken.append((photo, content))
                seen(len(taken))
    finally:
        await asyncio.gather(*(environment.close() for environment in environments))
    return taken


async def photograph(environment: Any, one: Visit) -> list[tuple[list[Element], bytes]]:
    """Of every stop the elements in view and the picture, PNG. Raises: what it raised at last."""
    data = {"site": one.site, "data": one.data, "viewport": list(one.viewport)}
    begun, album = False, []
    for stop in one.stops:
        for left in reversed(range(TRIES)):
            try:
                if not begun:
                    await environment.reset(Task("photograph", "agentgym/web-v1", "Look.", parameters=data), seed=0)
                    begun = True
                album.append(await _look(environment, stop, one.viewport))
                break
            except (SandboxDied, ToolError):
                begun = False
                if not left:
                    raise
    return album


async def _look(environment: Any, stop: Stop, viewport: tuple[int, int]) -> tuple[list[Element], bytes]:
    await environment.evaluate(f"void (document.title = '', location.href = {json.dumps(stop.path)})")
    with suppress(ToolError):  # the page that was left takes the question with it
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
    [image] = images_of([result.message()])
    return elements_of(await environment.boxes(), broken, viewport), base64.b64decode(image.data)


def elements_of(
    boxes: Sequence[Sequence[Any]], broken: Sequence[tuple[float, ...]], viewport: tuple[int, int]
) -> list[Element]:
    """Those with a name that are whole and in view, and whose name is on nothing that is only half in view.

    Args:
        boxes: as `Web.boxes` gives them. `broken`: as `_BROKEN` does.
    """
    found, half = [], set()
    for _, _, line, (left, top, right, bottom) in boxes:
        named = _NAMED.match(line)
        if named is None or right <= 0 or bottom <= 0 or left >= viewport[0] or top >= viewport[1]:
            continue
        inside = min(left, top) >= 0 and right <= viewport[0] and bottom <= viewport[1]
        box: Box = (round(left), round(top), round(right), round(bottom))
        large = box[2] - box[0] >= SMALLEST and box[3] - box[1] >= SMALLEST
        if inside and large and not any(abs(left - x) < 1 and abs(top - y) < 1 for x, y in broken):
            found.append(Element(named[1], named[2], box))
        else:
            half.add(named[2])
    return [element for element in found if element.name not in half]


def packed(image: bytes) -> tuple[tuple[int, int], bytes]:
    """Size in pixels, and the picture as lossless WebP: about a third of the bytes."""
    from PIL import Image

    opened = Image.open(io.BytesIO(image)).convert("RGB")
    buffer = io.BytesIO()
    opened.save(buffer, "WEBP", lossless=True, quality=100)
    return opened.size, buffer.getvalue()
