"""Pages on which one element, or a few in turn, must be clicked."""

from __future__ import annotations

import json

from .elements import PAYING, first_of, leaf, nth
from .page import Page
from .table import plays


@plays("click-test", "click-test-2", "click-button", "unicode-test", "click-link")
async def paying(page: Page) -> None:
    """Click the element whose own handler gives the reward 1."""
    await page.click(PAYING % r"/endEpisode\(\s*1(\.0)?\s*[,)]/")


@plays("click-test-transfer")
async def named_button(page: Page) -> None:
    (name,) = page.match(r"Click button (\w+)\.")
    await page.click(leaf(name))


@plays("click-dialog")
async def dialog(page: Page) -> None:
    await page.click(first_of(".ui-dialog-titlebar-close"))


@plays("click-dialog-2")
async def dialog_button(page: Page) -> None:
    name = page.quoted_text()
    await page.click(first_of(".ui-dialog-titlebar-close") if name == "x" else leaf(name))


@plays("click-button-sequence")
async def in_turn(page: Page) -> None:
    await page.click(first_of("#subbtn"))
    await page.click(first_of("#subbtn2"))


@plays("click-widget")
async def widget(page: Page) -> None:
    await page.click(first_of(f"#area [data-type={json.dumps(page.quoted_text())}]"))


@plays("click-color")
async def colour(page: Page) -> None:
    (name,) = page.match(r"on the (\w+) colored")
    await page.click(
        f"[...document.querySelectorAll('.color')].find(e => (e.dataset.color || '').includes({json.dumps(name)}))"
    )


@plays("click-shades")
async def shades(page: Page) -> None:
    (name,) = page.match(r"shades of (\w+)")
    boxes = f"[...document.querySelectorAll('#area [data-color={name}]')]"
    for index in range(await page.js(f"{boxes}.length")):
        await page.click(f"{boxes}[{index}]")
    await page.submit()


@plays("grid-coordinate")
async def coordinate(page: Page) -> None:
    (at,) = page.match(r"(\(.*\))")
    await page.click(f"document.getElementById({json.dumps(at)})")


@plays("focus-text")
async def focus(page: Page) -> None:
    await page.click(nth("#area input", 0))


@plays("focus-text-2")
async def focus_nth(page: Page) -> None:
    (ordinal,) = page.match(r"(\d)(?:st|nd|rd|th)")
    await page.click(nth("#area input", int(ordinal) - 1))


@plays("ascending-numbers")
async def ascending(page: Page) -> None:
    """Click numbers in ascending order. The first click covers the others with squares, which keep their order."""
    await page.click("[...document.querySelectorAll('svg text')].find(e => e.textContent === '1')")
    for _ in range(4):
        await page.click(first_of("svg rect"))


@plays("find-greatest")
async def greatest(page: Page) -> None:
    """Choose the card with the greatest number. Only the card clicked last shows its number."""
    numbers = []
    for index in range(await page.js("document.querySelectorAll('.card').length")):
        await page.click(nth(".card", index))
        numbers.append(int(await page.js("document.querySelector('.card:not(.hidden)').textContent")))
    await page.click(nth(".card", numbers.index(max(numbers))))
    await page.submit()


@plays("odd-or-even")
async def parity(page: Page) -> None:
    for index, number in enumerate(await page.texts("[...document.querySelectorAll('.row .display-number')]")):
        row = f"document.querySelectorAll('.row')[{index}]"
        await page.click(f"{row}.querySelector('.{'odd' if int(number) % 2 else 'even'}')")
    await page.submit()


@plays("generate-number")
async def generate(page: Page) -> None:
    """Generate numbers until one is as requested."""
    kind, limit = page.match(r"(even|odd|less|greater)(?: than (\d+))?")
    for _ in range(60):
        await page.click(first_of("#generate"))
        text = await page.js("document.querySelector('#display-number').textContent.trim()")
        if not text:
            continue
        number = int(text)
        if {
            "even": number % 2 == 0,
            "odd": number % 2 == 1,
            "less": number < int(limit or 0),
            "greater": number > int(limit or 0),
        }[kind]:
            break
    await page.submit()


@plays("number-checkboxes")
async def pixels_of_a_digit(page: Page) -> None:
    """Tick the boxes that the example shows. The example is a picture; the page's own table lists its ticked boxes."""
    digit = int(page.quoted_text())
    for row, line in enumerate(await page.js(f"PATTERNS[{digit}]")):
        for column, ticked in enumerate(line):
            if ticked:
                await page.click(f"document.querySelectorAll('#checkboxes input')[{4 * row + column}]")
    await page.submit()
