"""More scripted players: mailboxes, posts, trees, boxes to be told apart. Importing this module registers them."""

from __future__ import annotations

import json
import re
from calendar import month_name

from miniwob_page import Page, Stuck
from miniwob_players import leaf, nth, plays, quoted


@plays("email-inbox", "email-inbox-noscroll", "email-inbox-reply", "email-inbox-star-reply", "email-inbox-important",
       "email-inbox-delete", "email-inbox-forward", "email-inbox-nl-turk", "email-inbox-forward-nl",
       "email-inbox-forward-nl-turk")  # fmt: skip
async def mailbox(page: Page) -> None:
    """Open the named sender's letter and do with it what is asked."""
    senders = await page.js("[...document.querySelectorAll('#main .email-sender')].map(e => e.textContent)")
    words = re.findall(r"[A-Z][a-z']+", page.ask)
    place = next((place for place, name in enumerate(senders) if name in words), None)
    if place is None:
        raise Stuck(f"none of {senders} in {page.ask!r}")
    await page.click(nth("#main .email-sender", place))
    await page.act("wait", seconds=0.3)
    ask = page.ask.lower()
    if "trash" in ask or "delete" in ask or "remove" in ask:
        await page.click(nth("#email .trash", 0))
    elif "important" in ask or "star" in ask:
        await page.click(nth("#email .star", 0))
    elif quoted(page.ask) and ("reply" in ask or "respond" in ask):
        await page.click(nth("#email .email-reply", 0))
        await page.type("document.querySelector('#reply-text')", quoted(page.ask)[0])
        await page.click("document.querySelector('#send-reply')")
    else:
        names = [word for word in words[1:] if word not in (senders[place], "Find", "Please", "The", "Email")]
        await page.click(nth("#email .email-forward", 0))
        await page.type("document.querySelector('.forward-sender')", names[-1])
        await page.click("document.querySelector('#send-forward')")


@plays("social-media")
async def one_post(page: Page) -> None:
    user, action = re.search(r'user (.*), click on the "(.*)"', page.ask).groups()
    element = (
        f"[...document.querySelectorAll('.media')].find(m => m.querySelector('.username').textContent === "
        f"{json.dumps(user)}).querySelector('.{action.lower()}')"
    )
    if await page.js(f"!({element})"):
        raise Stuck(f"{action} is in a menu")
    await page.click(element)


@plays("social-media-all", "social-media-some")
async def all_posts(page: Page) -> None:
    action, user = re.search(r'"(.*)" button on (?:all|\d+) posts? by (\S+)', page.ask).groups()
    most = re.search(r"on (\d+) post", page.ask)
    buttons = (
        f"[...document.querySelectorAll('.media')].filter(m => m.querySelector('.username').textContent === "
        f"{json.dumps(user)}).map(m => m.querySelector('.{action.lower()}'))"
    )
    for place in range(min(int(most[1]) if most else 99, await page.js(f"{buttons}.length"))):
        await page.click(f"{buttons}[{place}]")
    await page.submit()


@plays("click-widget")
async def widget(page: Page) -> None:
    await page.click(f"document.querySelector('#area [data-type={json.dumps(quoted(page.ask)[0])}]')")


@plays("click-color")
async def colour(page: Page) -> None:
    name = re.search(r"on the (\w+) colored", page.ask)[1]
    await page.click(
        f"[...document.querySelectorAll('.color')].find(e => (e.dataset.color || '').includes({json.dumps(name)}))"
    )


@plays("grid-coordinate")
async def coordinate(page: Page) -> None:
    await page.click(f"document.getElementById({json.dumps(re.search(r'[(].*[)]', page.ask)[0])})")


@plays("identify-shape")
async def identify(page: Page) -> None:
    found = await page.js(
        "(s => s.querySelector('circle') ? 'circle' : s.querySelector('text') ? "
        "(/\\d/.test(s.querySelector('text').textContent) ? 'number' : 'letter') : "
        "s.querySelector('rect') ? 'rectangle' : 'triangle')(document.querySelector('#area svg'))"
    )
    await page.click(f"document.querySelector('#area-buttons button[data-type={found}]')")


@plays("navigate-tree")
async def tree(page: Page) -> None:
    """Unfold folders until the named one is in sight."""
    name = quoted(page.ask)[0]
    named = f"e => e.textContent === {json.dumps(name)} && e.offsetParent"
    wanted = f"[...document.querySelectorAll('#tree span')].find({named})"
    for _ in range(30):
        if await page.js(f"!!({wanted})"):
            await page.click(wanted)
            return
        await page.click(
            "[...document.querySelectorAll('#tree li.expandable > span.folder')].find(e => e.offsetParent)"
        )
        await page.act("wait", seconds=0.2)


@plays("form-sequence-3")
async def dropdown_then_button(page: Page) -> None:
    await page.select(nth("select", 0), re.search(r"Choose (.*) from the dropdown", page.ask)[1])
    await page.click(f"[...document.querySelectorAll('#buttons button')].find(b => b.textContent === "
                     f"{json.dumps(quoted(page.ask)[0])})")  # fmt: skip


@plays("click-dialog-2")
async def dialog_button(page: Page) -> None:
    name = quoted(page.ask)[0]
    await page.click("document.querySelector('.ui-dialog-titlebar-close')" if name == "x" else leaf(name))


@plays("sign-agreement")
async def sign(page: Page) -> None:
    if found := re.search(r'name "(.*?)" then press "(.*?)"', page.ask):
        for _ in range(12):
            await page.act("scroll", direction="down", element=await page.number("document.querySelector('textarea')"))
        await page.type("document.querySelector('#name')", found[1])
        await page.click(f"document.querySelector('#{found[2].lower()}')")
    else:
        await page.click("document.querySelector('#cancel')")


