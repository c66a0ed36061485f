"""Scripted players of MiniWoB++ tasks: each reads what is asked and solves its page through the tools of web-v1."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable

from miniwob_page import PAYING, Page

Player = Callable[[Page], Awaitable[None]]
PLAYERS: dict[str, Player] = {}


def plays(*names: str) -> Callable[[Player], Player]:
    """Register a player for tasks."""

    def keep(player: Player) -> Player:
        PLAYERS.update(dict.fromkeys(names, player))
        return player

    return keep


def quoted(text: str) -> list[str]:
    return re.findall(r'"(.*?)"', text)


def leaf(words: str, inside: str = "#area, .ui-dialog, body") -> str:
    """A script that names the smallest visible element with exactly these words."""
    return (
        f"[...document.querySelectorAll('button, a, span, div, td, li, label, h3, p, text, input')].filter(e => "
        f"(e.textContent.trim() || e.value || '').trim() === {json.dumps(words)} && e.getBoundingClientRect().width && "
        f"!e.closest('#query')).sort((a, b) => a.querySelectorAll('*').length - b.querySelectorAll('*').length)[0]"
    )


def nth(selector: str, place: int) -> str:
    return (
        f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.getBoundingClientRect().width)[{place}]"
    )


def link_in_sight(words: str) -> str:
    test = f"e => e.offsetParent && e.textContent === {json.dumps(words)}"
    return f"[...document.querySelectorAll('span.alink')].find({test})"


def beside(label: str) -> str:
    """A script that names the text in the table's row of a label."""
    return (
        "[...document.querySelectorAll('#area tr')].find(r => "
        f"r.children[0].textContent.trim() === {json.dumps(label)}).children[1].textContent"
    )


@plays(
    "click-test", "click-test-2", "click-button", "unicode-test", "click-link", "click-shape", "count-shape",
)  # fmt: skip
async def paying(page: Page) -> None:
    """Click the element whose own handler pays 1."""
    await page.click(PAYING % r"/endEpisode\(\s*1(\.0)?\s*[,)]/")


@plays("click-dialog")
async def dialog(page: Page) -> None:
    await page.click("document.querySelector('.ui-dialog-titlebar-close')")


@plays("click-button-sequence", "button-delay")
async def in_turn(page: Page) -> None:
    await page.click("document.querySelector('#subbtn')")
    if found := re.search(r"wait (\d+)", page.ask):
        for _ in range(int(found[1])):
            await page.act("wait", seconds=1.1)
    await page.click("document.querySelector('#subbtn2')")


@plays("enter-text", "enter-text-dynamic")
async def enter_text(page: Page) -> None:
    await page.type(nth("input[type=text]", 0), quoted(page.ask)[0])
    await page.submit()


@plays("enter-text-2")
async def enter_case(page: Page) -> None:
    text = quoted(page.ask)[0]
    await page.type(nth("input[type=text]", 0), text.upper() if "upper" in page.ask else text.lower())
    await page.submit()


@plays("enter-password")
async def enter_password(page: Page) -> None:
    for place in (0, 1):
        await page.type(nth("input[type=password]", place), quoted(page.ask)[0])
    await page.submit()


@plays("login-user", "login-user-popup")
async def login(page: Page) -> None:
    user, password = quoted(page.ask)[:2]
    for selector, text in (("input[type=text]", user), ("input[type=password]", password)):
        if await page.js("[...document.querySelectorAll('#popup-cancel, .popup')].some(e => e.offsetParent)"):
            await page.click("document.querySelector('#popup-cancel')")
        await page.type(nth(selector, 0), text)
    if await page.js("[...document.querySelectorAll('#popup-cancel')].some(e => e.offsetParent)"):
        await page.click("document.querySelector('#popup-cancel')")
    await page.submit()


@plays("focus-text")
async def focus(page: Page) -> None:
    await page.click(nth("#area input", 0))


@plays("focus-text-2")
async def focus_nth(page: Page) -> None:
    await page.click(nth("#area input", int(re.search(r"(\d)(st|nd|rd|th)", page.ask)[1]) - 1))


@plays("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer", "click-option")
async def tick(page: Page) -> None:
    wanted = re.sub(r"^Select | and click Submit\.$", "", page.ask).split(", ")
    for words in wanted if wanted != ["nothing"] else ():
        await page.click(
            f"[...document.querySelectorAll('#area label')].find(l => l.textContent.trim() === {json.dumps(words)})"
            ".querySelector('input')"
        )
    await page.submit()


