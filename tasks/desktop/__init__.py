"""Small jobs on a desktop: files to write, change, move and count with an editor, a file manager and a terminal."""

from .task_set import task_set

__all__ = ["task_set"]
