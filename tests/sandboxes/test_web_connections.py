"""What a page does beside plain requests to its site: web sockets, service workers, and addresses that lead nowhere."""

from __future__ import annotations

import http.server
import json
import socket
import textwrap
import threading

import pytest
from web_pages import Visit, folder_of

import agentgym
from agentgym import EpisodeManager, Message, ScriptedPolicy, Task, TaskError
from agentgym.sandboxes.gui.guest import own_app

in_a_browser = [
    pytest.mark.needs_namespaces,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("browsers_end"),
]
WEB = "agentgym/web-v2"
APP = r"""
    import base64, hashlib, os, socketserver

    PORT = int(os.environ["PORT"])
    PAGE = '''HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<title>Chat</title>
        <body data-port=%d><p id=heard></p>
        <label>Say <input id=say></label><button onclick="socket.send(say.value)">Send</button><script>
        const socket = new WebSocket('ws://' + location.host + '/socket');
        socket.onmessage = event => heard.textContent += event.data + '. ';
        const reach = url => new Promise(done => {
            const other = new WebSocket(url);
            other.onopen = () => done('reached');
            other.onerror = () => done('refused');
        });</script>'''

    class Chat(socketserver.StreamRequestHandler):
        def handle(self):
            path = self.rfile.readline().split()[1]
            heads = dict(line.split(b": ", 1) for line in iter(self.rfile.readline, b"\r\n"))
            if path == b"/secure":
                self.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: https://app.test/\r\nContent-Length: 0\r\n\r\n")
            elif path != b"/socket":
                self.wfile.write((PAGE % PORT).encode())
            else:
                self.serve_socket(heads)
        def serve_socket(self, heads):
            key = heads[b"Sec-WebSocket-Key"].strip() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key).digest())
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
            self.say("Hello")
            while (head := self.rfile.read(2)) and head[0] == 0x81:  # a text of less than 126 bytes
                mask = self.rfile.read(4)
                text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(head[1] & 127))).decode()
                with open("said", "a") as file:
                    file.write(text + "\n")
                self.say("You say " + text)
        def say(self, text):
            self.wfile.write(bytes([0x81, len(text)]) + text.encode())

    socketserver.ThreadingTCPServer.daemon_threads = True
    socketserver.ThreadingTCPServer(("127.0.0.1", PORT), Chat).serve_forever()
"""
STATE = """
    import json, os
    print(json.dumps({"said": open("said").read().split() if os.path.exists("said") else []}))
"""


