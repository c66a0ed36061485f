"""Pages that hide the requested element: tabs, folds, menus, trees, wheels."""

from __future__ import annotations

import json

from .elements import first_of, labelled, leaf, nth
from .page import Page, Stuck
from .table import plays


@plays("click-tab")
async def tab(page: Page) -> None:
    (number,) = page.match(r"#(\d)")
    await page.click(nth("#area ul li a", int(number) - 1))


@plays("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def link_below_a_tab(page: Page) -> None:
    await _open_until(page, "#area ul li a", labelled("span.alink", page.quoted_text()), 0.0)


@plays("click-collapsible", "click-collapsible-nodelay")
async def fold(page: Page) -> None:
    await page.click(nth("#area h3", 0))
    await page.wait(1.0)
    await page.submit()


@plays("click-collapsible-2", "click-collapsible-2-nodelay")
async def link_below_a_fold(page: Page) -> None:
    await _open_until(page, "#area h3", labelled("span.alink", page.quoted_text()), 0.8)


async def _open_until(page: Page, openers: str, target: str, wait_s: float) -> None:
    """Click each opener until the target is visible, and click the target. Raises: Stuck."""
    for index in range(await page.js(f"document.querySelectorAll({json.dumps(openers)}).length")):
        await page.click(nth(openers, index))
        if wait_s:
            await page.wait(wait_s)
        if await page.js(f"!!({target})"):
            return await page.click(target)
    raise Stuck(f"no {openers} shows {page.quoted_text()!r}")


@plays("click-menu")
async def menu(page: Page) -> None:
    """Hover over the names of the path, and click the last."""
    (path,) = page.match(r"Select (.*)")
    *above, last = path.split(">")
    for name in above:
        await page.hover(labelled("#menu li > div", name))
        await page.wait(0.6)
    await page.click(labelled("#menu li > div", last))


@plays("click-menu-2")
async def menu_behind_a_button(page: Page) -> None:
    """The item is named, or shown by its icon."""
    icon = await page.js("(e => e && e.classList[1])(document.querySelector('#query .ui-icon'))")
    target = f"{first_of(f'#menu .{icon}')}.parentElement" if icon else labelled("#menu li > div", page.quoted_text(1))
    await page.click(first_of("#open-menu"))
    await page.wait(0.3)
    if not await page.shows(target):
        await page.hover(labelled("#menu li > div", "Playback"))
        await page.wait(0.6)
    await page.click(target)


@plays("navigate-tree")
async def tree(page: Page) -> None:
    """Unfold folders until the named one is in view."""
    named = f"e => e.textContent === {json.dumps(page.quoted_text())} && e.offsetParent"
    target = f"[...document.querySelectorAll('#tree span')].find({named})"
    for _ in range(30):
        if await page.js(f"!!({target})"):
            return await page.click(target)
        await page.click(
            "[...document.querySelectorAll('#tree li.expandable > span.folder')].find(e => e.offsetParent)"
        )
        await page.wait(0.2)
    raise Stuck(f"no folder shows {page.quoted_text()!r}")


@plays("click-pie", "click-pie-nodelay")
async def wheel(page: Page) -> None:
    """The wheel unfolds from its middle. Once it stands still, the slice that is selected first is moved in the page
    by every event of the pointer, so that it misses the click: it is clicked while the wheel unfolds, or once more."""
    for _ in range(6):
        await page.click(labelled("#divWheel text", "+"))
        await page.wait(0.4)
        await page.click(labelled("#divWheel text", page.quoted_text()))
        await page.wait(1.0)  # it turns before it tells
        if page.reward is not None:
            return
        await page.click(labelled("#divWheel text", "-"))
        await page.wait(1.0)


@plays("phone-book")
async def phone_book(page: Page) -> None:
    """Turn the pages until the person's page appears."""
    name, kind = page.match(r"Find (.*) in the contact book and click on their (\w+)")
    for _ in range(5):
        if await page.js("document.querySelector('#contact .name').textContent") == name:
            return await page.click(first_of(f"#contact a.{kind}"))
        await page.click(leaf(">"))
    raise Stuck(f"{name} is not in the book")


@plays("search-engine")
async def search(page: Page) -> None:
    """Search, and open the requested result. A page shows three results."""
    words, ordinal = page.match(r'"(.*?)".*click the (\d)(?:st|nd|rd|th)')
    await page.type(nth("#area input", 0), words)
    await page.click(first_of("#search"))
    for _ in range((int(ordinal) - 1) // 3):
        await page.click(leaf(">"))
    await page.click(nth("#page-content a", (int(ordinal) - 1) % 3))


@plays("social-media")
async def one_post(page: Page) -> None:
    """Press a button of a post. Some buttons are in the post's menu."""
    user, action = page.match(r'user (.*), click on the "(.*)"')
    post = (
        "[...document.querySelectorAll('.media')].find(m => m.querySelector('.username').textContent === "
        f"{json.dumps(user)})"
    )
    if action in ("Reply", "Retweet", "Like"):
        return await page.click(f"{post}.querySelector('.{action.lower()}')")
    await page.click(f"{post}.querySelector('.more')")
    await page.click(f"[...{post}.querySelectorAll('li')].find(e => e.textContent.startsWith({json.dumps(action)}))")


@plays("social-media-all", "social-media-some")
async def all_posts(page: Page) -> None:
    action, most, user = page.match(r'"(.*)" button on (all|\d+) posts? by (\S+)')
    buttons = (
        f"[...document.querySelectorAll('.media')].filter(m => m.querySelector('.username').textContent === "
        f"{json.dumps(user)}).map(m => m.querySelector('.{action.lower()}'))"
    )
    count = await page.js(f"{buttons}.length")
    for index in range(count if most == "all" else int(most)):
        await page.click(f"{buttons}[{index}]")
    await page.submit()
