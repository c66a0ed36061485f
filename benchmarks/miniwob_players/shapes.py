"""Pages with shapes to tell apart, to count, and to complete."""

from __future__ import annotations

import cmath
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from .elements import first_of, labelled
from .page import Page
from .table import plays

COLOURS = ("red", "green", "blue", "aqua", "black", "magenta", "yellow")
Point = tuple[float, float]


@dataclass(frozen=True)
class Shape:
    """One of the objects on a page's grid. `name`: its shape, letter or digit."""

    kind: str
    name: str
    colour: str
    size: str

    def fits(self, words: str) -> bool:
        """Return whether a description such as `small red digit` fits the shape."""
        *qualities, noun = words.split()
        return noun in ("item", self.kind, self.name) and set(qualities) <= {self.colour, self.size}


async def grid(page: Page) -> list[Shape]:
    """Return the shapes on the page, in the order of their elements."""
    return [Shape(*fields) for fields in await page.js(_GRID)]


_GRID = """[...document.querySelectorAll('#area_svg > *')].map(e => {
  const text = e.textContent, box = e.getBBox();
  const kind = e.tagName !== 'text' ? 'shape' : /[0-9]/.test(text) ? 'digit' : 'letter';
  const name = {rect: 'rectangle', circle: 'circle', polygon: 'triangle', text}[e.tagName];
  const size = e.tagName === 'text' ? parseFloat(e.getAttribute('font-size')) : box.width;
  return [kind, name, e.getAttribute('fill'), size > 15 ? 'large' : 'small'];
})"""


@plays("click-shape")
async def click_shape(page: Page) -> None:
    (words,) = page.match(r"Click on a (.*)")
    index = next(index for index, shape in enumerate(await grid(page)) if shape.fits(words))
    await page.click(f"document.querySelectorAll('#area_svg > *')[{index}]")


@plays("count-shape")
async def count_shapes(page: Page) -> None:
    (words,) = page.match(r"How many (.*)s are there")
    count = sum(shape.fits(words) for shape in await grid(page))
    await page.click(labelled("#count-buttons button", str(count)))


@plays("identify-shape")
async def identify(page: Page) -> None:
    kind = await page.js(
        "(s => s.querySelector('circle') ? 'circle' : s.querySelector('text') ? "
        "(/\\d/.test(s.querySelector('text').textContent) ? 'number' : 'letter') : "
        "s.querySelector('rect') ? 'rectangle' : 'triangle')(document.querySelector('#area svg'))"
    )
    await page.click(first_of(f"#area-buttons button[data-type={kind}]"))


@plays("count-sides")
async def count_sides(page: Page) -> None:
    """Count the sides of a drawn shape: the distance of its line from its middle rises and falls once per corner."""
    dark = await page.js(
        "(c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].map((value, at) => at % 4 === 3 && "
        "value > 128 ? [(at - 3) / 4 % c.width, Math.floor((at - 3) / 4 / c.width)] : 0).filter(Boolean))"
        "(document.querySelector('#c'))"
    )
    lines = [complex(x - 74.5, y - 49.5) for x, y in dark]
    reach = {round(math.degrees(cmath.phase(dot))): abs(dot) for dot in lines}
    waves = {
        sides: abs(sum(far * cmath.exp(1j * sides * math.radians(angle)) for angle, far in reach.items()))
        for sides in range(3, 8)
    }
    await page.click(labelled("#form button", str(max(waves, key=waves.__getitem__))))


@plays("circle-center")
async def centre(page: Page) -> None:
    (middle,) = await _points(page, "svg circle")
    await _mark(page, lambda point: math.dist(point, middle))


@plays("find-midpoint")
async def midpoint(page: Page) -> None:
    (ax, ay), (bx, by) = await _points(page, "svg circle")
    await _mark(page, lambda point: math.dist(point, ((ax + bx) / 2, (ay + by) / 2)))


@plays("right-angle")
async def right_angle(page: Page) -> None:
    (end,), (corner,) = await _points(page, "#init-black"), await _points(page, "#init-blue")
    await _mark(page, lambda point: abs(math.pi / 2 - _angle(end, corner, point)) if _apart(point, corner) else 9)


@plays("bisect-angle")
async def bisect(page: Page) -> None:
    (corner,), (one_end, other_end) = await _points(page, ".init-blue"), await _points(page, ".init-black")

    def off(point: Point) -> float:
        return max(_angle(one_end, corner, point), _angle(other_end, corner, point)) if _apart(point, corner) else 9

    await _mark(page, off)


def _apart(point: Point, corner: Point) -> bool:
    """Return whether a point is far enough from a corner to show a direction."""
    return math.dist(point, corner) > 40


def _angle(left: Point, corner: Point, right: Point) -> float:
    """Return the angle between the lines from a corner to two points, in radians."""
    one_way, other_way = (complex(x - corner[0], y - corner[1]) for x, y in (left, right))
    return abs(cmath.phase(one_way / other_way))


async def _points(page: Page, selector: str) -> list[Point]:
    """Return the centres of circles, in pixels of the view."""
    return [
        (x, y)
        for x, y in await page.js(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.getBoundingClientRect()).map("
            "r => [(r.left + r.right) / 2, (r.top + r.bottom) / 2])"
        )
    ]


async def _mark(page: Page, off: Callable[[Point], float]) -> None:
    """Click the best pixel of the drawing, correct the click by where the page marks it, and submit."""
    left, top, right, bottom = (round(side) for side in await page.box("document.querySelector('#area svg')"))
    pixels = list(product(range(left + 4, right - 4), range(top + 4, bottom - 8)))
    x, y = min(pixels, key=off)
    await page.act("click_at", x=x, y=y)
    ((marked_x, marked_y),) = await _points(page, "#blue-circle")
    shift_x, shift_y = marked_x - x, marked_y - y
    x, y = min(pixels, key=lambda pixel: off((pixel[0] + shift_x, pixel[1] + shift_y)))
    await page.act("click_at", x=x, y=y)
    await page.submit()