@plays("choose-list")
async def choose(page: Page) -> None:
    await page.select(nth("select", 0), re.sub(r"^Select | from the list and click Submit\.$", "", page.ask))
    await page.submit()


@plays("click-scroll-list")
async def choose_many(page: Page) -> None:
    for option in re.sub(r"^Select | from the scroll list and click Submit\.$", "", page.ask).split(", "):
        await page.select(nth("select", 0), option)
    await page.submit()


@plays("enter-date")
async def enter_date(page: Page) -> None:
    month, day, year = re.search(r"(\d+)/(\d+)/(\d+)", page.ask).groups()
    kind = await page.js("document.querySelector('#area input').type")
    text = f"{year}-{int(month):02d}-{int(day):02d}" if kind == "date" else f"{month}/{day}/{year}"
    await page.type(nth("#area input", 0), text)
    await page.submit()


@plays("enter-time")
async def enter_time(page: Page) -> None:
    hour, minute, half = re.search(r"(\d+):(\d+) ([AP]M)", page.ask).groups()
    await page.type(nth("#area input", 0), f"{int(hour) % 12 + 12 * (half == 'PM'):02d}:{minute}")
    await page.submit()


@plays("use-slider")
async def slide(page: Page) -> None:
    wanted = int(re.search(r"-?\d+", page.ask)[0])
    await page.click(nth(".ui-slider-handle", 0))
    for _ in range(250):
        now = await page.js("$('.ui-slider').slider('value')")
        if now == wanted:
            break
        await page.act("press", key="ArrowRight" if now < wanted else "ArrowLeft")
    await page.submit()


@plays("use-slider-2")
async def slide_three(page: Page) -> None:
    wanted = json.loads(re.search(r"\[.*?\]", page.ask)[0])
    for place, value in enumerate(wanted):
        await page.click(nth(".ui-slider-handle", place))
        for _ in range(50):
            now = await page.js(f"$($('.ui-slider')[{place}]).slider('value')")
            if now == value:
                break
            await page.act("press", key="ArrowRight" if now < value else "ArrowLeft")
    await page.submit()


@plays("form-sequence")
async def form_sequence(page: Page) -> None:
    place = int(re.search(r"(\d)(st|nd|rd) checkbox", page.ask)[1]) - 1
    wanted = int(re.search(r"-?\d+", page.ask)[0])
    await page.click(nth(".ui-slider-handle", 0))
    for _ in range(60):
        now = await page.js("$('.ui-slider').slider('value')")
        if now == wanted:
            break
        await page.act("press", key="ArrowRight" if now < wanted else "ArrowLeft")
    await page.click(nth("#area input[type=checkbox]", place))
    await page.submit()


@plays("form-sequence-2")
async def form_sequence_2(page: Page) -> None:
    radio = int(re.search(r"(\d)(st|nd|rd) radio", page.ask)[1]) - 1
    field = int(re.search(r"(\d)(st|nd|rd) textbox", page.ask)[1]) - 1
    await page.click(nth("#area input[type=radio]", radio))
    await page.type(nth("#area input[type=text]", field), re.search(r'number "?(-?\d+)"?', page.ask)[1])
    await page.submit()


@plays("click-tab")
async def click_tab(page: Page) -> None:
    await page.click(nth("#area ul li a", int(re.search(r"#(\d)", page.ask)[1]) - 1))


