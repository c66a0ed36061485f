"""Root file systems for sandboxes: an image is found, unpacked once by content, and kept in the cache.

store.py      the cache of unpacked images           archive.py   reads a hostile archive, entry by entry
sources.py    folders, tars, OCI layouts             tree.py      writes the files of an image, and nothing outside
"""

from agentgym.sandbox.rootfs.store import HOST_IMAGE, RootFilesystem, cache_folder, locate, names, prepare_rootfs

__all__ = ["HOST_IMAGE", "RootFilesystem", "cache_folder", "locate", "names", "prepare_rootfs"]
