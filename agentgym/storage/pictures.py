"""Images of a ledger: each is stored once, by the hash of its data, however many turns and episodes show it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import sqlite3
from collections.abc import Iterable

from agentgym.messages import ImagePart

_SCHEMA = "CREATE TABLE IF NOT EXISTS image (digest TEXT PRIMARY KEY, plain INTEGER NOT NULL, data BLOB NOT NULL)"
_WRITE = "INSERT OR IGNORE INTO image VALUES (?, ?, ?)"
_READ = "SELECT plain, data FROM image WHERE digest = ?"


def create(connection: sqlite3.Connection) -> None:
    """Make the table where it is missing, as in a ledger of an earlier agentgym."""
    connection.execute(_SCHEMA)


def write(connection: sqlite3.Connection, images: Iterable[ImagePart]) -> None:
    """Keep the images that are not kept yet."""
    connection.executemany(_WRITE, ((image.digest, *_packed(image.data)) for image in images))


def fetch(connection: sqlite3.Connection, digest: str) -> str:
    """Return the data of an image, exactly as it was given.

    Raises: KeyError when there is none of that digest; ValueError when it is not what was written.
    """
    row = connection.execute(_READ, (digest,)).fetchone()
    if row is None:
        raise KeyError(f"image {digest}")
    plain, data = row
    text = str(data, "utf-8", "surrogatepass") if plain else base64.b64encode(data).decode()
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != digest:
        raise ValueError(f"image {digest} is not what was written")
    return text


def _packed(data: str) -> tuple[bool, bytes]:
    """Return decoded, which is a quarter smaller; as it stands (`plain`) if it is not exactly what base64 writes."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return True, data.encode("utf-8", "surrogatepass")
    exact = base64.b64encode(decoded).decode() == data
    return (False, decoded) if exact else (True, data.encode("utf-8", "surrogatepass"))
