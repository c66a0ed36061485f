"""Pages that run by a clock: actions must be done in time."""

from __future__ import annotations

from agentgym.sandboxes.gui.guest.sites import ACTION_S

from .elements import every, first_of
from .page import Page
from .table import plays


@plays("button-delay")
async def two_buttons(page: Page) -> None:
    """Wait as long as the page says between two clicks."""
    (seconds,) = page.match(r"wait (\d+)")
    await page.click(first_of("#subbtn"))
    left = float(seconds) - ACTION_S
    while left >= ACTION_S:
        waited = min(left - ACTION_S, 2.0)
        await page.wait(waited)
        left -= waited + ACTION_S
    await page.click(first_of("#subbtn2"))


@plays("simon-says")
async def repeat(page: Page) -> None:
    """Watch the buttons light up until they have been dark for a while, then press them in that order."""
    for button in await page.js(_WATCH):
        await page.click(first_of(f"#button-{button}"))


_WATCH = """new Promise(done => {
  const seen = [];
  let last = '', dark = performance.now();
  const look = () => {
    const lit = document.querySelector('#area button.push');
    const now = performance.now();
    if (lit && lit.id !== last) seen.push(lit.dataset.button);
    if (lit) dark = now;
    last = lit ? lit.id : '';
    if (now - dark > 1500) done(seen); else setTimeout(look, 10);
  };
  look();
})"""


@plays("stock-market")
async def buy(page: Page) -> None:
    """Buy as soon as the price is below the limit."""
    limit = float(page.match(r"less than \$(\d+\.\d+)")[0])
    while not await page.js(f"parseFloat(document.querySelector('#stock-price').textContent.slice(1)) < {limit}"):
        await page.wait(0)
    await page.click(first_of("#buy"))


@plays("chase-circle")
async def chase(page: Page) -> None:
    """Keep the pointer on a moving circle: clicking where it is moves the pointer there."""
    while page.reward is None:
        await page.click(first_of("#circ"))


@plays("moving-items")
async def catch(page: Page) -> None:
    """Click the circles as they cross the page."""
    while page.reward is None:
        seen = await page.js(
            f"{every('svg circle')}.map(e => e.getBoundingClientRect()).map(r => [(r.left + r.right) / 2, "
            "(r.top + r.bottom) / 2]).filter(([x, y]) => x > 8 && x < 152 && y > 52 && y < 208)"
        )
        if seen:
            await page.act("click_at", x=round(seen[0][0]), y=round(seen[0][1]))
        else:
            await page.wait(0)
