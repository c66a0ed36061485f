"""Corpora and their indexes: built once, kept by their content, memory-mapped, shared read-only by every episode."""

from .opening import Library, open_library
from .retrievers import Hit, Retriever

__all__ = ["Hit", "Library", "Retriever", "open_library"]
