"""Corpora and their indexes: built once, stored by a hash of the content, memory-mapped, shared by all episodes."""

from .opening import Library, open_library
from .retrievers import Hit, Retriever

__all__ = ["Hit", "Library", "Retriever", "open_library"]
