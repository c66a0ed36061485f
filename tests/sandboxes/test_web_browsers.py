"""The browsers of `agentgym/web-v1`: who shares them, what happens when they crash, and when they end."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from web_pages import Visit

import agentgym
from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import SandboxDied
from agentgym.registry import load_task_set
from agentgym.sandboxes.gui.browsers import browsers_of

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
SHOP = Task("s", "agentgym/web-v1", "Buy.", parameters={"site": "shop", "data": "web/shop", "seed": 0})
MAIL = Task("m", "agentgym/web-v1", "Write.", parameters={"site": "mail", "data": "web/mail", "seed": 0})


def crashing(crashes):
    """A shop whose page really crashes during a click, as often as said."""

    class Crashing(type(agentgym.make("agentgym/web-v1"))):
        """Not isolated: as the environment it is made from."""

        async def _ask(self, request):
            if request.get("action") == "click" and crashes and crashes.pop():
                with suppress(SandboxDied):
                    await super()._ask({"do": "crash"})
            return await super()._ask(request)

    environment = Crashing()
    environment.backend = agentgym.make("agentgym/web-v1").backend
    return environment


async def test_a_page_that_the_machine_killed_is_brought_back_to_where_it_was_and_others_live():
    async with await Visit.to(MAIL) as other:
        environment = crashing([True])
        async with Visit(environment, await environment.reset(SHOP, seed=0)) as visit:
            await visit.type('textbox "Search"', "kettle")
            assert (await visit.click('link "Cart"')).ok
            assert "http://shop.test/cart" in visit.page
            assert "crashed" not in visit.page
        assert (await other.click('link "Sent"')).ok


async def test_a_page_that_crashes_again_on_the_same_action_is_the_agents_result():
    """The episode goes on with the page loaded anew, and so does a copy that is restored."""
    environment = crashing([True, True])
    async with Visit(environment, await environment.reset(SHOP, seed=0)) as visit:
        await visit.type('textbox "Search"', "kettle")
        assert (await visit.click('link "Cart"')).ok
        assert visit.page.startswith("The page crashed on this action, and was loaded anew.\nPage 'Products")
        checkpoint = await environment.checkpoint()
        assert (await visit.click('link "Cart"')).ok
        assert "http://shop.test/cart" in visit.page
        twin = crashing([True, True])
        async with Visit(twin, await twin.reset(SHOP, seed=0)):
            await twin.restore(SHOP, checkpoint, seed=0)
            assert await twin.state_key() == checkpoint.data["key"]


async def test_an_episode_whose_page_crashes_is_retried_and_nothing_is_lost():
    task_set = load_task_set("web/apps-v1")
    task = next(task for task in task_set["train"] if "buy" in task.tags)
    crashes_left = [1]

    class Unlucky(type(agentgym.make("agentgym/web-v1"))):
        """Its page crashes once, in the middle. Not isolated: as the environment it is made from."""

        async def _act(self, action, *arguments):
            if len(self._actions) == 3 and crashes_left:
                crashes_left.clear()
                await self._ask({"do": "crash"})
            return await super()._act(action, *arguments)

    def make():
        environment = Unlucky()
        environment.backend = agentgym.make("agentgym/web-v1").backend
        return environment

    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), RolloutConfig(environment=make))
    [episode] = await manager.collect([task])
    assert crashes_left == []
    assert episode.error is None
    assert episode.success == 1.0


async def test_a_killed_browser_is_replaced_and_its_episodes_are_failures_of_the_sandbox():
    async with await Visit.to(SHOP) as visit:
        browser = visit.environment._browser
        reply = await browser._control.request({})
        await browser.sandbox.exec(["kill", "-9", str(reply["browser"])])
        with pytest.raises(SandboxDied):
            await visit.click('link "Cart"')
    async with await Visit.to(SHOP) as next_visit:
        assert next_visit.environment._browser is not browser
        assert (await next_visit.click('link "Cart"')).ok


async def test_episodes_share_a_browser_and_not_a_state():
    async with await Visit.to(MAIL) as first, await Visit.to(MAIL) as second:
        assert first.environment._browser is second.environment._browser
        await first.click('link "Write"')
        await first.type('textbox "To"', "a@b.test")
        await first.click('button "Send"')
        await second.click('link "Sent"')
        assert "Nothing was sent." in second.page


async def test_a_restored_checkpoint_is_where_the_original_is():
    async with await Visit.to(MAIL) as visit:
        await visit.click('link "Write"')
        await visit.type('textbox "Subject"', "half a letter")
        checkpoint = await visit.environment.checkpoint()
        twin = agentgym.make("agentgym/web-v1")
        try:
            await twin.restore(MAIL, checkpoint, seed=0)
            assert await twin.state_key() == await visit.environment.state_key()
        finally:
            await twin.close()


async def test_a_call_that_is_cancelled_does_not_break_the_next():
    async with await Visit.to(SHOP) as visit:
        slow = asyncio.create_task(visit.call("wait", seconds=1.0))
        await asyncio.sleep(0.1)
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await visit.click('link "Cart"')).ok


async def test_a_browser_that_nobody_uses_for_a_while_is_closed(monkeypatch):
    monkeypatch.setattr("agentgym.sandboxes.gui.browsers.LINGER_S", 0.05)
    visit = await Visit.to(SHOP)
    browsers, browser = browsers_of(visit.environment.backend), visit.environment._browser
    await visit.environment.close()
    for _ in range(100):
        if browser not in browsers._open:
            break
        await asyncio.sleep(0.1)
    assert browser not in browsers._open
