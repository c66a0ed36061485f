"""Pages where something is dragged: shapes, rows, marks over text, corners, lines."""

from __future__ import annotations

import math

from .elements import every, nth, one
from .page import Page, Stuck
from .table import plays

WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
NAMED = {"rectangles": "rect", "circles": "circle", "triangles": "polygon"}


@plays("drag-box")
async def box_into_box(page: Page) -> None:
    await page.drag(one("#draggableSmall"), one("#draggableLarge"))
    await page.submit()


@plays("drag-circle", "drag-single-shape")
async def shape_one_way(page: Page) -> None:
    across, down = WAYS[page.asked(r"Drag the \w+ (left|right|up|down)")[0]]
    x, y = await page.middle("document.querySelector('#area svg > *')")
    await page.move((x, y), (x + 20 * across, y + 20 * down))
    await page.submit()


@plays("drag-shapes", "drag-shapes-2")
async def shapes_into_boxes(page: Page) -> None:
    """The wanted ones go into the first box, the others into the second if there is one."""
    boxes = [await page.box(nth("#shape-container", place)) for place in range(len(await _shapes(page, "rect")))
             if await page.shows(nth("#shape-container", place))]  # fmt: skip
    wanted = page.asked(r"Drag all (\w+)")[0]
    for place, (tag, colour) in enumerate(await _shapes(page, "*")):
        into = 0 if wanted in (colour, next((name for name, its in NAMED.items() if its == tag), "")) else 1
        if into < len(boxes):
            left, top, right, bottom = boxes[into]
            await page.move(await page.middle(_shape(place)), ((left + right) / 2, (top + bottom) / 2))
    await page.submit()


def _shape(place: int) -> str:
    return f"document.querySelectorAll('#area_svg > :not(#shape-container)')[{place}]"


async def _shapes(page: Page, tag: str) -> list[list[str]]:
    """Tag and colour of the shapes with a tag."""
    found = "[...document.querySelectorAll('#area_svg > :not(#shape-container)')].map(e => [e.tagName, e.getAttribute('fill')])"
    return list(await page.js(found))


@plays("drag-items")
async def row_to_a_place(page: Page) -> None:
    """A row is let go a little beyond the one whose place it takes."""
    name, where = page.asked(r"Drag (\S+) (.*)\.")
    names = await page.texts(every("#sortable li"))
    start = names.index(name)
    steps = {"up by one position": start - 1, "down by one position": start + 1}
    place = {"to the top": 0, "to the bottom": len(names) - 1, **steps}.get(where)
    await _sort(page, start, int(page.asked(r"to the (\d)")[0]) - 1 if place is None else place)


@plays("drag-sort-numbers")
async def rows_in_order(page: Page) -> None:
    for place in range(3):
        numbers = [int(text) for text in await page.texts(every("#sortable li"))]
        least = numbers.index(min(numbers[place:]), place)
        if least != place:
            await _sort(page, least, place)
    await page.submit()


async def _sort(page: Page, start: int, place: int) -> None:
    """Drag a row of a list to the place of another."""
    x, y = await page.middle(nth("#sortable li", place))
    await page.move(await page.middle(nth("#sortable li", start)), (x, y + (4 if place > start else -4)))


@plays("drag-items-grid")
async def card_to_a_place(page: Page) -> None:
    name, where = page.asked(r"Drag (\S+) (?:to the )?(.*)\.")
    start = (await page.texts(every("#sortable li"))).index(name)
    row, column = divmod(start, 3)
    if where.endswith("by one"):
        across, down = WAYS[where.split()[0]]
        row, column = row + down, column + across
    else:
        row = {"top": 0, "bottom": 2}.get(where.split()[0], 1)
        column = {"left": 0, "right": 2}.get(where.split()[-1], 1)
    await page.drag(nth("#sortable li", start), nth("#sortable li", 3 * row + column))


