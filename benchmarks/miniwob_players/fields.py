"""Pages with a field for a text that is given, copied, found or computed."""

from __future__ import annotations

import json
import operator
import re

from .elements import beside, first_of, nth
from .page import Page
from .table import plays

FIELD, WORDS = nth("#area input", 0), "document.querySelector('#area').innerText.replace(/\\s+/g, ' ')"
SIGNS = {"+": operator.add, "-": operator.sub, "x": operator.mul, "*": operator.mul}


@plays("enter-text", "enter-text-dynamic")
async def enter_text(page: Page) -> None:
    await page.type(FIELD, page.quoted_text())
    await page.submit()


@plays("enter-text-2")
async def enter_case(page: Page) -> None:
    text = page.quoted_text()
    await page.type(FIELD, text.upper() if "upper" in page.ask else text.lower())
    await page.submit()


@plays("enter-password")
async def enter_password(page: Page) -> None:
    for index in (0, 1):
        await page.type(nth("input[type=password]", index), page.quoted_text())
    await page.submit()


@plays("login-user", "login-user-popup")
async def login(page: Page) -> None:
    """Log in, and close a window that opens meanwhile."""
    for selector, text in (("input[type=text]", page.quoted_text(0)), ("input[type=password]", page.quoted_text(1))):
        await _send_away(page)
        await page.type(nth(selector, 0), text)
    await _send_away(page)
    await page.submit()


async def _send_away(page: Page) -> None:
    if await page.shows(first_of("#popup-cancel")):
        await page.click(first_of("#popup-cancel"))


@plays("copy-paste")
async def copy(page: Page) -> None:
    await page.type(nth("input[type=text]", 0), await page.js("document.querySelector('textarea').value"))
    await page.submit()


@plays("copy-paste-2")
async def copy_nth(page: Page) -> None:
    (ordinal,) = page.match(r"(\d)(?:st|nd|rd)")
    text = await page.js(f"document.querySelectorAll('textarea')[{int(ordinal) - 1}].value")
    await page.type(nth("input[type=text]", 0), text)
    await page.submit()


@plays("find-word")
async def find_word(page: Page) -> None:
    (ordinal,) = page.match(r"(\d+)(?:st|nd|rd|th)")
    words = (await page.js("document.querySelector('#area p').textContent")).split()
    await page.type(nth("input[type=text]", 0), words[int(ordinal) - 1].strip(".,"))
    await page.submit()


@plays("scroll-text")
async def last_word(page: Page) -> None:
    words = (await page.js("document.querySelector('textarea').value")).split()
    await page.type(nth("input[type=text]", 0), words[-1].strip("."))
    await page.submit()


@plays("scroll-text-2")
async def scroll(page: Page) -> None:
    direction = "down" if "bottom" in page.ask else "up"
    for _ in range(30):
        await page.act("scroll", direction=direction, element=await page.number(first_of("textarea")))
    await page.submit()


@plays("sign-agreement")
async def sign(page: Page) -> None:
    """Scroll through the agreement, which enables the fields, then sign."""
    if "press" not in page.ask:
        return await page.click(first_of("#cancel"))
    name, button = page.match(r'name "(.*?)" then press "(.*?)"')
    for _ in range(60):
        if not await page.js("document.querySelector('#name').disabled"):
            break
        await page.act("scroll", direction="down", element=await page.number(first_of("textarea")))
    await page.type(first_of("#name"), name)
    await page.click(first_of(f"#{button.lower()}"))


@plays("read-table")
async def read_table(page: Page) -> None:
    (label,) = page.match(r"value of (.*) into")
    await page.type(nth("input[type=text]", 0), (await page.js(beside(label))).strip())
    await page.submit()


@plays("read-table-2")
async def read_table_twice(page: Page) -> None:
    for index, label in enumerate(await page.texts("[...document.querySelectorAll('#area label')]")):
        value = await page.js(beside(label.replace(":", "").strip()))
        await page.type(nth("input[type=text]", index), value.strip())
    await page.submit()


@plays("simple-arithmetic")
async def arithmetic(page: Page) -> None:
    left, sign, right = re.findall(r"(-?\d+) ?([-+x*]) ?(-?\d+)", await page.js(WORDS))[0]
    await page.type(FIELD, str(SIGNS[sign](int(left), int(right))))
    await page.submit()


