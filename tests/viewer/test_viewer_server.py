"""The server answers this machine's own page, and nobody and nothing else."""

from __future__ import annotations

import json
import os
import socket
import time

import httpx
import pytest
import watched_run
from looking import served

from agentgym.errors import AgentGymError, LedgerError
from agentgym.viewer.opened_run import OpenedRun
from agentgym.viewer.serving import listen
from agentgym.viewer.shelf import find_runs, named_runs


@pytest.fixture(scope="module")
def client(address):
    with httpx.Client(base_url=address, trust_env=False) as connection:
        yield connection


def some_episode(client, **query):
    return client.get("/api/runs/watched/episodes", params=query).json()["rows"][0]["id"]


def test_the_page_and_all_it_loads_are_there_and_forbid_what_they_do_not_need(client):
    index = client.get("/")
    assert index.headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert index.headers["x-content-type-options"] == "nosniff"
    for name in ("script.js", "viewer.css", "icon.svg"):
        assert f"/page/{name}" in index.text
        assert client.get(f"/page/{name}").status_code == 200
    assert client.get("/page/script.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "127.0.0.1:{port}.evil.example"],
)
def test_a_foreign_host_is_refused(client, host):
    """A page of elsewhere may point its own name at 127.0.0.1 to read what is here: it sends its own name along."""
    answer = client.get("/api/runs", headers={"host": host.format(port=client.base_url.port)})
    assert answer.status_code == 421
    assert "watched" not in answer.text


def test_this_machines_own_names_are_accepted(client):
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert client.get("/api/runs", headers={"host": f"{name}:{client.base_url.port}"}).status_code == 200


def test_two_hosts_or_none_are_refused(client):
    for head in (b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: 127.0.0.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=10) as wire:
            wire.sendall(head)
            assert wire.recv(100).split()[1] in (b"421", b"400")


def test_what_another_page_embeds_is_refused(client):
    for site in ("cross-site", "same-site"):
        assert client.get("/api/runs", headers={"sec-fetch-site": site}).status_code == 403
        assert client.get("/", headers={"sec-fetch-site": site}).status_code == 200  # a link to it is no harm
    assert client.get("/api/runs", headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_but_reading_is_answered(client, method):
    assert client.request(method, "/api/runs").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/page/../__init__.py",
        "/page/..%2f__init__.py",
        "/page/%2e%2e/%2e%2e/results.py",
        "/page//etc/passwd",
        "/page/..%5c__init__.py",
        "/page/__init__.py",
        "/api/runs/..%2f..%2fetc",
        "/api/runs/%2e%2e",
        "/api/runs/%2Fetc",
        "/api/runs/watched%00",
        "/api/runs/watched/../../etc/passwd",
    ],
)
def test_a_path_that_leaves_the_runs_is_not_found(client, path):
    with socket.create_connection(("127.0.0.1", client.base_url.port), timeout=10) as wire:  # as written, not tidied
        wire.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{client.base_url.port}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: wire.recv(65536), b""))
    assert answer.split()[1] == b"404", answer[:200]


def test_an_unknown_run_episode_filter_or_order_is_told_and_nothing_else_is_given_away(client, runs):
    for path in ("nowhere", "watched/episode?id=x", "watched/episodes?only=x", "watched/episodes?sort=head"):
        answer = client.get(f"/api/runs/{path}")
        assert answer.status_code == 404
        assert "Traceback" not in answer.text
    assert client.get("/api/runs/watched/episodes?limit=100000").status_code == 422


def test_filters_and_orders_agree_with_the_records(client):
    def rows(**query):
        return client.get("/api/runs/watched/episodes", params={"limit": 500, **query}).json()

    everything = rows()
    assert len(everything["rows"]) == everything["total"] == everything["all"] == 96
    assert everything["lacking"] == 0  # this agentgym writes its summaries
    for only, count in everything["facets"]["only"].items():
        chosen = rows(only=only)
        assert chosen["total"] == len(chosen["rows"]) == count
    kinds = everything["facets"]["failure"]
    assert {"tool_error", "wrong_arguments", "repeated", "void", "wrong_answer", "no_answer"} <= kinds.keys()
    for failure, count in kinds.items():
        assert all(failure in row["failures"] for row in rows(failure=failure)["rows"])
        assert rows(failure=failure)["total"] == count > 0
    assert everything["facets"]["tag"].keys() == {"even", "odd"}
    for tag, count in everything["facets"]["tag"].items():
        assert all(row["tags"] == [tag] for row in rows(tag=tag)["rows"])
        assert rows(tag=tag)["total"] == rows(tag=tag, only="solved")["facets"]["tag"][tag] == count > 0
    assert {row["run"] for row in rows(phase="train")["rows"]} == {f"train-{i:06d}" for i in range(5)}
    assert rows(text="TRAIN-000003/train/2")["total"] == 4
    turns = [row["turns"] for row in rows(sort="turns", descending=True)["rows"]]
    assert turns == sorted(turns, reverse=True)
    paged = [row["id"] for at in range(0, 96, 10) for row in rows(offset=at, limit=10, sort="reward")["rows"]]
    assert paged == [row["id"] for row in rows(sort="reward")["rows"]]