@plays("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def tabs(page: Page) -> None:
    words = quoted(page.ask)[0]
    link = link_in_sight(words)
    for place in range(int(await page.js("document.querySelectorAll('#area ul li a').length"))):
        await page.click(nth("#area ul li a", place))
        if await page.js(f"!!({link})"):
            await page.click(link)
            return


@plays("click-collapsible", "click-collapsible-nodelay")
async def collapsible(page: Page) -> None:
    await page.click(nth("#area h3", 0))
    await page.act("wait", seconds=1.0)
    await page.submit()


@plays("click-collapsible-2", "click-collapsible-2-nodelay")
async def collapsibles(page: Page) -> None:
    words = quoted(page.ask)[0]
    link = link_in_sight(words)
    for place in range(int(await page.js("document.querySelectorAll('#area h3').length"))):
        await page.click(nth("#area h3", place))
        await page.act("wait", seconds=0.8)
        if await page.js(f"!!({link})"):
            await page.click(link)
            return


@plays("copy-paste")
async def copy(page: Page) -> None:
    await page.type(nth("input[type=text]", 0), await page.js("document.querySelector('textarea').value"))
    await page.submit()


@plays("copy-paste-2")
async def copy_nth(page: Page) -> None:
    place = int(re.search(r"(\d)(st|nd|rd)", page.ask)[1]) - 1
    text = await page.js(f"document.querySelectorAll('textarea')[{place}].value")
    await page.type(nth("input[type=text]", 0), text)
    await page.submit()


@plays("find-word")
async def find_word(page: Page) -> None:
    place = int(re.search(r"(\d+)(st|nd|rd|th)", page.ask)[1]) - 1
    words = (await page.js("document.querySelector('#area p').textContent")).split()
    await page.type(nth("input[type=text]", 0), words[place].strip(".,"))
    await page.submit()


@plays("scroll-text")
async def last_word(page: Page) -> None:
    words = (await page.js("document.querySelector('textarea').value")).split()
    await page.type(nth("input[type=text]", 0), words[-1].strip("."))
    await page.submit()


@plays("read-table")
async def read_table(page: Page) -> None:
    label = re.search(r"value of (.*) into", page.ask)[1]
    value = await page.js(beside(label))
    await page.type(nth("input[type=text]", 0), value.strip())
    await page.submit()


@plays("read-table-2")
async def read_table_2(page: Page) -> None:
    for place in range(2):
        label = await page.js(
            f"[...document.querySelectorAll('#area label')][{place}].textContent.replace(':', '').trim()"
        )
        value = await page.js(beside(label))
        await page.type(nth("input[type=text]", place), value.strip())
    await page.submit()


@plays("simple-arithmetic")
async def arithmetic(page: Page) -> None:
    left, sign, right = re.search(
        r"(-?\d+)\s*([-+x*])\s*(-?\d+)",
        await page.js("document.querySelector('#area').innerText.replace(/\\s+/g, ' ')"),
    ).groups()
    a, b = int(left), int(right)
    await page.type(nth("#area input", 0), str({"+": a + b, "-": a - b}.get(sign, a * b)))
    await page.submit()


@plays("simple-algebra")
async def algebra(page: Page) -> None:
    text = await page.js("document.querySelector('#area').innerText.replace(/\\s+/g, ' ')")
    left, sign, right, total = re.search(r"(-?\d+|x) ?([-+]) ?(-?\d+|x) ?= ?(-?\d+)", text).groups()
    value = int(total)
    if left == "x":
        answer = value - int(right) if sign == "+" else value + int(right)
    else:
        answer = value - int(left) if sign == "+" else int(left) - value
    await page.type(nth("#area input", 0), str(answer))
    await page.submit()


@plays("text-transform")
async def transform(page: Page) -> None:
    await page.type(nth("#area input", 0), await page.js("document.querySelector('#captcha').textContent.trim()"))
    await page.submit()


@plays("guess-number")
async def guess(page: Page) -> None:
    for number in range(10):
        await page.type(nth("#area input", 0), str(number))
        await page.submit()
        if page.reward is not None:
            return


@plays("odd-or-even")
async def parity(page: Page) -> None:
    count = await page.js("document.querySelectorAll('.row').length")
    for place in range(count):
        number = int(re.search(r"-?\d+", await page.js(f"document.querySelectorAll('.row')[{place}].textContent"))[0])
        await page.click(
            f"document.querySelectorAll('.row')[{place}].querySelector('.{'odd' if number % 2 else 'even'}')"
        )
    await page.submit()


@plays("visual-addition")
async def blocks(page: Page) -> None:
    count = await page.js("document.querySelectorAll('#area .addition-block, #area .block').length")
    await page.type(nth("#area input", 0), str(count))
    await page.submit()


@plays("circle-center", "find-midpoint")
async def geometry(page: Page) -> None:
    """Where the page asks for a point that follows from those it shows."""
    points = await page.js(
        "[...document.querySelectorAll('svg circle')].filter(c => c.getBoundingClientRect().width).map(c => "
        "(r => [(r.left + r.right) / 2, (r.top + r.bottom) / 2])(c.getBoundingClientRect()))"
    )
    if "center" in page.ask:
        x, y = points[0]
    else:
        x, y = ((points[0][at] + points[1][at]) / 2 for at in (0, 1))
    await page.act("click_at", x=round(x), y=round(y))
    await page.submit()


@plays("search-engine")
async def search(page: Page) -> None:
    await page.type(nth("#area input", 0), quoted(page.ask)[0])
    await page.click("document.querySelector('#search')")
    place = int(re.search(r"(\d)(st|nd|rd|th)", page.ask.split("click the")[1])[1]) - 1
    for _ in range(place // 3):
        await page.click(leaf(">"))
    await page.click(nth("#page-content a", place % 3))
