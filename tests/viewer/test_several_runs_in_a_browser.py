"""What the viewer shows of several evaluations and runs, of what an agent was told and wrote, and on a phone."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from pathlib import Path
from urllib.parse import quote

import pytest
from looking import opened, served
from watched_run import Billboard, Player, measured, task_set

from agentgym import Budgets, RolloutConfig
from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder
from agentgym.testing import TargetReached


async def evaluate_three_agents(path: Path) -> None:
    rng, folder = random.Random(5), RunFolder(path).create()
    config = RolloutConfig(group_size=2, environment=Billboard, reward=TargetReached(), budgets=Budgets(max_turns=12))
    ledger = Ledger(folder.ledger)
    for label, skill in (("untrained", 0.5), ("imitated", 0.7), ("reinforced", 0.95)):
        await measured(folder, ledger, task_set(), label, Player(skill, rng), config)
    ledger.close()


@pytest.fixture(scope="module")
def several(runs, tmp_path_factory) -> Path:
    """Two trained runs, and one folder with three evaluations of the same tasks."""
    folder = tmp_path_factory.mktemp("several")
    for name in ("first", "second"):
        shutil.copytree(runs / "watched", folder / name)
    recording = threading.Thread(target=lambda: asyncio.run(evaluate_three_agents(folder / "three")))
    recording.start()  # playwright's own loop may run in this thread
    recording.join()
    return folder


@pytest.fixture(scope="module")
def several_address(several):
    with served([several]) as address:
        yield address


def test_every_evaluation_of_a_folder_is_shown(page, several_address):
    page.goto(several_address)
    row = page.locator("table.runs tbody tr", has_text="three")
    assert row.inner_text().count("\N{RIGHTWARDS ARROW}") == 2
    page.goto(f"{several_address}/#/run/three")
    for region in ("By kind of task", "What goes wrong", "Evaluations"):
        text = page.get_by_role("region", name=region).inner_text()
        assert [label in text for label in ("untrained", "imitated", "reinforced")] == [True] * 3, region


def test_runs_and_task_sets_are_one_table_of_their_newest_results(page, several_address):
    page.goto(several_address)
    page.get_by_text("Results of 3 runs on 1 task set").click()
    rows = page.locator(".results tbody tr")
    assert rows.count() == 3
    assert [" to " in text and "%" in text for text in rows.all_inner_texts()] == [True] * 3
    page.reload()
    page.locator(".results[open] tbody tr b").first.wait_for()
    page.get_by_label("Name, tasks, agent or note contains").fill("three")
    page.locator(".results").wait_for(state="hidden")


def test_runs_are_filtered_sorted_and_their_curves_drawn_in_one_chart(page, several_address):
    page.goto(several_address)
    page.wait_for_selector("table.runs a")
    page.get_by_role("button", name="Run", exact=True).click()
    assert page.locator("table.runs a").all_inner_texts() == ["three", "watched", "watched"]
    page.get_by_label("Curves of first").check()
    page.get_by_label("Curves of second").check()
    page.wait_for_selector(".overlay .legend li:nth-child(2)")
    assert page.locator(".overlay .legend li").all_inner_texts() == ["first", "second"]
    page.get_by_label("Metric").select_option("train/entropy")
    page.locator(".overlay figcaption b", has_text="train/entropy").wait_for()
    page.get_by_label("Name, tasks, agent or note contains").fill("three")
    assert page.locator("table.runs a").all_inner_texts() == ["three"]
    page.reload()  # the address keeps what was chosen
    page.wait_for_selector(".overlay .legend li:nth-child(2)")
    assert page.locator("table.runs a").all_inner_texts() == ["three"]
    assert page.locator(".overlay figcaption b").inner_text() == "train/entropy"


def test_an_episode_shows_the_truth_above_its_turns_and_the_text_of_an_unreadable_call(page, several, several_address):
    reader = LedgerReader(several / "first" / "ledger.sqlite")
    name = reader.select({"failure": "malformed"}, limit=1)[0]["id"]
    reader.close()
    page.goto(f"{several_address}/#/run/first/episode/{quote(name, safe='')}")
    page.wait_for_selector(".written")
    assert page.locator(".written").first.inner_text().startswith("as the agent wrote it")
    assert "<|call|>" in page.locator(".written").first.inner_text()
    truth = page.locator("details.truth")
    assert truth.get_attribute("open") is not None
    assert truth.bounding_box()["y"] < page.locator(".turn").first.bounding_box()["y"]


def test_on_a_phone_nothing_in_the_bar_overlaps_and_success_is_on_the_screen(chromium, several_address):
    with opened(chromium) as page:
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto(several_address)
        page.wait_for_selector("table.runs a")
        held_out = page.locator("table.runs tbody tr td.num b").first.bounding_box()
        assert held_out["x"] + held_out["width"] <= 390
        page.goto(f"{several_address}/#/run/first/episodes")
        page.wait_for_selector("table.episodes .badge")
        badge = page.locator("table.episodes .badge").first.bounding_box()
        assert badge["x"] + badge["width"] <= 390
        trail, right = (page.locator(f".bar > {part}").bounding_box() for part in (".trail", ".right"))
        assert trail["x"] + trail["width"] <= right["x"]
        assert right["x"] + right["width"] <= 390
