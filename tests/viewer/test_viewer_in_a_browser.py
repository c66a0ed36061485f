"""The page in a real Chromium, over a real run: what one sees, what keys do, and what hostile content cannot."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import watched_run
from looking import opened, served, until

from agentgym.evaluation.report import write_report
from agentgym.storage.reader import LedgerReader
from agentgym.text import visible

SHOWN_ATTACK = visible(watched_run.ATTACK)
EPISODES = "#/run/watched/episodes"


def open_first(page, address, query=""):
    page.goto(f"{address}/{EPISODES}?{query}")
    page.locator("tr.active a").click()
    page.wait_for_selector(".turns > .turn")


def looked_at_the_billboard(runs) -> str:
    """Id of an episode that holds the hostile text and the picture, and was given credit."""
    reader = LedgerReader(runs / "watched" / "ledger.sqlite")
    try:
        for row in reader.select({"phase": "train"}, sort="turns", descending=True, limit=500):
            trajectory = reader.load(row["id"])
            if any(call.name == "look" for turn in trajectory.turns for call in turn.calls):
                return row["id"]
    finally:
        reader.close()
    raise AssertionError("nobody looked at the billboard")


def to_episode(page, address, name):
    page.goto(f"{address}/#/run/watched/episode/{name.replace('/', '%2F').replace('#', '%23')}")
    page.wait_for_selector(".turns > .turn")


def test_from_the_list_of_runs_to_an_episode_by_keys_alone(page, address):
    page.goto(address)
    page.wait_for_selector("table.runs a")
    assert "96" in page.locator("table.runs tbody tr").inner_text()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("figure.chart svg[role=img]")
    assert page.locator("figure.chart").count() >= 3
    assert "from" in page.locator("figure.chart svg").first.get_attribute("aria-label")
    luck = page.get_by_role("region", name="Luck and reliability").locator("tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in luck] == [f"{at}, pass{k}k" for at in ("before", "after") for k in "@^"]
    assert all(row.count(" % to ") == 2 for row in luck)  # k = 1 and 2, each with its interval
    page.keyboard.press("e")
    page.wait_for_selector("tr.active")
    page.keyboard.press("j")
    second = page.locator("tr.active a").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(".turns > .turn")
    assert second.partition("#")[0] in page.locator("h1").inner_text()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") in ("Turn 1", "Turn 2")
    page.keyboard.press("Escape")
    page.wait_for_selector("tr.active")
    page.keyboard.press("?")
    assert "search" in page.locator("dialog[open]").inner_text()


def test_a_training_that_plays_ahead_shows_how_playing_and_training_keep_up(page, address):
    page.goto(f"{address}/#/run/watched")
    figures = page.get_by_role("region", name="Playing and training")
    figures.wait_for()
    figures_by_name = dict(
        zip(figures.locator("dt").all_inner_texts(), figures.locator("dd").all_inner_texts(), strict=True)
    )
    assert figures_by_name == {
        "Nodes": "3",
        "Groups in flight": "7",
        "Groups queued": "4",
        "Age of tokens, mean": "1 steps",
        "Age of tokens, oldest": "2 steps",
        "Turns masked as too old": "0 %",
        "Publish lag of weights": "1 ms",
        "Episodes wait for tools": "25 %",
    }
    titles = page.get_by_role("region", name="Curves").locator("figcaption b").all_inner_texts()
    assert {"Age of tokens", "Groups ahead"} <= set(titles)


def test_filters_narrow_the_list_and_stay_in_the_address(page, address):
    page.goto(f"{address}/{EPISODES}")
    page.wait_for_selector("tr.active")
    page.get_by_role("button", name=re.compile("not solved")).click()
    until(page, "document.querySelector('.told')?.innerText.startsWith('13 of 96')")
    assert set(page.locator("tbody .badge").all_inner_texts()) == {"✗ not solved"}
    page.get_by_label("What went wrong").select_option("malformed")
    until(page, "!document.querySelector('.told')?.innerText.startsWith('13 of')")
    page.get_by_label("What went wrong").select_option("wrong_answer")
    until(page, "[...document.querySelectorAll('td.wrong')].every(td => td.innerText.includes('wrong answer'))")
    page.get_by_label("Tag of the task").select_option("odd")
    until(page, "location.hash.includes('tag=odd')")
    page.get_by_label("Tag of the task").select_option("")
    page.get_by_role("searchbox").fill("train-00000")
    until(page, "[...document.querySelectorAll('td.task')].every(td => td.innerText.includes('train-00000'))")
    until(page, "location.hash.includes('text=train-00000')")
    words = page.locator(".told").inner_text()
    page.reload()
    page.wait_for_selector("tr.active")
    assert page.locator(".told").inner_text() == words
    page.get_by_role("searchbox").fill("nothing is called so")
    page.get_by_text("No episode is like this.").wait_for()


def test_credit_is_a_colour_and_a_number_beside_every_turn(page, address, runs):
    name = looked_at_the_billboard(runs)
    to_episode(page, address, name)
    numbers = [
        float(words.removeprefix("credit ").replace("\u2212", "-"))
        for words in page.locator(".turns .credit").all_inner_texts()
    ]
    line = next(line for line in (runs / "watched" / "credit.jsonl").read_text().splitlines() if f'"{name}"' in line)
    given = [float(v) for v in re.search(r"\[(.*)\]", line)[1].split(",")]
    assert numbers == pytest.approx(given, abs=0.006)
    colour = "getComputedStyle(document.querySelectorAll('.turn-list .heat')[%d]).backgroundColor"
    largest = max(range(len(given)), key=lambda i: abs(given[i]))
    assert page.evaluate(colour % largest) != page.evaluate("getComputedStyle(document.body).backgroundColor")
    kinds = ["plus" if v > 0 else "minus" if v < 0 else "zero" for v in given]
    assert [kind for kind in kinds if kind] == [
        next(k for k in ("plus", "minus", "zero") if k in (cell.get_attribute("class") or "").split())
        for cell in page.locator(".turn-list .heat").all()
    ]
    assert page.locator(".group li").count() == 4  # the whole group with its own strips
    assert page.locator(".group .strip .heat").count() >= 4


def test_what_tools_and_tasks_wrote_is_text_and_runs_nothing(page, address, runs):
    to_episode(page, address, looked_at_the_billboard(runs))
    for summary in page.locator("summary").all():
        summary.click()
    assert SHOWN_ATTACK in page.locator(".result pre").all_inner_texts()
    assert "<script>window.owned" in page.locator(".end").inner_text()  # the task's own parameters
    page.keyboard.press("t")
    page.wait_for_selector(".token")
    page.goto(f"{address}/#/run/watched/episodes?text={'<img src=x onerror=window.owned=5>'}&task=<b>")
    page.get_by_text("No episode is like this.").wait_for()
    page.wait_for_timeout(200)
    assert page.evaluate("window.owned") is None
    assert (
        page.evaluate(
            "document.querySelectorAll('main script, main svg:not([role]), main b b, a[href^=javascript]').length"
        )
        == 0
    )


def test_the_picture_that_a_tool_showed_is_seen(page, address, runs):
    to_episode(page, address, looked_at_the_billboard(runs))
    picture = page.locator(".picture img").first
    picture.scroll_into_view_if_needed()
    until(page, "document.querySelector('.picture img')?.naturalWidth === 24")


def test_the_token_view_tells_the_mask_and_the_probability_of_each_token(page, address, runs):
    name = looked_at_the_billboard(runs)
    to_episode(page, address, name)
    page.get_by_role("tab", name="Tokens").click()
    page.wait_for_selector(".token")
    reader = LedgerReader(runs / "watched" / "ledger.sqlite")
    arrays = reader.load(name).arrays()
    reader.close()
    assert page.locator(".tokens .token").count() == len(arrays.ids)
    assert page.locator(".stream.own .token").count() == int(arrays.loss_mask.sum())
    assert page.locator("section.span.prompt .stream").text_content().startswith("<|prompt|>Count to")
    page.locator(".stream.own .token").first.hover()
    first = int(arrays.loss_mask.argmax())
    readout = page.locator(".token-view .readout").inner_text()
    assert f"id {arrays.ids[first]}" in readout
    assert "in the loss" in readout
    logprob = float(re.search(r"log-probability ([^,]+),", readout)[1].replace("\u2212", "-").replace("\u2013", "0"))
    assert logprob == pytest.approx(arrays.logprobs[first], rel=0.01, abs=1e-3)
    page.locator(".tokens").focus()
    page.keyboard.press("ArrowRight")
    assert f"id {arrays.ids[first + 1]}" in page.locator(".token-view .readout").inner_text()


def test_two_episodes_of_a_task_stand_side_by_side_and_their_first_difference_is_marked(page, address):
    page.goto(f"{address}/{EPISODES}?text=train-000000/train/3")
    page.wait_for_selector("tr.active")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.wait_for_selector(".pairs .pair")
    assert page.locator(".side").count() == 2
    words = page.locator(".told").inner_text()
    pairs = page.locator(".pairs > .pair")
    kinds = ["same" in (pair.get_attribute("class") or "").split() for pair in pairs.all()]
    if "part at turn" in words:
        assert kinds.index(False) + 1 == int(re.search(r"part at turn (\d+)", words)[1])
    else:
        assert "differ from the first turn" in words
        assert not kinds[0]
    assert page.locator(".parted").count() == 1
    assert page.locator("mark").count() >= 2
    page.keyboard.press("s")
    until(page, "location.hash.includes('a=train-000000')")


def test_dark_light_and_the_button_between_them(chromium, address):
    def paper(page):
        red, green, blue = re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3]
        return int(red) + int(green) + int(blue)

    with opened(chromium, color_scheme="dark") as page:
        page.goto(address)
        page.wait_for_selector("table.runs a")
        assert paper(page) < 120
        page.keyboard.press("d")  # from system to light
        assert paper(page) > 700
        page.reload()
        page.wait_for_selector("table.runs a")
        assert paper(page) > 700  # it is remembered


CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_enough_contrast_and_every_control_a_name(chromium, address, runs, scheme):
    """WCAG 2.2, 1.4.3: 4.5 to 1 for text; 4.1.2: a name for what can be operated."""
    name = looked_at_the_billboard(runs)
    with opened(chromium, color_scheme=scheme) as page:
        for view in ("", "#/run/watched", EPISODES, "episode", "tokens", "compare"):
            if view in ("episode", "tokens"):
                to_episode(page, address, name)
                if view == "tokens":
                    page.keyboard.press("t")
                    page.wait_for_selector(".token")
            elif view == "compare":
                other = name[:-1] + str((int(name[-1]) + 1) % 4)
                page.goto(f"{address}/#/run/watched/compare?a={name.replace('#', '%23')}&b={other.replace('#', '%23')}")
                page.wait_for_selector(".pair")
            else:
                page.goto(f"{address}/{view}")
                page.wait_for_selector("table, .chart")
            faults = page.evaluate(CONTRAST)
            assert faults["faint"] == [], (view, scheme)
            assert faults["nameless"] == [], (view, scheme)
            assert faults["texts"] > 10
            assert page.locator("main").count() == 1
            assert page.locator("h1").count() >= (0 if view == EPISODES else 1)


def test_a_run_is_watched_while_another_process_writes_it(page, tmp_path):
    script = Path(__file__).with_name("watched_run.py")
    writer = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "live")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert writer.stdout.readline().strip() == "1"  # the first step is done, the second waits
        with served([tmp_path]) as address:
            page.goto(f"{address}/#/run/live/episodes")
            until(page, "document.querySelector('.told')?.innerText.startsWith('24 of 24')")
            page.locator(".pulse.live").wait_for()
            writer.stdin.write("go\n")
            writer.stdin.flush()
            until(page, "document.querySelector('.told')?.innerText.startsWith('40 of 40')")
            page.goto(f"{address}/#/run/live")
            page.wait_for_selector("figure.chart")
            before = page.locator("figure.chart svg").first.get_attribute("aria-label")
            writer.stdin.write("go\n")
            writer.stdin.flush()
            until(
                page, f"document.querySelector('figure.chart svg')?.getAttribute('aria-label') !== {json.dumps(before)}"
            )
            page.get_by_text("Held-out success").wait_for()  # the run ended, and was measured
            writer.communicate(timeout=30)
    finally:
        writer.kill()
        writer.wait()
        writer.stdin.close()
        writer.stdout.close()
    assert writer.returncode == 0


def test_a_headline_about_one_kind_of_task_says_how_all_tasks_did(page, runs, tmp_path):
    folder = shutil.copytree(runs / "watched", tmp_path / "odd")
    with (folder / "recipe.toml").open("a", encoding="utf-8") as recipe:
        recipe.write('\n[evaluate]\nstratum = "odd"\n')
    page.goto(write_report(folder).as_uri())
    page.wait_for_selector(".headline .gain")
    assert "on odd" in page.locator(".headline .gain").inner_text()
    rows = page.get_by_role("region", name="By kind of task").locator("tbody tr").all_inner_texts()
    count = next(row.split("\t")[1] for row in rows if row.startswith("all tasks"))
    assert re.search(rf"On all {count} tasks: \d+ % to \d+ %", page.locator(".headline").inner_text())


def test_the_report_alone_holds_the_same_and_runs_nothing_but_its_own_script(page, runs):
    where = write_report(runs / "watched")
    page.goto(where.as_uri())
    page.wait_for_selector("figure.chart svg[role=img]")
    assert re.search("Held-out success (rose|fell|stayed)", page.locator(".gain").inner_text())
    kinds = page.get_by_role("region", name="By kind of task")
    assert kinds.locator("tbody tr").count() == 1
    assert "Not shown: 2 kinds of fewer than 5 tasks." in kinds.inner_text()
    page.get_by_role("region", name="Episodes to read").get_by_role("link").first.click()
    page.wait_for_selector(".pairs .pair")
    page.get_by_role("link", name="Episodes").click()
    page.wait_for_selector("tr.active")
    until(page, "document.querySelector('.told')?.innerText.startsWith('96 of 96')")
    with contextlib.closing(LedgerReader(runs / "watched" / "ledger.sqlite")) as reader:
        counts = [reader.count(chosen) for chosen in ({"failure": "repeated"}, {"failure": "repeated", "tag": "odd"})]
    for label, choice, count in zip(("What went wrong", "Tag of the task"), ("repeated", "odd"), counts, strict=True):
        page.get_by_label(label).select_option(choice)
        until(page, f"document.querySelector('.told')?.innerText.startsWith('{count} of 96')")
    name = looked_at_the_billboard(runs)
    page.goto(f"{where.as_uri()}#/run/run/episode/{name.replace('/', '%2F').replace('#', '%23')}")
    page.wait_for_selector(".turns > .turn")
    assert SHOWN_ATTACK in page.locator(".result pre").all_inner_texts()
    assert page.locator(".turns .credit").count() >= 2
    until(page, "document.querySelector('.picture img')?.naturalWidth === 24")
    page.keyboard.press("t")
    page.wait_for_selector(".token")
    page.keyboard.press("h")
    page.wait_for_selector("figure.chart svg[role=img]")
    page.wait_for_timeout(100)
    assert page.evaluate("window.owned") is None
