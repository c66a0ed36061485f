"""Pages where something is dragged: shapes, rows, marks over text, corners, lines."""

from __future__ import annotations

import math

from .elements import every, first_of, nth
from .page import Page, Stuck
from .table import plays

WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
NAMED = {"rectangles": "rect", "circles": "circle", "triangles": "polygon"}
BOXES, SHAPES = every("#shape-container"), every("#area_svg > :not(#shape-container)")


@plays("draw-circle", environment="agentgym/web-v2")
async def circle(page: Page) -> None:
    x, y = await page.middle("document.querySelector('#circ')")
    corners = [2 * math.pi * index / 24 for index in range(25)]
    path = [[round(x + 25 * math.cos(angle)), round(y + 25 * math.sin(angle))] for angle in corners]
    await page.act("drag", path=path)
    await page.submit()


@plays("drag-box")
async def box_into_box(page: Page) -> None:
    await page.drag(first_of("#draggableSmall"), first_of("#draggableLarge"))
    await page.submit()


@plays("drag-circle", "drag-single-shape")
async def shape_one_way(page: Page) -> None:
    across, down = WAYS[page.match(r"Drag the \w+ (left|right|up|down)")[0]]
    x, y = await page.middle("document.querySelector('#area svg > *')")
    await page.move((x, y), (x + 20 * across, y + 20 * down))
    await page.submit()


@plays("drag-shapes", "drag-shapes-2")
async def shapes_into_boxes(page: Page) -> None:
    """Drag the requested shapes into the first box, and the others into the second, if there is one."""
    (kind_to_drag,) = page.match(r"Drag all (\w+)")
    boxes = [await page.middle(f"{BOXES}[{index}]") for index in range(await page.js(f"{BOXES}.length"))]
    kinds = await page.js(f"{SHAPES}.map(e => [e.tagName, e.getAttribute('fill')])")
    for index, kind in enumerate(kinds):
        into = 0 if NAMED.get(kind_to_drag, kind_to_drag) in kind else 1
        if into < len(boxes):
            await page.move(await page.middle(f"{SHAPES}[{index}]"), boxes[into])
    await page.submit()


@plays("drag-items")
async def row_to_a_place(page: Page) -> None:
    """Drag a row slightly beyond the row whose place it takes."""
    name, where = page.match(r"Drag (\S+) (.*)\.")
    names = await page.texts(every("#sortable li"))
    start = names.index(name)
    steps = {"up by one position": start - 1, "down by one position": start + 1}
    index = {"to the top": 0, "to the bottom": len(names) - 1, **steps}.get(where)
    await _sort(page, start, int(page.match(r"to the (\d)")[0]) - 1 if index is None else index)


@plays("drag-sort-numbers")
async def rows_in_order(page: Page) -> None:
    for index in range(3):
        numbers = [int(text) for text in await page.texts(every("#sortable li"))]
        least = numbers.index(min(numbers[index:]), index)
        if least != index:
            await _sort(page, least, index)
    await page.submit()


async def _sort(page: Page, start: int, index: int) -> None:
    """Drag a row of a list to the place of another."""
    (x, y), (to_x, to_y) = await page.middle(_row(start)), await page.middle(_row(index))
    await page.move((x, y), (to_x, to_y + _beyond(to_y - y)))


def _row(index: int) -> str:
    return nth("#sortable li", index)


def _beyond(way: float) -> int:
    """Return a few more pixels in the same direction: a row takes a place once it covers more than half of it."""
    return (way > 3) * 5 - (way < -3) * 5


@plays("drag-items-grid")
async def card_to_a_place(page: Page) -> None:
    name, where = page.match(r"Drag (\S+) (?:to the )?(.*)\.")
    start = (await page.texts(every("#sortable li"))).index(name)
    row, column = divmod(start, 3)
    if where.endswith("by one"):
        across, down = WAYS[where.split()[0]]
        row, column = row + down, column + across
    else:
        row = {"top": 0, "bottom": 2}.get(where.split()[0], 1)
        column = {"left": 0, "right": 2}.get(where.split()[-1], 1)
    (x, y), (to_x, to_y) = await page.middle(_row(start)), await page.middle(_row(3 * row + column))
    await page.move((x, y), (to_x + _beyond(to_x - x), to_y + _beyond(to_y - y)))


@plays("drag-cube")
async def turn_a_cube(page: Page) -> None:
    """Turn the cube in small steps until the side shows: vertically for top and bottom, else horizontally."""
    target = page.quoted_text()
    for _ in range(80):
        face = await page.js("document.querySelector('.active').textContent")
        if face == target:
            return await page.submit()
        await page.move((80, 100), (80, 130) if {target, face} & {"1", "6"} else (110, 100))
        await page.wait(0.5)  # it goes on turning after it is let go
    raise Stuck(f"the cube never shows {target}")


