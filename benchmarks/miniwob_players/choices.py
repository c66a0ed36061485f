"""Pages with boxes to tick, lists, sliders, dates and colours to choose from."""

from __future__ import annotations

import json
from calendar import month_name

from .elements import every, first_of, labelled, nth
from .page import Page, Stuck
from .table import plays


@plays("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer", "click-option")
async def tick(page: Page) -> None:
    (labels,) = page.match(r"Select (.*) and click Submit")
    for words in labels.split(", ") if labels != "nothing" else ():
        await page.click(
            f"[...document.querySelectorAll('#area label')].find(l => l.textContent.trim() === {json.dumps(words)})"
            ".querySelector('input')"
        )
    await page.submit()


@plays("click-checkboxes-soft")
async def tick_what_means_the_same(page: Page) -> None:
    """Tick the words with the same meaning, according to the page's own table."""
    (phrase,) = page.match(r"similar to (.*) and click Submit")
    alike = await page.js("SYNONYMS")
    targets = phrase.split(", ")
    for index, label in enumerate(await page.texts("[...document.querySelectorAll('#boxes label')]")):
        if any(label in words and set(words) & set(targets) for words in alike):
            await page.click(f"document.querySelectorAll('#boxes input')[{index}]")
    await page.submit()


@plays("choose-list")
async def choose(page: Page) -> None:
    (option,) = page.match(r"Select (.*) from the list")
    await page.select(nth("select", 0), option)
    await page.submit()


@plays("click-scroll-list")
async def choose_several(page: Page) -> None:
    (options,) = page.match(r"Select (.*) from the scroll list")
    for option in options.split(", "):
        await page.select(nth("select", 0), option)
    await page.submit()


@plays("form-sequence-3")
async def folded_list_then_button(page: Page) -> None:
    """Unfold the list, which the page draws itself, and click a line, then the button."""
    option, button = page.match(r'Choose (.*) from the dropdown.*labeled "(.*)"')
    await page.click(first_of(".selectric"))
    await page.wait(0.3)
    await page.click(labelled(".selectric-items li", option))
    await page.click(labelled("#buttons button", button))


@plays("use-slider")
async def slide(page: Page) -> None:
    await _slide_to(page, 0, int(page.match(r"(-?\d+)")[0]))
    await page.submit()


@plays("use-slider-2")
async def slide_three(page: Page) -> None:
    for index, value in enumerate(json.loads(page.match(r"(\[.*?\])")[0])):
        await _slide_to(page, index, value)
    await page.submit()


async def _slide_to(page: Page, index: int, target: int) -> None:
    """Move one of the page's sliders to a value, one key press at a time."""
    await page.click(nth(".ui-slider-handle", index))
    for _ in range(250):
        now = await page.js(f"$($('.ui-slider')[{index}]).slider('value')")
        if now == target:
            return
        await page.press("ArrowRight" if now < target else "ArrowLeft")
    raise Stuck(f"slider {index} does not come to {target}")


@plays("use-spinner")
async def spin(page: Page) -> None:
    target = int(page.match(r"(-?\d+)")[0])
    for _ in range(abs(target)):
        await page.click(first_of(f".ui-spinner-{'up' if target > 0 else 'down'}"))
    await page.submit()


@plays("form-sequence")
async def slider_then_box(page: Page) -> None:
    (ordinal,) = page.match(r"(\d)(?:st|nd|rd) checkbox")
    await _slide_to(page, 0, int(page.match(r"(-?\d+)")[0]))
    await page.click(nth("#area input[type=checkbox]", int(ordinal) - 1))
    await page.submit()


@plays("form-sequence-2")
async def button_then_text(page: Page) -> None:
    (radio,) = page.match(r"(\d)(?:st|nd|rd) radio")
    (field,) = page.match(r"(\d)(?:st|nd|rd) textbox")
    (number,) = page.match(r'number "?(-?\d+)"?')
    await page.click(nth("#area input[type=radio]", int(radio) - 1))
    await page.type(nth("#area input[type=text]", int(field) - 1), number)
    await page.submit()


@plays("enter-date")
async def enter_date(page: Page) -> None:
    month, day, year = map(int, page.match(r"(\d+)/(\d+)/(\d+)"))
    kind = await page.js("document.querySelector('#area input').type")
    text = f"{year}-{month:02d}-{day:02d}" if kind == "date" else f"{month:02d}/{day:02d}/{year}"
    await page.type(nth("#area input", 0), text)
    await page.submit()


@plays("enter-time")
async def enter_time(page: Page) -> None:
    hour, minute, half = page.match(r"(\d+):(\d+) ([AP]M)")
    await page.type(nth("#area input", 0), f"{int(hour) % 12 + 12 * (half == 'PM'):02d}:{minute}")
    await page.submit()


@plays("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def choose_date(page: Page) -> None:
    await pick_date(page)
    await page.submit()


async def pick_date(page: Page) -> None:
    """Turn to the requested month of the calendar, and click the day."""
    month, day, _ = map(int, page.match(r"(\d+)/(\d+)/(\d+)"))
    await page.click(first_of("#datepicker"))
    await page.wait(1.0)
    for _ in range(14):
        now = list(month_name).index(await page.js("document.querySelector('.ui-datepicker-month').textContent"))
        if now == month:
            break
        await page.click(first_of(f".ui-datepicker-{'prev' if now > month else 'next'}"))
        await page.wait(0.3)
    await page.click(labelled(".ui-datepicker-calendar a", str(day)))
    await page.wait(1.0)


@plays("use-autocomplete", "use-autocomplete-nodelay")
async def autocomplete(page: Page) -> None:
    begins, ends = page.quoted_text(), page.quoted_text(1) if page.ask.count('"') > 2 else ""
    await page.type(nth("#area input", 0), begins)
    await page.wait(1.2)
    await page.click(
        f"{every('.ui-menu-item')}.find(e => "
        f"e.textContent.startsWith({json.dumps(begins)}) && e.textContent.endsWith({json.dumps(ends)}))"
    )
    await page.submit()


@plays("use-colorwheel", "use-colorwheel-2")
async def colour(page: Page) -> None:
    """Type a colour's numbers into the field beside the wheel, then click the page to close the wheel."""
    rgb = await page.js(
        "(e => e && getComputedStyle(e).backgroundColor.match(/\\d+/g))(document.querySelector('#query .cc'))"
    )
    if rgb is None:
        (name,) = page.match(r"Select (\w+) with")
        hexadecimal = (await page.js(f"ui_utils.colorNameToHex({json.dumps(name)})")).lstrip("#")
    else:
        hexadecimal = "".join(f"{int(part):02x}" for part in rgb)
    await page.type(first_of("#col"), hexadecimal)
    await page.click(first_of("#query"))
    await page.submit()