@plays("simple-algebra")
async def algebra(page: Page) -> None:
    left, sign, right, total = re.findall(r"(-?\d+|x) ?([-+]) ?(-?\d+|x) ?= ?(-?\d+)", await page.js(WORDS))[0]
    value = int(total)
    if left == "x":
        answer = value - int(right) if sign == "+" else value + int(right)
    else:
        answer = value - int(left) if sign == "+" else int(left) - value
    await page.type(FIELD, str(answer))
    await page.submit()


@plays("visual-addition")
async def count_blocks(page: Page) -> None:
    count = await page.js("document.querySelectorAll('#area .addition-block, #area .block').length")
    await page.type(FIELD, str(count))
    await page.submit()


@plays("text-transform")
async def transform(page: Page) -> None:
    await page.type(FIELD, await page.js("document.querySelector('#captcha').textContent.trim()"))
    await page.submit()


@plays("guess-number")
async def guess(page: Page) -> None:
    for number in range(10):
        await page.type(FIELD, str(number))
        await page.submit()
        if page.reward is not None:
            return


@plays("multi-layouts", "multi-orderings")
async def movies(page: Page) -> None:
    """Fill in the fields. A label is before or after its field."""
    genre, director, year = page.match(r"Search for (.*) movies directed by (.*) from year (.*)\.")
    for label, text in (("genre", genre), ("director", director), ("year|date", year)):
        await page.type(
            "[...document.querySelectorAll('#area input')].find(i => "
            f"/{label}/i.test(i.closest('p, tr, .row, .field, .ui-entry').textContent))",
            text,
        )
    await page.submit()


@plays("terminal")
async def terminal(page: Page) -> None:
    """List the files, and remove one with the extension. The name must contain the extension only once."""
    ending = page.match(r"extension \.(\S+)")[0] if "no file extension" not in page.ask else ""
    line = first_of("#terminal-target")
    await page.click(first_of("#terminal"))
    await page.type(line, "ls")
    await page.press("Enter")
    files = (await page.js("[...document.querySelectorAll('.terminal-output')].at(-1).textContent")).split()
    fits = [name for name in files if (name.find(ending) + len(ending) == len(name) if ending else "." not in name)]
    await page.type(line, f"rm {fits[0]}")
    await page.press("Enter")


@plays("text-editor")
async def editor(page: Page) -> None:
    """Mark the words with the mouse, and press a button of the editor."""
    words, kind = _asked_of_the_editor(page)
    if words:
        left, top, right, bottom = await page.js(_PLACE_OF_WORDS % json.dumps(words))
        await page.move((left, (top + bottom) / 2), (right, (top + bottom) / 2))
    else:
        await page.click(first_of(".ql-editor"))
        await page.press("Control+a")
    await page.wait(0.2)  # the editor takes note of what is marked a moment later
    if kind in ("bold", "italics", "underlined"):
        await page.click(first_of({"bold": ".ql-bold", "italics": ".ql-italic", "underlined": ".ql-underline"}[kind]))
    else:
        await page.click(first_of(".ql-color .ql-picker-label"))
        shade = await page.js(f"COLOR_MAP[{json.dumps(kind)}][0]")
        await page.click(nth(f".ql-color .ql-picker-item[data-value='{shade}']", 0))
    await page.submit()


def _asked_of_the_editor(page: Page) -> tuple[str, str]:
    """Return the words to style, '' for all, and the style or colour."""
    kind = page.match(r"(?:style|color) (\w+)")[0]
    return ("" if "everything" in page.ask else page.match(r"give the text (.*) the (?:style|color)")[0]), kind


_PLACE_OF_WORDS = """(words => {
  const node = document.querySelector('.ql-editor p').firstChild, range = document.createRange();
  const begins = new RegExp('(^|\\\\s)' + words.replace(/\\./g, '\\\\.') + '(?=\\\\s|$)').exec(node.data);
  const start = begins.index + begins[1].length;
  range.setStart(node, start);
  range.setEnd(node, start + words.length);
  const box = range.getClientRects()[0];
  return [box.left, box.top, box.right, box.bottom];
})(%s)"""
