"""The process that drives the browser for all episodes: one socket, one thread an episode.

Started as `python3 -m guest.hub PROGRAM`, spoken to in JSON lines: over its own stream by whoever leases the browser,
over the socket (through relay.py) by the episodes. It ends when the browser does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import zipfile
from typing import Any

from .cdp import Browser
from .episode import Episode
from .server import PageServer
from .sites import Application, Folder, MiniWob, Site, archive_of

SOCKET, FOLDER = "/tmp/hub.sock", "/tmp/browser"
FONTS = "<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/browser/fonts</cachedir></fontconfig>"


class Hub:
    """Makes episodes, and knows the archives of pages that were put into the sandbox."""

    def __init__(self, program: str) -> None:
        os.makedirs(FOLDER, exist_ok=True)
        with open(f"{FOLDER}/fonts.conf", "w", encoding="utf-8") as file:
            file.write(FONTS)
        self.browser = Browser(program, FOLDER)
        self.version = self.browser.call("Browser.getVersion", timeout_s=60)["product"]
        self.server = PageServer(self.browser)
        self._archives: dict[str, zipfile.ZipFile] = {}
        self._room = threading.Semaphore(2 * (os.cpu_count() or 1))  # more at once only lengthens the queue

    def site(self, what: dict[str, Any]) -> Site:
        """The world of an episode, from what the host says of it."""
        if what["kind"] == "app":
            return Application(what["name"], what["data"])
        path = what["archive"]
        if path not in self._archives:
            self._archives[path] = archive_of(path)
        if what["kind"] == "miniwob":
            return MiniWob(self._archives[path], what["name"], what["seed"])
        return Folder(self._archives[path], what["path"])

    def serve(self, connection: socket.socket) -> None:
        """One episode, until its environment hangs up."""
        episode = Episode(self.browser, self.server)
        try:
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    if "site" in request:
                        request["site"] = self.site(request["site"])
                    episode.pause(request)
                    with self._room:
                        answer = episode.answer(request)
                    connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # it hung up while we answered
        finally:
            episode.close()


def main() -> None:
    """Serve until the browser ends."""
    hub = Hub(sys.argv[1])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    listener.listen(256)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=hub.serve, args=(connection,), daemon=True).start()

    def control() -> None:
        for _ in sys.stdin:
            print(json.dumps({"version": hub.version, "browser": hub.browser.process.pid}), flush=True)

    for work in (accept, control):
        threading.Thread(target=work, daemon=True).start()
    hub.browser.reader.join()
    with open(f"{FOLDER}/said.txt", encoding="utf-8", errors="replace") as file:
        sys.stderr.write("the browser ended: " + file.read()[-500:])
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
