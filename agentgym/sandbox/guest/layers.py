"""The layers a spawner keeps: unpacked file trees that sandboxes are stacked on, bounded in all.

All lie in one file system in memory, each in a folder of its own that is named by its key. A layer belongs to one
user id, which is that of every sandbox stacked on it: else those could not change its files. Only a confined
builder writes a layer, once; a layer that is in use is never removed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection

from . import archive, kernel
from .mounts import LAYER_STORE

FIRST_LAYER_ID = 1_990_000_000  # plus the pid of the builder of the lowest layer
_MOST_LAYERS = 256
_SMALL_FILE = 512  # bytes of an archive for each file, taken to bound their number
_GONE = "gone-"


class LayerRecord:
    """A layer that is kept, or being made. `parent`: key of the layer below, "" for the lowest. `size`: bytes."""

    def __init__(self, parent: str, size: int) -> None:
        self.parent, self.size, self.user, self.ready = parent, size, -1, False


class LayerStore:
    """What is kept, the least recently used first."""

    def __init__(self, most: int, run_in_child: Callable[[Callable[[], None]], None]) -> None:
        """`most`: bytes to keep in all. `run_in_child` has work done without waiting for it."""
        self.most, self.run_in_child = most, run_in_child
        self.kept: OrderedDict[str, LayerRecord] = OrderedDict()
        self.removed = 0
        self.mounted = False
        self.unusable = ""  # why there can be no layers on this machine, once that is known

    def missing(self, keys: list[str]) -> list[str]:
        """Which of these layers are not at hand; the others count as used now."""
        found = []
        for key in keys:
            if key in self.kept and self.kept[key].ready:
                self.kept.move_to_end(key)
            else:
                found.append(key)
        return found

    def being_made(self, key: str) -> bool:
        return key in self.kept and not self.kept[key].ready

    def set_up_spawner(self, key: str, parent: str, size: int, in_use: Collection[str]) -> str:
        """Make room and an empty folder for a layer of about `size` bytes. Returns: why not, or nothing."""
        if self.unusable:
            return self.unusable
        if parent and self.missing([parent]):
            return "the layer below is not at hand"
        while sum(layer.size for layer in self.kept.values()) + size > self.most or len(self.kept) >= _MOST_LAYERS:
            if not self._evict_one({*in_use, parent}):
                return f"the layers in use leave too little of the {self.most >> 20} MiB that may be kept"
        self._mount()
        os.mkdir(f"{LAYER_STORE}/{key}", 0o755)
        self.kept[key] = LayerRecord(parent, size)
        if not parent:
            for root, mode in archive.ROOTS.items():
                path = f"{LAYER_STORE}/{key}/{os.fsdecode(root)}"
                os.mkdir(path)
                os.chmod(path, mode)
        return ""

    def give(self, key: str, first: int) -> int:
        """Give a new layer's folder to its builder. `first`: the user id of a lowest layer. Returns: the user id."""
        layer = self.kept[key]
        layer.user = self.kept[layer.parent].user if layer.parent else first
        folders = [f"{LAYER_STORE}/{key}"]
        if not layer.parent:
            folders += [f"{LAYER_STORE}/{key}/{os.fsdecode(root)}" for root in archive.ROOTS]
        for folder in folders:
            os.chown(folder, layer.user, layer.user)
        return layer.user

    def finish(self, key: str, size: int) -> None:
        """A layer is made, and takes `size` bytes."""
        self.kept[key].size, self.kept[key].ready = size, True

    def abandon(self, key: str) -> None:
        """Remove a layer that was not finished; nothing happens if it was."""
        if key in self.kept and not self.kept[key].ready:
            self._drop(key)

    def _evict_one(self, in_use: set[str]) -> bool:
        parents = {layer.parent for layer in self.kept.values()}
        for key, layer in self.kept.items():
            if layer.ready and key not in in_use and key not in parents:
                self._drop(key)
                return True
        return False

    def _drop(self, key: str) -> None:
        del self.kept[key]
        self.removed += 1
        gone = f"{_GONE}{self.removed}"
        os.rename(f"{LAYER_STORE}/{key}", f"{LAYER_STORE}/{gone}")
        try:
            self.run_in_child(lambda: _remove([gone]))  # it may hold many files
        except OSError:  # no more processes: then all has to wait
            _remove([gone])

    def _mount(self) -> None:
        """At first use, so that sandboxes without layers carry nothing of it. A quarter more for what is going."""
        if not self.mounted:
            size = self.most + self.most // 4
            options = f"size={size},nr_inodes={size // _SMALL_FILE},mode=0700"
            kernel.mount("tmpfs", LAYER_STORE, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
            try:
                _try_overlay()
            except OSError as error:
                kernel.detach(LAYER_STORE)
                self.unusable = f"no overlay in memory: {error.strerror}"
                raise
            self.mounted = True


def _try_overlay() -> None:
    """Raises: OSError where there is no overlay file system, or none in memory with the attributes it needs."""
    names = ["lower", "upper", "index", "merged"]
    lower, upper, index, merged = (f"{LAYER_STORE}/{name}" for name in names)
    for name in names:
        os.mkdir(f"{LAYER_STORE}/{name}")
    os.setxattr(lower, archive.OPAQUE, b"y")  # Linux 6.6
    kernel.mount("overlay", merged, "overlay", 0, f"lowerdir={lower},upperdir={upper},workdir={index},userxattr")
    kernel.detach(merged)
    _remove(names)


def _remove(names: list[str]) -> None:
    """Remove folders of the store."""
    store = os.open(LAYER_STORE, os.O_PATH | os.O_DIRECTORY)
    try:
        for name in names:
            archive.clear(store, os.fsencode(name), itself=True)
    finally:
        os.close(store)
