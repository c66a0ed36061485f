"""Titles that can be recognised and not read: what a search environment measures progress by."""

from __future__ import annotations

import hashlib


def landmark(title: str) -> str:
    """The hash of a title, as task parameters hold it: the environment knows the page once it sees it."""
    return hashlib.sha256(" ".join(title.casefold().split()).encode()).hexdigest()[:16]
