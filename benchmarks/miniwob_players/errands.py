"""Pages with an errand of several steps: tickets, flights, food, a game."""

from __future__ import annotations

import json
from functools import cache

from .choices import pick_date
from .elements import every, nth, one
from .page import Page
from .table import plays

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
CARELESS = 0.55
"""Of the opponent's moves, how many it plays at random; with the others it completes a line, or stops one."""


@plays("buy-ticket")
async def buy_ticket(page: Page) -> None:
    """Price and duration stand on every ticket."""
    (wanted,) = page.asked(r"with the (.*)\.")
    await _take(page, wanted, ".buy-ticket")


@plays("book-flight", "book-flight-nodelay")
async def book_flight(page: Page) -> None:
    """Fill in the form with help of its lists, search, and take the cheapest or shortest flight."""
    wanted, origin, destination = page.asked(r"Book the (\w+) one-way flight from: (.*) to: (.*) on ")
    for field, words in (("#flight-from", origin), ("#flight-to", destination)):
        await page.type(one(field), words)
        await page.wait(0.6)
        await page.click(f"{every('.ui-menu-item')}.find(e => e.textContent.includes({json.dumps(words)}))")
    await pick_date(page)
    await page.click(one("#search"))
    await _take(page, wanted, ".flight-price")


async def _take(page: Page, wanted: str, button: str) -> None:
    """Press the button of the cheapest, shortest, longest or most expensive offer."""
    offers = [
        (int(price), 60 * int(hours) + int(minutes))
        for price, hours, minutes in await page.js(
            "[...document.querySelectorAll('.flight')].map(e => "
            f"[e.querySelector('{button}').textContent.split('$')[1], "
            "...e.querySelector('.time-duration').textContent.match(/\\d+/g)])"
        )
    ]
    figures = [minutes if "est duration" in wanted or wanted == "shortest" else price for price, minutes in offers]
    best = max(figures) if wanted.startswith(("longest", "most")) else min(figures)
    await page.click(nth(button, figures.index(best)))


@plays("order-food")
async def order_food(page: Page) -> None:
    """One of each dish named, or so many dishes of a kind; more of the same will do."""
    dishes = [
        (name.strip(), kinds)
        for name, kinds in await page.js(
            "[...document.querySelectorAll('.food-item')].map(e => "
            "[e.dataset.item, [...e.querySelectorAll('img')].map(i => i.alt)])"
        )
    ]
    if "each item" in page.ask:
        names = [name.strip() for name in page.asked(r"each item: (.*)")[0].split(", ")]
        wanted = [place for place, (name, _) in enumerate(dishes) if name in names]
    else:
        count, kind = page.asked(r"Order (\d+) items that are (\S+)")
        wanted = [place for place, (_, kinds) in enumerate(dishes) if kind in kinds][:1] * int(count)
    for place in wanted:
        await page.click(nth(".food-item .add", place))
    await page.click(one("#submit-order button"))


@plays("tic-tac-toe")
async def tic_tac_toe(page: Page) -> None:
    """The move after which a win is likeliest: a draw is paid for little better than a loss."""
    while page.reward is None:
        cells = "".join(
            "X" if "mark-x" in kind else "O" if "mark-o" in kind else "."
            for kind in await page.js("[...document.querySelectorAll('#area [data-index]')].map(e => e.className)")
        )
        best = max(_free(cells), key=lambda place: _wins(_with(cells, place, "X"), "O"))
        await page.click(one(f"#ttt-{best}"))


def _free(cells: str) -> list[int]:
    return [place for place, cell in enumerate(cells) if cell == "."]


def _with(cells: str, place: int, mark: str) -> str:
    return cells[:place] + mark + cells[place + 1 :]


def _closing(cells: str, mark: str) -> list[int]:
    """The free cells that complete a line of a mark."""
    return [place for place in _free(cells) if _has_line(_with(cells, place, mark), mark)]


def _has_line(cells: str, mark: str) -> bool:
    return any(all(cells[place] == mark for place in line) for line in LINES)


@cache
def _wins(cells: str, turn: str) -> float:
    """How likely X is to win from here if it plays best. `turn`: whose move it is."""
    if _has_line(cells, "X") or _has_line(cells, "O") or not _free(cells):
        return float(_has_line(cells, "X"))
    if turn == "X":
        return max(_wins(_with(cells, place, "X"), "O") for place in _free(cells))

    def after(places: list[int]) -> float:
        return sum(_wins(_with(cells, place, "O"), "X") for place in places) / len(places)

    clever = _closing(cells, "O") or _closing(cells, "X") or _free(cells)
    return CARELESS * after(_free(cells)) + (1 - CARELESS) * after(clever)
