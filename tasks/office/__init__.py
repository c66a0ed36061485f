"""Small office jobs on a desktop: sheets, letters, pictures, archives, texts and files, in eight programs."""

from .task_set import task_set

__all__ = ["task_set"]
