"""Sandboxes for machines that allow no user namespaces: Landlock, a filter of system calls, and a traced process tree.

backend.py    creates sandboxes, each a guest process with a folder of its own
folders.py    the folders of sandboxes, their users, and what dead processes left of them
"""

from agentgym.sandbox.landlock.backend import LandlockBackend as LandlockBackend  # named by the entry point
