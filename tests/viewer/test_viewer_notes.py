"""Notes in the viewer: written by its own page alone, escaped, and found again in the table of runs."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from looking import served
from watched_run import ATTACK

from agentgym.evaluation.report import write_report
from agentgym.storage.notes import MAX_LENGTH, read_notes, write_note
from agentgym.text import visible

TOKEN = "the-token"


@pytest.fixture
def run(runs, tmp_path):
    return shutil.copytree(runs / "watched", tmp_path / "noted")


@pytest.fixture
def url(run):
    with served([run.parent], token=TOKEN) as address:
        yield address


@pytest.fixture
def client(url):
    headers = {"origin": url, "agentgym-token": TOKEN}
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as connection:
        yield connection


def post(client, text="new", episode="", **headers):
    return client.post("/api/runs/noted/note", json={"text": text, "episode": episode}, headers=headers)


def test_a_note_on_a_run_and_on_an_episode_is_written_and_read_and_the_run_stays_as_it_was(client, run):
    episode = client.get("/api/runs/noted/episodes").json()["rows"][0]["id"]
    before = client.get("/api/runs/noted/pulse").json()
    assert post(client, " of the run ").json() == {"text": "of the run"}
    assert post(client, "of the episode", episode).status_code == 200
    notes = {"": "of the run", episode: "of the episode"}
    assert client.get("/api/runs/noted/notes").json() == {"notes": notes, "read_only": ""}
    assert client.get("/api/runs").json()[0]["note"] == "of the run"
    assert client.get("/api/runs/noted/pulse").json() == before


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://127.0.0.1:{port}"},
        {"origin": "http://localhost:{port}"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"agentgym-token": ""},
        {"agentgym-token": "the-tokem"},
    ],
)
def test_a_foreign_page_and_a_request_without_the_token_write_nothing(client, run, headers):
    answer = post(client, **{name: value.format(port=client.base_url.port) for name, value in headers.items()})
    assert answer.status_code == 403
    assert read_notes(run) == {}


def test_a_request_of_a_foreign_name_or_without_an_origin_writes_nothing(client, run):
    assert post(client, host="evil.example").status_code == 421
    client.headers.pop("origin")
    assert post(client).status_code == 403
    assert read_notes(run) == {}


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_note_is_written_by_post_alone(client, method):
    assert client.request(method, "/api/runs/noted/note", json={"text": "new"}).status_code == 405


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": "x" * (MAX_LENGTH + 1)}, 400),
        ({"text": "x" * 40_000}, 413),
        ({"text": 7}, 422),
        ({}, 422),
        ({"text": "new", "episode": "nowhere"}, 404),
        ({"text": "new", "episode": "\ud800"}, 404),
        ({"text": "new", "episode": ["a"]}, 422),
    ],
)
def test_a_bad_note_is_refused(client, run, body, status):
    escaped, kind = json.dumps(body), {"content-type": "application/json"}
    assert client.post("/api/runs/noted/note", content=escaped, headers=kind).status_code == status
    assert client.post("/api/runs/nowhere/note", json={"text": "new"}).status_code == 404
    assert read_notes(run) == {}


def test_a_body_of_unknown_length_is_refused(client, run):
    assert client.post("/api/runs/noted/note", content=iter([b'{"text": "new"}'])).status_code == 413
    assert read_notes(run) == {}


def test_a_folder_that_cannot_be_written_is_told_in_one_message(client, run):
    (run / ".notes.lock").mkdir()
    answer = post(client)
    assert answer.status_code == 400
    assert answer.json()["detail"] == f"Notes cannot be written into {run}: Is a directory."


def test_damaged_notes_hide_nothing_else_of_the_run(client, run):
    (run / "notes.json").write_text("{")
    assert client.get("/api/runs").json()[0]["note"] == ""
    assert "notes.json" in client.get("/api/runs/noted/notes").json()["detail"]
    assert client.get("/api/runs/noted").status_code == 200


def test_notes_written_at_once_are_all_kept(client, run):
    names = [row["id"] for row in client.get("/api/runs/noted/episodes").json()["rows"][:12]]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda name: post(client, f"about {name}", name).status_code, names))
    assert answers == [200] * 12
    assert read_notes(run) == {name: f"about {name}" for name in names}


def test_notes_are_written_in_the_page_and_the_table_of_runs_is_filtered_by_them(page, url, run):
    shutil.copytree(run, run.parent / "other")
    page.goto(f"{url}/#/?token={TOKEN}")
    page.wait_for_selector("table.runs a")
    assert TOKEN not in page.url
    page.locator("table.runs a[data-key=noted]").click()
    page.get_by_role("button", name="Write a note").click()
    page.get_by_role("textbox", name="Note").fill(ATTACK)
    page.get_by_role("button", name="Save").click()
    page.locator(".note p", has_text="<script>window.owned").wait_for()
    page.keyboard.press("w")
    page.get_by_role("textbox", name="Note").fill(f"Diverged. {ATTACK}")
    page.keyboard.press("Control+Enter")
    page.locator(".note p", has_text="Diverged.").wait_for()
    assert read_notes(run) == {"": visible(f"Diverged. {ATTACK}")}
    page.goto(f"{url}/#/run/noted/episodes")
    page.locator("tr.active a").click()
    page.get_by_role("button", name="Write a note").click()
    page.get_by_role("textbox", name="Note").fill("Guesses.")
    page.get_by_role("button", name="Save").click()
    page.locator(".note p", has_text="Guesses.").wait_for()
    page.goto(f"{url}/#/run/noted")
    page.locator(".note li", has_text="Guesses.").get_by_role("link").click()
    page.locator(".note p", has_text="Guesses.").wait_for()
    page.goto(url)
    page.get_by_label("Name, tasks, agent or note contains").fill("diverged")
    page.locator("table.runs .run-note", has_text="Diverged.").wait_for()
    assert page.locator("table.runs a").count() == page.locator("table.runs a[data-key=noted]").count() == 1
    assert page.evaluate("window.owned") is None
    assert page.locator("main script, main img").count() == 0


def test_without_the_token_and_in_a_report_notes_are_only_shown(page, url, run):
    write_note(run, "Diverged.")
    for address in (f"{url}/#/run/noted", write_report(run).as_uri()):
        page.goto(address)
        page.locator(".note p", has_text="Diverged.").wait_for()
        assert page.locator(".note button").count() == 0
    page.goto(f"{url}/#/run/noted")
    page.locator(".note", has_text="open the address that agentgym view printed").wait_for()
