"""Hashed page titles, by which a search environment recognises a page but cannot read its title."""

from __future__ import annotations

import hashlib


def landmark(title: str) -> str:
    """Return the hash of a title as used in task parameters, ignoring case and white space."""
    return hashlib.sha256(" ".join(title.casefold().split()).encode()).hexdigest()[:16]
