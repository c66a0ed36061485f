"""Root file systems for sandboxes: found, unpacked once by content, and kept.

store.py      the cache of unpacked images           archive.py   reading a hostile archive, entry by entry
sources.py    folders, tars, OCI layouts             tree.py      writing its files, and nothing beside them
"""

from agentgym.sandbox.images.store import HOST, Image, cache, locate, names, prepare

__all__ = ["HOST", "Image", "cache", "locate", "names", "prepare"]