@plays("drag-cube")
async def turn_a_cube(page: Page) -> None:
    """Turn it a little at a time until the side shows; it goes on turning after it is let go."""
    wanted = page.said()
    down = wanted in "16"
    for _ in range(60):
        if await page.js("document.querySelector('.active').textContent") == wanted:
            return await page.submit()
        await page.move((60, 110), (60, 116) if down else (66, 110))
        await page.wait(0.4)
    raise Stuck(f"the cube never shows {wanted}")


@plays("draw-line")
async def draw_line(page: Page) -> None:
    """A straight line through the dot, as long as the drawing allows."""
    x, y = await page.middle(one("#circ"))
    left, top, right, bottom = await page.box("document.querySelector('#area svg')")
    if "horizontal" in page.ask:
        await page.move((left + 5, y), (right - 5, y))
    else:
        await page.move((x, top + 5), (x, bottom - 10))
    await page.submit()


@plays("highlight-text")
async def highlight(page: Page) -> None:
    await _mark(page, one("#highlight, #area > div, #area span"))
    await page.submit()


@plays("highlight-text-2")
async def highlight_nth(page: Page) -> None:
    (place,) = page.asked(r"(\d)(?:st|nd|rd) paragraph")
    await _mark(page, f"[...document.querySelectorAll('#area p, #area .text, #area div[id^=text]')][{int(place) - 1}]")
    await page.submit()


async def _mark(page: Page, element: str) -> None:
    """Select a text with the mouse, from its first letter to its last."""
    left, top, right, bottom = await page.box(element)
    await page.move((left + 1, top + 3), (right - 1, bottom - 2))


@plays("resize-textarea")
async def resize(page: Page) -> None:
    _, _, right, bottom = await page.box(one("textarea"))
    by = -15 if "smaller" in page.ask else 15
    across = "width" in page.ask
    corner = right - 4, bottom - 4
    await page.move(corner, (corner[0] + (by if across else 0), corner[1] + (0 if across else by)))
    await page.submit()


@plays("daily-calendar")
async def calendar(page: Page) -> None:
    """Drag over a free stretch of the day, and name it."""
    length, unit, name, begins, ends = page.asked(
        r'Create an? ([\d.]+) (hours?|mins) event named "(.*)", between (\w+) and (\w+)\.'
    )
    halves = round(float(length) * (2 if unit.startswith("hour") else 1 / 30))
    busy = await page.js(_BUSY)
    start = next(
        half
        for half in range(_half_hours(begins), _half_hours(ends) - halves + 1)
        if not any(busy[half : half + halves])
    )
    x, y = await page.middle(one(f"#hh-{start}"))
    await page.move((x, y - 3), (x, y + 3 + 20.4 * (halves - 1)))
    await page.type(one("#event-name"), name)
    await page.click(one("#controls .create"))


def _half_hours(hour: str) -> int:
    """From midnight to an hour such as 8AM."""
    return 2 * (int(hour[:-2]) % 12 + 12 * (hour[-2:] == "PM"))


_BUSY = """(events => [...document.querySelectorAll('.half-hour')].map(e => e.getBoundingClientRect()).map(
  slot => events.some(event => event.top < slot.bottom - 3 && event.bottom > slot.top + 3)))(
  [...document.querySelectorAll('.event')].map(e => e.getBoundingClientRect()))"""


@plays("hot-cold")
async def hot_cold(page: Page) -> None:
    """Dragging in from outside tells how warm a point is, and is no click. What cannot be is ruled out, look by look."""
    left, top, right, bottom = (round(side) for side in await page.box(one("#touch-area")))
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
    """Of some points, the one whose answer leaves fewest on the whole."""
    few = could[:: max(len(could) // 300, 1)]

    def left(at: tuple[int, int]) -> int:
        counts: dict[str, int] = {}
        for other in few:
            warmth = _warmth(math.dist(at, other))
            counts[warmth] = counts.get(warmth, 0) + 1
        return sum(count * count for count in counts.values())

    return min(could[:: max(len(could) // 60, 1)], key=left)


def _warmth(distance: float) -> str:
    """As the page says it, for a distance in pixels."""
    return "HOT" if distance < 5 else "WARM" if distance < 10 else "COLD" if distance < 40 else "ICE COLD"


