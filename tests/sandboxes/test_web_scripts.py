"""Applications whose pages are made by scripts: what an observation waits for, and where the agent can go on."""

from __future__ import annotations

import asyncio
import os
import textwrap

import pytest
from web_pages import Visit

import agentgym
from agentgym import Task

pytestmark = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
WEB = "agentgym/web-v2"
APP = """
    import http.server, os, time

    PORT = int(os.environ["PORT"])
    PAGE = '''<title>Start</title><button onclick="load('/first', '/second')">Load</button> <p id=answer></p>
        <a href=/elsewhere>Elsewhere</a>
        <script>
        new EventSource('/stream').onmessage = event => document.title = event.data;
        const load = async (...paths) => {
            await fetch('/unread');
            for (const path of paths) answer.textContent += await (await fetch(path)).text();
            history.pushState(null, '', '/loaded');
        };
        </script>'''

    class Pages(http.server.BaseHTTPRequestHandler):
        wbufsize = -1  # an answer leaves as a whole
        def do_GET(self):
            time.sleep(0.3 if self.path in ("/first", "/second") else 0)
            self.send_response(302 if self.path == "/elsewhere" else 200)
            self.send_header("Content-Type", "text/event-stream" if self.path == "/stream" else "text/html")
            self.send_header("Location", f"http://127.0.0.1:{PORT}/")
            self.end_headers()
            if self.path == "/stream":
                self.wfile.write(b"data: Streamed\\n\\n")
                self.wfile.flush()
                time.sleep(3600)
            if self.path in ("/first", "/second"):
                self.wfile.write(self.path[1:].encode() + b" ")
            else:
                self.wfile.write(PAGE.encode())

    while os.environ.get("AWAITED") and not os.path.exists(os.environ["AWAITED"]):
        time.sleep(0.05)
    http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Pages).serve_forever()
"""


@pytest.fixture
def app(tmp_path):
    (tmp_path / "app.py").write_text(textwrap.dedent(APP))
    return {"site": "server", "folder": str(tmp_path), "command": ["python3", "app.py"]}


def task_of(parameters):
    return Task("own", WEB, "Look.", parameters=parameters, truth={"answer": "yes"})


async def test_what_scripts_ask_for_one_after_the_other_is_seen_after_the_click(app):
    async with await Visit.to(task_of(app)) as visit:
        await visit.call("click", target="Load")
        assert "http://app.test/loaded" in visit.page
        assert "first second" in visit.page


async def test_the_agent_comes_back_from_an_address_that_is_not_the_sites(app):
    async with await Visit.to(task_of(app)) as visit:
        await visit.call("click", target="Elsewhere")
        assert "cannot be reached" in visit.page
        assert (await visit.call("go", to="/")).ok
        assert "Elsewhere" in visit.page


async def test_applications_that_are_slow_to_start_do_not_hold_up_the_episodes_of_their_browser(app):
    awaited = {**app, "command": ["env", "AWAITED=/tmp/awaited", "python3", "app.py"]}
    async with await Visit.to(task_of(app)) as visit:
        starting = [agentgym.make(WEB) for _ in range(min(2 * (os.cpu_count() or 1), 15))]
        resets = [asyncio.ensure_future(environment.reset(task_of(awaited), seed=0)) for environment in starting]
        try:
            browser = visit.environment._browser
            for _ in range(1_000):
                if browser.episodes > len(starting):
                    break
                await asyncio.sleep(0.01)
            await visit.call("wait", seconds=0.5)
            await visit.call("click", target="Load")
            assert "first second" in visit.page
            assert not any(reset.done() for reset in resets)
            await browser.sandbox.write("/tmp/awaited", b"")
            for [_, user] in await asyncio.gather(*resets):
                assert "Page 'Start'" in user.text or "Page 'Streamed'" in user.text
        finally:
            for environment in starting:
                await environment.close()