@pytest.fixture
def chat(tmp_path):
    for name, code in (("app", APP), ("state", STATE)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    return {
        "site": "server",
        "folder": str(tmp_path),
        "command": ["python3", "app.py"],
        "state": ["python3", "state.py"],
    }


def task_of(parameters, **truth):
    return Task("own", WEB, "Do it.", parameters=parameters, truth=truth)


async def wait_for_text(visit, text):
    """Wait until a page shows a text."""
    for _ in range(200):
        await visit.call("wait", seconds=0.05)
        if text in visit.page:
            return
    raise AssertionError(f"{text!r} is not on the page:\n{visit.page}")


class TestInABrowser:
    pytestmark = in_a_browser

    async def test_a_web_socket_joins_the_page_and_its_own_application_alone(self, chat):
        elsewhere = task_of({**chat, "host": "chat.localhost"})
        async with await Visit.to(task_of(chat)) as visit, await Visit.to(elsewhere) as other:
            await wait_for_text(visit, "Hello.")
            await visit.call("type", target="Say", text="Ahoy")
            await visit.call("click", target="Send")
            await wait_for_text(visit, "Hello. You say Ahoy.")
            await wait_for_text(other, "Hello.")
            port = await visit.environment.evaluate("document.body.dataset.port")
            for url in ("ws://other.test/socket", f"ws://127.0.0.1:{port}/socket", f"ws://localhost:{port}/socket"):
                assert await visit.environment.evaluate(f"reach('{url}')") == "refused", url
            assert await visit.environment.evaluate("reach('ws://app.test/socket')") == "reached"
            assert await visit.environment.evaluate("reach('wss://app.test/socket')") == "refused"
            ends = [(await open_visit.call("answer")).content for open_visit in (visit, other)]
            assert [json.loads(end.partition("\n")[2])["effects"] for end in ends] == [{"said": ["Ahoy"]}, {}]

    async def test_a_host_below_localhost_is_secure_and_what_is_so_has_no_way_to_another_episode(self, tmp_path):
        body = """<button onclick="ask()">Ask</button><p id=heard></p><script>
            const browsers_own = Object.getOwnPropertyDescriptor(Navigator.prototype, 'clipboard').get.call(navigator);
            async function ask() {
                await browsers_own.writeText('mine');
                await navigator.serviceWorker.register('worker.js');
                await navigator.serviceWorker.ready;
                const hash = await crypto.subtle.digest('SHA-256', new Uint8Array(3));
                heard.textContent = crypto.randomUUID().length + ' ' + hash.byteLength;
            }</script>"""
        (tmp_path / "worker.js").write_text(
            "oninstall = () => skipWaiting(); onactivate = () => clients.claim(); onfetch = event =>"
            " event.respondWith(new Response('<title>mine</title>', {headers: {'Content-Type': 'text/html'}}))"
        )
        task = folder_of(tmp_path, WEB, {"host": "notes.localhost"}, one=body, two="<title>two</title><input>")
        async with await Visit.to(task) as visit, await Visit.to(task) as other:
            assert "Page 'one' http://notes.localhost/one.html" in visit.page
            await visit.call("click", target="Ask")
            await wait_for_text(visit, "36 32")
            await visit.call("go", to="two.html")
            assert "Page 'mine'" in visit.page
            await other.call("go", to="two.html")
            assert "Page 'two'" in other.page
            assert "'http://pages.test/' cannot be reached" in (await visit.call("go", to="http://pages.test/")).content
            await other.call("click", target=1)
            assert (await other.call("press", key="Control+v")).ok
            assert await other.environment.evaluate("document.querySelector('input').value") == ""

    async def test_service_workers_are_not_there_and_a_page_that_wants_one_is_shown_all_the_same(self, tmp_path):
        body = """<button onclick="document.title = 'serviceWorker' in navigator">Ask</button>
            <script>navigator.serviceWorker.register('worker.js')</script>"""
        (tmp_path / "worker.js").write_text("onfetch = event => event.respondWith(new Response('mine'))")
        async with await Visit.to(folder_of(tmp_path, WEB, one=body, two="Two")) as visit:
            await visit.call("click", target="Ask")
            assert "Page 'false'" in visit.page
            await visit.call("go", to="two.html")
            assert "Page 'two'" in visit.page

    async def test_an_address_that_cannot_be_reached_is_named_and_the_episode_goes_on(self, tmp_path):
        links = "<a href=https://pages.test/two.html>Own</a> <a href=https://other.test/ target=_blank>Other</a>"
        task = folder_of(tmp_path, WEB, one=links, two="Two")
        async with await Visit.to(task) as visit:
            assert (await visit.call("click", target="Own")).ok
            assert "'https://pages.test/two.html' cannot be reached." in visit.page
            await visit.call("go", to="back")
            assert "Page 'one'" in visit.page
            await visit.call("click", target="Other")
            assert "'https://other.test/' cannot be reached." in visit.page
            for address in ("http://pages.test:22/", "http://pages.test:0/"):
                await visit.call("go", to=address)
                assert f"'{address}' cannot be reached." in visit.page
            for address, words in (("https://pages.test/", "only pages of http://pages"), (":99999/", "is no address")):
                refused = await visit.call("go", to=address if "//" in address else f"http://pages.test{address}")
                assert not refused.ok
                assert words in refused.content
            await visit.call("go", to="/two.html")
            assert "Page 'two'" in visit.page

    async def test_a_site_that_leads_to_https_is_the_agents_result_and_at_the_beginning_an_error_of_the_task(
        self, chat
    ):
        go, end = (agentgym.Call("go", {"to": "/secure"}), agentgym.Call("answer", {}))
        script = [Message("assistant", "", (call,)) for call in (go, end)]
        task = task_of(chat, url="https://app.test/")
        [episode] = await EpisodeManager(lambda _: ScriptedPolicy(script)).collect([task])
        assert (episode.error, episode.success) == (None, 0.0)
        assert "'https://app.test/' cannot be reached." in episode.turns[0].results[0].content
        environment = agentgym.make(WEB)
        try:
            with pytest.raises(
                TaskError, match=r"first page http://app\.test/secure .* it leads to https://app\.test/, net::ERR_"
            ):
                await environment.reset(task_of({**chat, "page": "/secure"}), seed=0)
        finally:
            await environment.close()


def test_a_tunnel_waits_for_an_agent_that_thinks_and_ends_when_the_page_leaves(monkeypatch):
    """Both ends are silent for longer than requests may take; the application leaves its end open."""
    monkeypatch.setattr(own_app, "_ANSWER_S", 0.05)
    app = own_app.OwnApp({"host": "app.test", "path": "/"}, [])
    ended = threading.Event()

    class Proxy(http.server.BaseHTTPRequestHandler):
        timeout = 0.05

        def do_CONNECT(self):
            app.tunnel(self)
            ended.set()

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy,
    ):
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01}).start()
        app._port = listening.getsockname()[1]
        with socket.create_connection(proxy.server_address[:2], timeout=10) as page:
            page.sendall(b"CONNECT app.test:80 HTTP/1.1\r\n\r\n")
            assert page.recv(100).endswith(b"\r\n\r\n")
            page.sendall(b"GET")
            application, _ = listening.accept()
            assert application.recv(3) == b"GET"
            assert not ended.wait(0.3)
            page.sendall(b"ping")
            assert application.recv(4) == b"ping"
            application.sendall(b"pong")
            assert page.recv(4) == b"pong"
        assert ended.wait(10)
        application.close()
        with socket.create_connection(proxy.server_address[:2], timeout=10) as page:
            page.sendall(b"CONNECT app.test:443 HTTP/1.1\r\n\r\n")
            assert page.recv(100).endswith(b"\r\n\r\n")
            page.sendall(b"\x16\x03\x01")
            assert page.recv(1) == b"", "no application is asked to read TLS"
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
        proxy.shutdown()
