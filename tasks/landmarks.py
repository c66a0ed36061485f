"""Hashed page titles: a search environment recognises a page by them and cannot read the title beforehand."""

from __future__ import annotations

import hashlib


def landmark(title: str) -> str:
    """Return the hash of a title as it stands in task parameters, blind to case and white space."""
    return hashlib.sha256(" ".join(title.casefold().split()).encode()).hexdigest()[:16]
