"""The files of an episode: files that the agent may upload, and files that it has downloaded."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from typing import Any

from .cdp import ChromiumProcess
from .tab import NotPossible

FOLDER, SHOWN_BYTES, MAX_FILES = "/tmp/files", 65_536, 20
_DOWNLOAD_S = 10.0


class Downloads:
    """The downloads of all episodes, as the browser reports them, by the id that is the file's name in its folder."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._states: dict[str, str] = {}
        # functions to call with the frame in which a download begins
        self.watchers: set[Callable[[str], object]] = set()

    def on_event(self, method: str, params: dict[str, Any]) -> None:
        """Handle an event of the browser. Called on the reading thread."""
        guid = params["guid"]
        if method == "Browser.downloadWillBegin":
            self._names[guid], self._states[guid] = str(params.get("suggestedFilename", "")), "inProgress"
            for watcher in list(self.watchers):
                watcher(params["frameId"])
        elif guid in self._states:
            self._states[guid] = str(params.get("state", ""))

    def name(self, guid: str) -> str:
        return self._names.get(guid, "")

    def is_complete(self, guid: str) -> bool:
        return self._states.get(guid) != "inProgress"


class EpisodeFiles:
    """The folder of one episode."""

    def __init__(self, browser: ChromiumProcess, downloads: Downloads, context: str, files: dict[str, str]) -> None:
        """Write the files for uploads, and make the browser store this context's downloads in the folder.

        Args:
            files: contents in base64, by name.
        """
        self._downloads = downloads
        self._folder = f"{FOLDER}/{context}"
        self._incoming, self._names = f"{self._folder}/incoming", list(files)
        self._arrived: list[str] = []
        os.makedirs(self._incoming, exist_ok=True)
        for name, content in files.items():
            with open(f"{self._folder}/{name}", "wb") as file:
                file.write(base64.b64decode(content))
        browser.call(
            "Browser.setDownloadBehavior",
            {
                "behavior": "allowAndName",
                "browserContextId": context,
                "downloadPath": self._incoming,
                "eventsEnabled": True,
            },
        )

    def paths(self, names: list[str]) -> list[str]:
        """Return the paths of files. Raises: NotPossible for an unknown file."""
        available = [*self._names, *self._arrived]
        for name in names:
            if name not in available:
                raise NotPossible(f"There is no file {name[:60]!r}. Files: {', '.join(available)[:300] or 'none'}.")
        if not names:
            raise NotPossible(f"Name a file. Files: {', '.join(available)[:300] or 'none'}.")
        return [f"{self._folder}/{name}" for name in names]

    def news(self) -> list[list[Any]]:
        """Return name and size in bytes of the files that arrived since the last call; wait for running downloads."""
        deadline = time.monotonic() + _DOWNLOAD_S
        news: list[list[Any]] = []
        for entry in os.listdir(self._incoming):
            guid = entry.partition(".")[0]
            while not self._downloads.is_complete(guid) and time.monotonic() < deadline:
                time.sleep(0.02)
            path = f"{self._incoming}/{guid}"
            if not os.path.exists(path):
                continue
            if len(self._arrived) >= MAX_FILES:
                os.remove(path)
                continue
            name = self._free_name(os.path.basename(self._downloads.name(guid)) or "download")
            os.rename(path, f"{self._folder}/{name}")
            self._arrived.append(name)
            news.append([name, os.path.getsize(f"{self._folder}/{name}")])
        return news

    def downloaded(self) -> dict[str, str]:
        """Return the downloaded files by name: each file's text, or its hash if it is long or not text."""
        contents = {}
        for name in self._arrived:
            with open(f"{self._folder}/{name}", "rb") as file:
                data = file.read(64 << 20)
            try:
                contents[name] = data.decode() if len(data) <= SHOWN_BYTES else ""
            except UnicodeDecodeError:
                contents[name] = ""
            contents[name] = contents[name] or f"sha256:{hashlib.sha256(data).hexdigest()}"
        return contents

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _free_name(self, name: str) -> str:
        """Return the name, with a number if a file already has the name."""
        stem, extension = os.path.splitext(name.replace("/", "_")[:100])
        number, free = 1, f"{stem}{extension}"
        while free in self._names or free in self._arrived or free == "incoming":
            free = f"{stem} ({number}){extension}"
            number += 1
        return free
