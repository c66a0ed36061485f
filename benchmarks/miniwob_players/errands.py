"""Pages with a job of several steps: tickets, flights, food, a game."""

from __future__ import annotations

import json
from functools import cache

from .choices import pick_date
from .elements import every, first_of, nth
from .page import Page
from .table import plays

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
CARELESS = 0.55
"""The share of the opponent's moves that are random; with the others it completes a line, or stops one."""


@plays("buy-ticket")
async def buy_ticket(page: Page) -> None:
    """Buy the requested ticket. Every ticket shows price and duration."""
    (criterion,) = page.match(r"with the (.*)\.")
    await _take(page, criterion, ".buy-ticket")


@plays("book-flight", "book-flight-nodelay")
async def book_flight(page: Page) -> None:
    """Fill in the form with help of its lists, search, and take the cheapest or shortest flight."""
    criterion, origin, destination = page.match(r"Book the (\w+) one-way flight from: (.*) to: (.*) on ")
    for field, words in (("#flight-from", origin), ("#flight-to", destination)):
        await page.type(first_of(field), words)
        await page.wait(0.6)
        await page.click(f"{every('.ui-menu-item')}.find(e => e.textContent.includes({json.dumps(words)}))")
    await pick_date(page)
    await page.click(first_of("#search"))
    await _take(page, criterion, ".flight-price")


async def _take(page: Page, target: str, button: str) -> None:
    """Press the button of the cheapest, shortest, longest or most expensive offer."""
    offers = [
        (int(price), 60 * int(hours) + int(minutes))
        for price, hours, minutes in await page.js(
            "[...document.querySelectorAll('.flight')].map(e => "
            f"[e.querySelector('{button}').textContent.split('$')[1], "
            "...e.querySelector('.time-duration').textContent.match(/\\d+/g)])"
        )
    ]
    figures = [minutes if "est duration" in target or target == "shortest" else price for price, minutes in offers]
    best = max(figures) if target.startswith(("longest", "most")) else min(figures)
    await page.click(nth(button, figures.index(best)))


@plays("order-food")
async def order_food(page: Page) -> None:
    """Order one of each named dish, or the requested number of a kind, which may be equal dishes."""
    dishes = [
        (name.strip(), kinds)
        for name, kinds in await page.js(
            "[...document.querySelectorAll('.food-item')].map(e => "
            "[e.dataset.item, [...e.querySelectorAll('img')].map(i => i.alt)])"
        )
    ]
    if "each item" in page.ask:
        names = [name.strip() for name in page.match(r"each item: (.*)")[0].split(", ")]
        dish_indices = [index for index, (name, _) in enumerate(dishes) if name in names]
    else:
        count, kind = page.match(r"Order (\d+) items that are (\S+)")
        dish_indices = [index for index, (_, kinds) in enumerate(dishes) if kind in kinds][:1] * int(count)
    for index in dish_indices:
        await page.click(nth(".food-item .add", index))
    await page.click(first_of("#submit-order button"))


@plays("tic-tac-toe")
async def tic_tac_toe(page: Page) -> None:
    """Play the moves that most likely win: a draw is rewarded little better than a loss."""
    while page.reward is None:
        cells = "".join(
            "X" if "mark-x" in kind else "O" if "mark-o" in kind else "."
            for kind in await page.js("[...document.querySelectorAll('#area [data-index]')].map(e => e.className)")
        )
        best = max(_free(cells), key=lambda index: _wins(_with(cells, index, "X"), "O"))
        await page.click(first_of(f"#ttt-{best}"))


def _free(cells: str) -> list[int]:
    return [index for index, cell in enumerate(cells) if cell == "."]


def _with(cells: str, cell_index: int, mark: str) -> str:
    return cells[:cell_index] + mark + cells[cell_index + 1 :]


def _closing(cells: str, mark: str) -> list[int]:
    """Return the free cells that complete a line of a mark."""
    return [index for index in _free(cells) if _has_line(_with(cells, index, mark), mark)]


def _has_line(cells: str, mark: str) -> bool:
    return any(all(cells[index] == mark for index in line) for line in LINES)


@cache
def _wins(cells: str, turn: str) -> float:
    """Return X's probability of winning from here if it plays best. `turn`: whose move it is."""
    if _has_line(cells, "X") or _has_line(cells, "O") or not _free(cells):
        return float(_has_line(cells, "X"))
    if turn == "X":
        return max(_wins(_with(cells, index, "X"), "O") for index in _free(cells))

    def after(indices: list[int]) -> float:
        return sum(_wins(_with(cells, index, "O"), "X") for index in indices) / len(indices)

    clever = _closing(cells, "O") or _closing(cells, "X") or _free(cells)
    return CARELESS * after(_free(cells)) + (1 - CARELESS) * after(clever)
