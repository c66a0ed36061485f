"""The apps for things on disk: files and music."""

from __future__ import annotations

from typing import Any

from agentgym import ToolError, tool

from ..record_app import NotFound, StoreApp, holds, listing
from ..record_store import Row, TableSchema


class FilesApp(StoreApp):
    """Text files in folders."""

    name = "files"
    tables = (TableSchema("files", ("path", "content", "modified")),)

    @tool
    def search(self, text: str = "", page: int = 0) -> dict[str, Any]:
        """Find files whose path holds a text. Each result has path and modified."""
        rows = sorted(
            (row for row in self.store.rows("files") if holds(row, text, "path")), key=lambda row: row["path"]
        )
        return listing(rows, page, "path", "modified")

    @tool
    def read(self, path: str) -> str:
        """The text of a file."""
        return str(self._file(path)["content"])

    @tool
    def write(self, path: str, content: str) -> str:
        """Write a file; one of this path is replaced."""
        if not path or path.startswith("/"):
            raise ToolError(f"{path[:60]!r} is no path here: write it as folder/name.txt.")
        existing = next(self.store.rows("files", path=path), None)
        if existing is None:
            self.store.insert("files", path=path, content=content, modified=self.today)
        else:
            self.store.update("files", existing["id"], content=content, modified=self.today)
        return "Written."

    @tool
    def move(self, path: str, new_path: str) -> str:
        """Give a file another path."""
        if next(self.store.rows("files", path=new_path), None) is not None:
            raise ToolError(f"There is already a file {new_path[:60]!r}.")
        self.store.update("files", self._file(path)["id"], path=new_path)
        return "Moved."

    @tool
    def delete(self, path: str) -> str:
        """Delete a file."""
        self.store.delete("files", self._file(path)["id"])
        return "Deleted."

    def _file(self, path: str) -> Row:
        row = next(self.store.rows("files", path=path), None)
        if row is None:
            raise NotFound(f"There is no file {path[:60]!r}. Look it up first.")
        return row


class MusicApp(StoreApp):
    """Songs and playlists."""

    name = "music"
    tables = (
        TableSchema("songs", ("title", "artist", "seconds")),
        TableSchema("playlists", ("name",)),
        TableSchema(
            "tracks", ("playlist_id", "song_id"), references=(("playlist_id", "playlists"), ("song_id", "songs"))
        ),
    )

    @tool
    def search(self, text: str = "", page: int = 0) -> dict[str, Any]:
        """Find songs whose title or artist holds a text. Each result has id, title, artist and seconds."""
        rows = (row for row in self.store.rows("songs") if holds(row, text, "title", "artist"))
        return listing(rows, page, "id", "title", "artist", "seconds")

    @tool
    def playlists(self) -> dict[str, Any]:
        """List the playlists. Each result has id and name."""
        return listing(self.store.rows("playlists"), 0, "id", "name")

    @tool
    def songs_of(self, playlist_id: int, page: int = 0) -> dict[str, Any]:
        """The songs of a playlist in order, with what a search shows."""
        self.row("playlists", playlist_id)
        tracks = self.store.rows("tracks", playlist_id=playlist_id)
        return listing((self.row("songs", t["song_id"]) for t in tracks), page, "id", "title", "artist", "seconds")

    @tool
    def create_playlist(self, name: str) -> dict[str, Any]:
        """Make an empty playlist."""
        return {"id": self.store.insert("playlists", name=name)["id"]}

    @tool
    def add_song(self, playlist_id: int, song_id: int) -> str:
        """Add a song at the end of a playlist."""
        self.row("playlists", playlist_id)
        self.row("songs", song_id)
        self.store.insert("tracks", playlist_id=playlist_id, song_id=song_id)
        return "Added."

    @tool
    def remove_song(self, playlist_id: int, song_id: int) -> str:
        """Take a song out of a playlist."""
        self.row("playlists", playlist_id)
        tracks = list(self.store.rows("tracks", playlist_id=playlist_id, song_id=song_id))
        if not tracks:
            raise ToolError("The song is not in that playlist.")
        self.store.delete("tracks", tracks[0]["id"])
        return "Removed."