def test_an_image_is_served_as_what_it_is_and_nothing_else_by_that_way(client):
    for row in client.get("/api/runs/watched/episodes", params={"limit": 500}).json()["rows"]:
        episode = client.get("/api/runs/watched/episode", params={"id": row["id"]}).json()
        images = [p["image"] for turn in episode["turns"] for r in turn["results"] for p in r["parts"] if "image" in p]
        if images:
            break
    image = client.get(images[0])
    assert image.headers["content-type"] == "image/png"
    assert image.content == watched_run.png(24, 16)
    address = images[0].partition("&at=")[0]
    for position in ("0.0.0", "2.99.0.1", "2.0.0.99", "9.9", "", "-1", "1e3", "x", "2"):
        assert client.get(f"{address}&at={position}").status_code == 404


def test_a_run_that_cannot_be_read_is_listed_with_the_reason_and_hides_no_other(runs, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "ledger.sqlite").write_bytes(b"no database at all" * 100)
    with served([tmp_path, runs]) as address:
        listed = {run["key"]: run for run in httpx.get(f"{address}/api/runs", trust_env=False).json()}
        assert "broken" in listed["broken"]["broken"]
        assert listed["watched"]["episodes"] == 96
        assert httpx.get(f"{address}/api/runs/broken/episodes", trust_env=False).status_code == 404


def test_a_run_that_was_never_read_is_listed_without_its_figures_when_the_time_is_up(runs):
    run = OpenedRun(runs / "watched", "watched")
    listed = run.summary(run.pulse(), deadline=0.0)
    assert (listed["name"], listed["unread"], listed["note"]) == ("watched", True, "")
    assert "episodes" not in listed
    assert run.summary(run.pulse())["episodes"] == 96
    assert run.summary(run.pulse(), deadline=0.0)["episodes"] == 96
    run.close()


def test_runs_are_found_below_the_paths_and_get_names_that_addresses_can_carry(tmp_path):
    for name in ("a/one", "a/two words/x", "b/one", ".hidden/run", "deep/1/2/3/4/run"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "recipe.toml").touch()
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    runs = find_runs([tmp_path / "a", tmp_path / "b", tmp_path / "b" / "one"])
    assert {key: path.relative_to(tmp_path).as_posix() for key, path in runs.items()} == {
        "one": "a/one",
        "two-words--x": "a/two words/x",
        "one~2": "b/one",
    }
    with pytest.raises(LedgerError, match="no folder"):
        named_runs([tmp_path / "nowhere"])


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do():
    with listen(0) as taken, pytest.raises(AgentGymError, match="--port"):
        listen(taken.getsockname()[1])


def test_nothing_is_written_into_a_run_by_looking_at_it(client, runs):
    def files():
        return {
            p: (p.stat().st_size, p.stat().st_mtime_ns) for p in (runs / "watched").rglob("*") if "-" not in p.suffix
        }

    before = files()
    client.get("/api/runs")
    client.get("/api/runs/watched/report")
    client.get("/api/runs/watched/tokens", params={"id": some_episode(client)})
    assert files() == before


def test_answers_about_a_run_say_which_version_of_its_files_they_are_of(client, runs):
    some = some_episode(client)

    def versions():
        queries = {"": {}, "/pulse": {}, "/episodes": {}, "/episode": {"id": some}}
        return {
            client.get(f"/api/runs/watched{what}", params=query).json()["version"] for what, query in queries.items()
        }

    before = versions()
    assert len(before) == 1
    os.utime(runs / "watched" / "recipe.toml")
    after = versions()
    assert len(after) == 1
    assert after != before


def test_a_run_that_ended_before_is_not_shown_as_running_because_it_is_looked_at(client, runs):
    an_hour_ago = time.time() - 3600
    for path in (runs / "watched").rglob("*"):
        os.utime(path, (an_hour_ago, an_hour_ago))
    some_episode(client)
    run = client.get("/api/runs/watched").json()
    assert (runs / "watched" / "ledger.sqlite-wal").exists()
    assert not run["live"]
    assert run["updated"] == pytest.approx(an_hour_ago, abs=1)


def test_every_answer_is_json_that_browsers_can_read(client):
    """JSON has no NaN; a browser would refuse the whole answer."""
    for path in ("/api/runs", "/api/runs/watched", "/api/runs/watched/pulse", "/api/runs/watched/episodes"):
        json.loads(client.get(path).text, parse_constant=pytest.fail)
