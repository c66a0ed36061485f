"""`agentgym show RUN` in a terminal: the list of episodes, one episode, and the difference of two."""

from __future__ import annotations

import asyncio
import threading

import pytest

pytest.importorskip("textual")

from textual.widgets import Static

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.cli.browse import EpisodeBrowser, EpisodeScreen, TextScreen, diff
from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.testing import Counter, TargetReached


def play(path, targets, label):
    """Play tasks that want these counts with an agent that counts to 2."""
    agent = ScriptedPolicy(
        [Message("assistant", "", (Call("add", {"amount": 2}),)), Message("assistant", "", (Call("submit"),))]
    )
    ledger = Ledger(path)
    config = RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=1)
    tasks = [Task(f"count-{n}", "acme/counter-v1", f"Count to {n}.", truth=n) for n in targets]
    asyncio.run(EpisodeManager(agent, config, ledger=ledger, label=label).collect(tasks))
    ledger.close()


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    play(path, (1, 2, 3), "first")
    return path


def browse(path, *steps):
    """Open the browser, press keys and look at it: `steps` are pairs of keys, with spaces between, and a check."""

    async def run():
        app = EpisodeBrowser(LedgerReader(path))
        async with app.run_test(size=(80, 24)) as pilot:
            for keys, check in steps:
                await pilot.press(*(key for word in keys.split() for key in (word if "-" in word else [word])))
                await pilot.pause()
                check(app)
        app.reader.close()

    asyncio.run(run())


def listed(*names):
    def look(app):
        assert [row["id"] for row in app.rows] == list(names)

    return look


def at(name):
    def look(app):
        assert app.current == name

    return look


def reads(*texts, screen=TextScreen):
    def look(app):
        assert isinstance(app.screen, screen)
        for text in texts:
            assert text in app.screen.text.plain

    return look


ALL = ("first/count-1#0", "first/count-2#0", "first/count-3#0")


def test_keys_move_filter_and_search_the_list(ledger):
    browse(ledger, ("", listed(*ALL)), ("j", at(ALL[1])), ("j j", at(ALL[2])), ("k", at(ALL[1])))
    browse(ledger, ("f", listed(ALL[1])), ("f", listed(ALL[0], ALL[2])), ("f", listed(*ALL)))
    browse(ledger, ("slash t-3 enter", listed(ALL[2])), ("slash enter", listed(*ALL)), ("", at(ALL[2])))


def test_an_episode_is_read_and_the_next_one_and_a_text_found_in_it(ledger):
    def at_the_line(app):
        assert app.screen._line == next(i for i, t in enumerate(app.screen.text.plain.splitlines()) if "submit" in t)

    opened = ("enter", reads("Count to 1.", screen=EpisodeScreen))
    browse(ledger, opened, ("j", reads("Count to 2.")), ("slash s u b m enter", at_the_line), ("escape", at(ALL[1])))


def test_the_difference_of_two_episodes_is_shown(ledger):
    def asks_for_a_mark(app):
        assert len(app.screen_stack) == 1

    difference = reads(f"--- {ALL[0]}", f"+++ {ALL[1]}", "Count to 1.", "Count to 2.", "-answered: success +0")
    browse(ledger, ("d", asks_for_a_mark), ("m j d", difference), ("escape", at(ALL[1])))
    assert diff(("a\nsame", "b\nsame"), ("x", "y")).plain == "The two episodes are the same."


def test_what_another_process_writes_appears_and_the_cursor_stays(ledger):
    def written(app):
        app.action_move(2)
        writer = threading.Thread(target=play, args=(ledger, (5,), "second"))
        writer.start()
        writer.join()
        app._look_again()

    browse(ledger, ("", written), ("", listed(*ALL, "second/count-5#0")), ("", at(ALL[2])))


def test_a_text_of_the_agent_is_no_markup_and_no_control_sequence(tmp_path):
    path = tmp_path / "ledger.sqlite"
    agent = ScriptedPolicy([Message("assistant", "[red]bold[/] \x1b[2J gone [link=x]")])
    ledger = Ledger(path)
    config = RolloutConfig(environment=Counter, reward=TargetReached())
    task = Task("odd-[b]", "acme/counter-v1", "Count.", truth=1)
    asyncio.run(EpisodeManager(agent, config, ledger=ledger, label="x").collect([task]))
    ledger.close()

    def about(app):
        assert "1 of 1 episodes" in str(app.screen.query_one("#about", Static).render())

    def is_plain(app):
        assert "\x1b" not in app.screen.text.plain

    browse(path, ("", about), ("enter", reads("[red]bold[/] ", "[link=x]")), ("", is_plain))
