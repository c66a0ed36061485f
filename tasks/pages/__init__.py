"""Screenshots of real web pages with the boxes that the browser gave their elements: `gui/pages-v1`."""

from .photographs import picture
from .task_set import task_set

__all__ = ["picture", "task_set"]
