"""A sample of MiniWoB++ in real Chromium; `make gui-full` looks at every task."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path

import pytest
from by_day import some_by_day
from web_pages import Visit

from agentgym import Call, Task, make
from agentgym.registry import load_reward
from agentgym.sandboxes.gui.judge import TASK_OVER
from agentgym.sandboxes.gui.parameters import miniwob_folder

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
NEEDED = (miniwob_folder,)


@pytest.fixture
def players(monkeypatch):
    """The package of players, which lies beside the benchmark that plays them all."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    yield importlib.import_module("miniwob_players")
    for name in [name for name in sys.modules if name.split(".")[0] in ("miniwob_players", "gui_full")]:
        del sys.modules[name]


def task(name, seed=1):
    return Task(
        name,
        "agentgym/web-v1",
        "Do what the page asks.",
        parameters={"site": "miniwob", "page": name, "seed": seed},
        truth={"page": True},
    )


def reward_of(result):
    assert result.content.startswith(TASK_OVER), result.content
    return result.content


async def test_a_right_click_pays_one_and_ends_the_episode():
    async with await Visit.to(task("click-test-2")) as visit:
        assert visit.page.startswith("Click button ONE.")
        assert "reward" not in visit.page.casefold()
        result = await visit.click('button "ONE"')
        assert reward_of(result).endswith('{"page_reward": 1.0}')
        assert visit.environment.ended
        assert "over" in (await visit.call("click", element=1)).content


async def test_a_wrong_click_costs_one():
    async with await Visit.to(task("click-test-2")) as visit:
        assert reward_of(await visit.click('button "TWO"')).endswith('{"page_reward": -1.0}')


async def test_what_is_typed_and_chosen_is_paid():
    async with await Visit.to(task("enter-text")) as visit:
        word = visit.page.split('"')[1]
        await visit.type("textbox", word)
        assert reward_of(await visit.click('button "Submit"')).endswith("1.0}")
    async with await Visit.to(task("choose-list")) as visit:
        name = visit.page.partition("\n")[0].removeprefix("Select ").removesuffix(" from the list and click Submit.")
        await visit.call("select", element=visit.number("combobox"), option=name)
        assert reward_of(await visit.click('button "Submit"')).endswith("1.0}")


@pytest.mark.parametrize("name", ["click-checkboxes", "login-user", "use-slider", "email-inbox"])
async def test_a_task_begins_the_same_for_a_seed_and_otherwise_for_another(name):
    environment = make("agentgym/web-v1")
    try:
        pages = [(await environment.reset(task(name, seed), seed=0))[-1].text for seed in (1, 1, 2)]
    finally:
        await environment.close()
    assert pages[0] == pages[1] != pages[2]


async def test_an_answer_before_the_page_paid_earns_nothing():
    async with await Visit.to(task("click-test")) as visit:
        result = await visit.call("answer", text="1.0")
        assert reward_of(result) == TASK_OVER + "{}"


async def test_the_start_button_of_the_page_cannot_begin_another_episode():
    """Once the page has paid, nothing that follows counts."""
    async with await Visit.to(task("click-test-2")) as visit:
        await visit.click('button "TWO"')
        result = await visit.environment.call(Call("click_at", {"x": 80, "y": 100}))
        assert not result.ok
        assert load_reward("web").weights["page_reward"] == 0.0


@pytest.mark.parametrize(
    "name",
    [
        "bisect-angle",
        "book-flight-nodelay",
        "draw-circle",
        "click-shape",
        "drag-items-grid",
        "email-inbox-forward-nl",
        "social-media",
    ],
)
async def test_a_scripted_player_is_paid_in_full(name, players):
    """One of each family; `make gui-full` plays them all, twice. A click may miss a menu that moves late."""
    for _ in range(3):
        environment = make(players.environment_of(name), max_chars=20_000)
        try:
            page = players.Page(environment, await environment.reset(task(name), seed=0))
            await players.PLAYERS[name](page)
        finally:
            await environment.close()
        if page.reward is not None:
            break
    assert page.reward is not None
    assert page.reward >= 0.9


async def test_a_page_that_pays_by_its_clock_goes_on_when_the_agent_acts_and_at_no_other_time():
    """So that neither a slow policy nor a busy host is late for it. An action takes a quarter of a second."""
    async with await Visit.to(task("moving-items")) as visit:
        state = "[Date.now(), ...[...document.querySelectorAll('circle')].map(e => e.getAttribute('cx'))]"
        before = await visit.environment.evaluate(state)
        await asyncio.sleep(0.3)
        assert await visit.environment.evaluate(state) == before
        await visit.call("wait", seconds=1)
        after = await visit.environment.evaluate(state)
        assert after[0] - before[0] == 1250
        assert after[1:] != before[1:]


async def test_a_player_of_such_a_page_is_in_time(players):
    environment = make(players.environment_of("button-delay"), max_chars=20_000)
    try:
        page = players.Page(environment, await environment.reset(task("button-delay"), seed=0))
        await players.PLAYERS["button-delay"](page)
    finally:
        await environment.close()
    assert page.reward == 1.0


async def test_a_request_that_the_page_gives_as_fields_is_asked_in_words():
    async with await Visit.to(task("email-inbox-forward-nl")) as visit:
        assert visit.page.startswith("Send to Neille the email you got from Helena.")


async def test_every_player_is_one_of_a_task_of_miniwob(players):
    folder = miniwob_folder() / "miniwob"
    assert [name for name in players.PLAYERS if not (folder / f"{name}.html").is_file()] == []
    unplayed = {path.stem for path in folder.glob("*.html")} - set(players.PLAYERS)
    assert unplayed == {"hover-shape"}  # it never ends, and pays nothing


@pytest.mark.thorough
async def test_episodes_get_the_same_verdicts_alone_and_all_at_once(players):
    """All at the same time in one browser: pointers, clipboards, dialogs and focus belong to their episode."""
    benchmark = importlib.import_module("gui_full")
    kinds = [
        "copy-paste",
        "click-dialog",
        "enter-text",
        "focus-text",
        "click-tab",
        "click-button",
        "draw-circle",
        "drag-box",
    ]
    names = some_by_day(kinds, 4)
    verdicts = []
    for at_once in 1, len(names):
        gate = asyncio.Semaphore(at_once)
        reports = await asyncio.gather(*(benchmark.look_at(name, 1, gate) for name in names))
        verdicts.append({report.name: (report.problem, report.verdicts) for report in reports})
    assert verdicts[0] == verdicts[1] == dict.fromkeys(names, ("", [True, False]))
