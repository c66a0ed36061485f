"""The process that drives the browser for all episodes, with one thread for each.

Started as `python3 -m guest.hub PROGRAM`. It reads and writes JSON lines: the host's control messages on its standard
streams, those of the episodes on a socket (through relay.py). It ends when the browser ends.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import zipfile
from typing import Any

from .cdp import ChromiumProcess
from .episode import BrowserEpisode
from .own_app import OwnApp
from .server import PageServer
from .sites import Application, Folder, MiniWob, Site, archive_of

SOCKET, FOLDER = "/tmp/hub.sock", "/tmp/browser"
FONTS = (
    "<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/browser/fonts</cachedir><selectfont><rejectfont>"
    '<pattern><patelt name="fontformat"><string>Type 1</string></patelt></pattern>'
    "</rejectfont></selectfont></fontconfig>"
)
"""Excludes Type 1 fonts, which Chromium cannot draw: when it chose one for its weight, the text had no size."""


class Hub:
    """Owns the browser, the page server and the opened archives of pages."""

    def __init__(self, program: str) -> None:
        os.makedirs(FOLDER, exist_ok=True)
        with open(f"{FOLDER}/fonts.conf", "w", encoding="utf-8") as file:
            file.write(FONTS)
        self.browser = ChromiumProcess(program, FOLDER)
        self.version = self.browser.call("Browser.getVersion", timeout_s=60)["product"]
        self.server = PageServer(self.browser)
        self._archives: dict[str, zipfile.ZipFile] = {}
        slots = 2 * (os.cpu_count() or 1)  # more sites at once would only make the queue longer
        self._acting, self._beginning = threading.Semaphore(slots), threading.Semaphore(slots)  # starts may be slow

    def site(self, description: dict[str, Any]) -> Site:
        """Return the site of an episode, from the host's description of it."""
        if description["kind"] == "app":
            return Application(description["name"], description["data"])
        for path in description["archives"]:
            if path not in self._archives:
                self._archives[path] = archive_of(path)
        archives = [self._archives[path] for path in description["archives"]]
        if description["kind"] == "server":
            return OwnApp(description, archives)
        if description["kind"] == "miniwob":
            return MiniWob(archives[0], description["name"], description["seed"])
        return Folder(archives[0], description["host"], description["path"], description["state"])

    def serve(self, connection: socket.socket) -> None:
        """Serve one episode until its environment closes the connection."""
        episode = BrowserEpisode(self.browser, self.server)
        try:
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    slots = self._beginning if "site" in request else self._acting
                    if "site" in request:
                        request["site"] = self.site(request["site"])
                    episode.pause(request)
                    with slots:
                        answer = episode.answer(request)
                    connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            pass  # the environment closed the connection meanwhile
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
    with open(f"{FOLDER}/log.txt", encoding="utf-8", errors="replace") as file:
        sys.stderr.write("the browser ended: " + file.read()[-500:])
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main()
