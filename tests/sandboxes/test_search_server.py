"""A corpus over HTTP: pages a browser can read, Search-R1's protocol, and clients that mean harm."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from urllib.parse import unquote

import httpx
import pytest

from agentgym import Call, Task
from agentgym.errors import SandboxError
from agentgym.sandboxes.search import SearchRetrieve, open_library
from agentgym.sandboxes.search.index.remote import RemoteRetriever
from agentgym.sandboxes.search.server import MAX_BODY_BYTES, SearchServer

PAGES = [
    {
        "id": "p1",
        "title": "Lamp/oil & <b>",
        "text": "Made by [Ida Berg] & sons. <script>alert(1)</script>",
        "links": ["Ida Berg"],
    },
    {"id": "p2", "title": "Ida Berg", "text": "Ida made lamps.\nShe lived.", "links": ["Lamp/oil & <b>"]},
]


@pytest.fixture
async def server(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, PAGES)))
    async with SearchServer(open_library(str(path))) as running:
        yield running


@pytest.fixture
async def client(server):
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as client:
        yield client


async def test_a_reader_walks_from_the_start_through_a_search_and_links(client):
    assert "2 pages" in (await client.get("/")).text
    results = (await client.get("/search", params={"q": "lamps"})).text
    links = re.findall(r'href="(/pages/[^"]+)"', results)
    assert [unquote(link) for link in links] == ["/pages/Ida Berg", "/pages/Lamp/oil & <b>"]
    page = (await client.get(links[1])).text
    assert '<a href="/pages/Ida%20Berg">Ida Berg</a>' in page
    assert "<h1>Ida Berg</h1>" in (await client.get("/pages/Ida%20Berg")).text


async def test_the_content_of_a_page_is_escaped(client):
    answer = await client.get("/pages/Lamp%2Foil%20%26%20%3Cb%3E")
    assert "<script>" not in answer.text
    assert "&lt;script&gt;" in answer.text
    assert "default-src 'none'" in answer.text
    assert "<i>" not in (await client.get("/search", params={"q": '"><i>lamps'})).text


async def test_search_r1s_protocol_is_spoken(client):
    body = {"queries": ["lamps", "zebra"], "topk": 1, "return_scores": True}
    answer = (await client.post("/retrieve", json=body)).json()
    assert [len(rows) for rows in answer["result"]] == [1, 0]
    (row,) = answer["result"][0]
    assert row["document"] == {"id": "p2", "contents": '"Ida Berg"\nIda made lamps.\nShe lived.'}
    assert row["score"] > 0
    bare = (await client.post("/retrieve", json={"queries": ["lamps"], "topk": None})).json()
    assert [document["id"] for document in bare["result"][0]] == ["p2", "p1"]


async def test_an_environment_asks_a_server_as_it_asks_its_own_index(server):
    environment = SearchRetrieve(retriever=f"{server.url}/retrieve")
    await environment.reset(Task("t", "agentgym/search-retrieve-v1", "Who made lamps?"), seed=0)
    result = await environment.call(Call("search", {"query": "lamps"}))
    assert result.content.startswith('<information>Doc 1(Title: "Ida Berg") Ida made lamps. She lived.')
    await environment.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/pages/nowhere", b"", 404),
        ("GET", "/../../etc/passwd", b"", 404),
        ("POST", "/", b"", 405),
        ("GET", "/retrieve", b"", 405),
        ("POST", "/retrieve", b"{", 422),
        ("POST", "/retrieve", b"[1]", 422),
        ("POST", "/retrieve", b"[" * 100_000, 422),
        ("POST", "/retrieve", b'{"queries": "x"}', 422),
        ("POST", "/retrieve", b'{"queries": ["x"], "topk": 100000}', 422),
        ("POST", "/retrieve", json.dumps({"queries": ["x"] * 1_000}).encode(), 422),
        ("POST", "/retrieve", b"x" * (MAX_BODY_BYTES + 1), 413),
    ],
)
async def test_invalid_requests_are_refused_and_the_server_continues(client, method, path, body, status):
    answer = await client.request(method, path, content=body)
    assert answer.status_code == status
    assert (await client.get("/")).status_code == 200


async def test_a_client_that_speaks_no_http_or_goes_away_ends_only_its_own_connection(server, client):
    host, port = server.url.removeprefix("http://").split(":")
    for line in (b"\x16\x03\x01 hello\r\n\r\n", b"GET / HT", b"GET /" + b"x" * 100_000):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(line)
        writer.write_eof()
        await reader.read()
        writer.close()
    assert (await client.get("/")).status_code == 200


async def test_an_invalid_answer_of_a_server_is_an_infrastructure_failure(server):
    class Other(RemoteRetriever):
        async def search(self, query, k):
            self._endpoint.post = self._nonsense
            return await super().search(query, k)

        async def _nonsense(self, *_):
            return {"result": "none"}

    retriever = Other(server.url)
    with pytest.raises(SandboxError, match="must answer"):
        await retriever.search("lamps", 2)
    await retriever.close()


def test_the_command_serves_a_corpus_until_it_is_stopped(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, PAGES)))
    command = [sys.executable, "-m", "agentgym.sandboxes.search.server", str(tmp_path / "corpus.jsonl"), "--port=0"]
    environment_variables = {**os.environ, "AGENTGYM_CACHE": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment_variables) as running:
        line = running.stdout.readline()
        answer = httpx.post(line.split()[-1], json={"queries": ["lamps"]}, trust_env=False)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
    assert line.startswith("2 pages at http://127.0.0.1:")
    assert [document["id"] for document in answer.json()["result"][0]] == ["p2", "p1"]


async def test_ending_the_server_ends_its_connections(tmp_path, server):
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await server.__aexit__()
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
