"""The viewer's server in a thread, and pages in a real Chromium: what the tests of the viewer share."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

from agentgym.viewer.serving import ADDRESS, listen, serve


@contextmanager
def served(paths, **options):
    """The address of a viewer over some paths, on a port of its own."""
    listening, servers = listen(0), []
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}"
    thread = threading.Thread(target=serve, args=(paths, listening), kwargs={"ready": servers.append} | options)
    thread.start()
    while not servers or not servers[0].started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield address
    finally:
        servers[0].should_exit = True
        thread.join()


@contextmanager
def opened(chromium, **options):
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, **options)
    page, troubles = context.new_page(), []
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: message.type == "error" and troubles.append(message.text))
    try:
        yield page
    finally:
        context.close()
    assert troubles == []


def until(page, expression: str, within_s: float = 20.0) -> None:
    """Wait until an expression is true in the page. Its content policy forbids playwright's own way, which is eval."""
    deadline = time.monotonic() + within_s
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(50)
