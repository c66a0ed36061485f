"""The task set `gui/pages-v1`: screenshots of real web pages with the browser's own bounding boxes of elements."""

from .photographs import picture
from .task_set import task_set

__all__ = ["picture", "task_set"]
