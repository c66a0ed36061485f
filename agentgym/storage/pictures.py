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
    """Create the table if it is missing, as in ledgers from an earlier agentgym."""
    connection.execute(_SCHEMA)


def write(connection: sqlite3.Connection, images: Iterable[ImagePart]) -> None:
    """Store the images not stored yet."""
    connection.executemany(_WRITE, ((image.digest, *_packed(image.data)) for image in images))


def fetch(connection: sqlite3.Connection, digest: str) -> str:
    """Return the data of an image, exactly as it was given.

    Raises: KeyError if there is no image with that digest; ValueError if its data does not match the digest.
    """
    row = connection.execute(_READ, (digest,)).fetchone()
    if row is None:
        raise KeyError(f"there is no image {digest}")
    plain, data = row
    text = str(data, "utf-8", "surrogatepass") if plain else base64.b64encode(data).decode()
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != digest:
        raise ValueError(f"the image {digest} is damaged")
    return text


def _packed(data: str) -> tuple[bool, bytes]:
    """Return (False, decoded bytes), which save a quarter; (True, data as text) if the data is not canonical base64."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return True, data.encode("utf-8", "surrogatepass")
    exact = base64.b64encode(decoded).decode() == data
    return (False, decoded) if exact else (True, data.encode("utf-8", "surrogatepass"))