@plays("draw-line")
async def draw_line(page: Page) -> None:
    """Draw a straight line with the dot in its middle, where the page surely notices the pointer."""
    x, y = await page.middle(first_of("#circ"))
    left, top, right, bottom = await page.box("document.querySelector('#area svg')")
    if "horizontal" in page.ask:
        reach = min(x - left, right - x) - 4
        await page.move((x - reach, y), (x + reach, y))
    else:
        reach = min(y - top, bottom - y) - 4
        await page.move((x, y - reach), (x, y + reach))
    await page.submit()


@plays("highlight-text")
async def highlight(page: Page) -> None:
    await _mark(page, first_of("#highlight, #area > div, #area span"))
    await page.submit()


@plays("highlight-text-2")
async def highlight_nth(page: Page) -> None:
    (nth_,) = page.match(r"(\d)(?:st|nd|rd) paragraph")
    await _mark(page, f"[...document.querySelectorAll('#area p, #area .text, #area div[id^=text]')][{int(nth_) - 1}]")
    await page.submit()


async def _mark(page: Page, element: str) -> None:
    """Select a text with the mouse, from its first letter to its last."""
    left, top, right, bottom = await page.box(element)
    await page.move((left + 1, top + 3), (right - 1, bottom - 2))


@plays("resize-textarea")
async def resize(page: Page) -> None:
    _, _, right, bottom = await page.box(first_of("textarea"))
    by = -15 if "smaller" in page.ask else 15
    across = "width" in page.ask
    corner = right - 4, bottom - 4
    await page.move(corner, (corner[0] + (by if across else 0), corner[1] + (0 if across else by)))
    await page.submit()


@plays("daily-calendar")
async def calendar(page: Page) -> None:
    """Drag over a free stretch of the day, and name it."""
    length, unit, name, begins, ends = page.match(
        r'Create an? ([\d.]+) (hours?|mins) event named "(.*)", between (\w+) and (\w+)\.'
    )
    halves = round(float(length) * (2 if unit.startswith("hour") else 1 / 30))
    busy = await page.js(_BUSY)
    start = next(
        half
        for half in range(_half_hours(begins), _half_hours(ends) - halves + 1)
        if not any(busy[half : half + halves])
    )
    first, last = (first_of(f"#hh-{half}") for half in (start, start + halves - 1))
    await page.box(last)  # brings it into view
    (x, y), (_, below) = await page.middle(first), await page.middle(last)
    await page.move((x, y - 3), (x, below + 3))
    if not await page.shows(
        first_of("#event-name")
    ):  # it is drawn above where it was dragged, and wants to be let go there
        await page.click(first_of("#newEvent"))
    await page.type(first_of("#event-name"), name)
    await page.click(first_of("#controls .create"))


def _half_hours(hour: str) -> int:
    """Return the half hours from midnight to an hour such as 8AM."""
    return 2 * (int(hour[:-2]) % 12 + 12 * (hour[-2:] == "PM"))


_BUSY = """(events => [...document.querySelectorAll('.half-hour')].map(e => e.getBoundingClientRect()).map(
  slot => events.some(event => event.top < slot.bottom - 3 && event.bottom > slot.top + 3)))(
  [...document.querySelectorAll('.event')].map(e => e.getBoundingClientRect()))"""


@plays("hot-cold")
async def hot_cold(page: Page) -> None:
    """Find the hidden point. Dragging in from outside tells how warm a point is, which rules points out."""
    left, top, right, bottom = (round(side) for side in await page.box(first_of("#touch-area")))
    could = [(x, y) for x in range(left, right, 2) for y in range(top, bottom, 2)]
    for _ in range(40):
        x, y = could[len(could) // 2] if len(could) < 30 else _best_look(could)
        await page.move((300, 250), (x, y))
        warmth = await page.js("document.querySelector('#signal').textContent")
        if warmth == "HOT":
            return await page.act("click_at", x=x, y=y)
        could = [at for at in could if _warmth(math.dist(at, (x, y))) == warmth]
        if not could:
            raise Stuck("no point is as warm and cold as was said")


def _best_look(could: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the point whose answer leaves, on average, the fewest possible points."""
    few = could[:: max(len(could) // 300, 1)]

    def left(at: tuple[int, int]) -> int:
        counts: dict[str, int] = {}
        for other in few:
            warmth = _warmth(math.dist(at, other))
            counts[warmth] = counts.get(warmth, 0) + 1
        return sum(count * count for count in counts.values())

    return min(could[:: max(len(could) // 60, 1)], key=left)


def _warmth(distance: float) -> str:
    """Return the page's word for a distance in pixels."""
    return "HOT" if distance < 5 else "WARM" if distance < 10 else "COLD" if distance < 40 else "ICE COLD"