@plays("click-shades")
async def shades(page: Page) -> None:
    colour = re.search(r"shades of (\w+)", page.ask)[1]
    boxes = f"[...document.querySelectorAll('#area [data-color={colour}]')]"
    for place in range(await page.js(f"{boxes}.length")):
        await page.click(f"{boxes}[{place}]")
    await page.submit()


@plays("ascending-numbers")
async def ascending(page: Page) -> None:
    for number in range(1, await page.js("document.querySelectorAll('svg rect').length") + 1):
        await page.click(
            f"[...document.querySelectorAll('svg text')].find(e => e.textContent === '{number}') || "
            "document.querySelector('svg rect')"
        )


@plays("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def patient_date(page: Page) -> None:
    await page.click("document.querySelector('#datepicker')")
    await page.act("wait", seconds=1.0)
    month, day, _ = map(int, re.search(r"(\d+)/(\d+)/(\d+)", page.ask).groups())
    for _ in range(14):
        now = list(month_name).index(await page.js("document.querySelector('.ui-datepicker-month').textContent"))
        if now == month:
            break
        await page.click(f"document.querySelector('.ui-datepicker-{'prev' if now > month else 'next'}')")
        await page.act("wait", seconds=0.3)
    await page.click(
        f"[...document.querySelectorAll('.ui-datepicker-calendar a')].find(a => a.textContent.trim() === '{day}')"
    )
    await page.act("wait", seconds=1.0)
    await page.submit()


@plays("use-spinner")
async def spin(page: Page) -> None:
    wanted = int(re.search(r"-?\d+", page.ask)[0])
    for _ in range(abs(wanted)):
        await page.click(f"document.querySelector('.ui-spinner-{'up' if wanted > 0 else 'down'}')")
    await page.submit()


@plays("highlight-text")
async def highlight(page: Page) -> None:
    left, top, right, bottom = await page.box("document.querySelector('#highlight, #area > div, #area span')")
    await page.act("drag_at", x=round(left + 1), y=round(top + 3), to_x=round(right - 1), to_y=round(bottom - 2))
    await page.submit()


@plays("use-autocomplete", "use-autocomplete-nodelay")
async def autocomplete(page: Page) -> None:
    words = quoted(page.ask)
    await page.type(nth("#area input", 0), words[0])
    await page.act("wait", seconds=1.2)
    end = words[1] if len(words) > 1 else ""
    await page.click(
        f"[...document.querySelectorAll('.ui-menu-item')].find(e => e.offsetParent && "
        f"e.textContent.startsWith({json.dumps(words[0])}) && e.textContent.endsWith({json.dumps(end)}))"
    )
    await page.submit()


@plays("multi-layouts", "multi-orderings")
async def movies(page: Page) -> None:
    genre, director, year = re.search(r"Search for (.*) movies directed by (.*) from year (.*)\.", page.ask).groups()
    for label, text in (("genre", genre), ("director", director), ("year", year)):
        await page.type(
            f"[...document.querySelectorAll('#area input')].find(i => i.offsetParent && "
            f"(i.name + i.id + i.placeholder + i.closest('div,p,label,tr').textContent + "
            f"(i.parentElement.previousElementSibling || {{}}).textContent).toLowerCase().includes('{label}'))",
            text,
        )
    await page.submit()


@plays("highlight-text-2")
async def highlight_nth(page: Page) -> None:
    found = re.search(r"(\d)(st|nd|rd) paragraph", page.ask)
    element = f"[...document.querySelectorAll('#area p, #area .text, #area div[id^=text]')][{int(found[1]) - 1}]"
    left, top, right, bottom = await page.box(element)
    await page.act("drag_at", x=round(left + 1), y=round(top + 3), to_x=round(right - 1), to_y=round(bottom - 2))
    await page.submit()


@plays("resize-textarea")
async def resize(page: Page) -> None:
    _, _, right, bottom = await page.box("document.querySelector('textarea')")
    by = -15 if "smaller" in page.ask else 15
    across = "width" in page.ask
    await page.act(
        "drag_at", x=round(right - 4), y=round(bottom - 4), to_x=round(right - 4) + (by if across else 0),
        to_y=round(bottom - 4) + (0 if across else by),
    )  # fmt: skip
    await page.submit()


@plays("scroll-text-2")
async def scroll(page: Page) -> None:
    direction = "down" if "bottom" in page.ask else "up"
    for _ in range(30):
        await page.act("scroll", direction=direction, element=await page.number("document.querySelector('textarea')"))
    await page.submit()


@plays("generate-number")
async def generate(page: Page) -> None:
    tests = {
        "even": lambda n: n % 2 == 0,
        "odd": lambda n: n % 2,
        "less": lambda n: n < limit,
        "greater": lambda n: n > limit,
    }
    found = re.search(r"(less|greater) than (\d+)", page.ask)
    limit = int(found[2]) if found else 0
    key = found[1] if found else ("even" if "even" in page.ask else "odd")
    for _ in range(60):
        await page.click("document.querySelector('#generate')")
        shown = await page.js("document.querySelector('#display-number').textContent")
        if shown.strip() and tests[key](int(shown)):
            break
    await page.submit()


@plays("drag-box")
async def drag_box(page: Page) -> None:
    await page.drag(
        "document.querySelector('#smallbox, .ui-draggable')", "document.querySelector('#largebox, #bigbox')"
    )
    await page.submit()
