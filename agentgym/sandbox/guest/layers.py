"""The layers that a spawner keeps: unpacked file trees that sandboxes mount as lower layers of an overlay.

All are in one tmpfs, each in a folder named by its key, and belong to one user id. Each sandbox gets private mounts, in
which the files belong to its own user id, so that it can change them. Only a confined
builder process writes a layer, and only once. A layer in use is never removed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from . import archive, identity, kernel
from .mounts import LAYER_STORE
from .root import IMAGES

_MAX_LAYERS = 256
_SMALL_FILE = 512  # the tmpfs has one inode per so many bytes
_GONE = "gone-"


class LayerRecord:
    """A layer that is kept or being built. `parent`: key of the layer below, "" for the lowest. `size`: bytes."""

    def __init__(self, parent: str, size: int) -> None:
        self.parent, self.size, self.ready = parent, size, False


class LayerStore:
    """The kept layers, the least recently used first."""

    def __init__(self, max_bytes: int, run_in_child: Callable[[Callable[[], None]], None], own_id: int | None) -> None:
        """Begin without layers.

        Args:
            max_bytes: the most bytes of all layers together. run_in_child: runs a function in a child process.
            own_id: the user id of every sandbox, if sandboxes cannot have separate user ids; else None.
        """
        self.max_bytes, self.run_in_child, self.own_id = max_bytes, run_in_child, own_id
        # the owner of all files, as its user id inside a sandbox
        self.user = identity.AGENT if own_id is None else own_id
        self.layers: OrderedDict[str, LayerRecord] = OrderedDict()
        self.removed_count = 0
        self.mounted = False
        self.unusable = ""  # once known, the reason why layers do not work on this machine

    def missing(self, keys: list[str]) -> list[str]:
        """Return those of the layers that are not kept, and mark the others as just used."""
        missing = []
        for key in keys:
            if key in self.layers and self.layers[key].ready:
                self.layers.move_to_end(key)
            else:
                missing.append(key)
        return missing

    def being_made(self, key: str) -> bool:
        return key in self.layers and not self.layers[key].ready

    def start_layer(self, key: str, parent: str, size: int, in_use: Collection[str]) -> str:
        """Make room and an empty folder for a layer of about `size` bytes. Returns: why that is impossible, or ""."""
        if self.unusable:
            return self.unusable
        if parent and self.missing([parent]):
            return "the layer below is not kept"
        while (
            sum(layer.size for layer in self.layers.values()) + size > self.max_bytes or len(self.layers) >= _MAX_LAYERS
        ):
            if not self._evict_oldest({*in_use, parent}):
                return f"the layers in use leave too little room of the {self.max_bytes >> 20} MiB that may be kept"
        self._mount()
        self.layers[key] = LayerRecord(parent, size)
        self._make_folder(key, 0o755)
        if not parent:
            for root, mode in archive.ROOTS.items():
                self._make_folder(f"{key}/{os.fsdecode(root)}", mode)
        return ""

    def _make_folder(self, path: str, mode: int) -> None:
        os.mkdir(f"{LAYER_STORE}/{path}")
        os.chmod(f"{LAYER_STORE}/{path}", mode)
        os.chown(f"{LAYER_STORE}/{path}", self.user, self.user)

    def mount_for(self, keys: Sequence[str], pid: int, images: Sequence[str] = ()) -> list[int]:
        """Return descriptors of new mounts of these layers, in which the files belong to the user of process `pid`.

        `images`: the layers of an image below them, as folders in IMAGES.

        Raises: OSError; no descriptor stays open.
        """
        folders = [*(f"{IMAGES}/{name}/root" for name in images), *(f"{LAYER_STORE}/{key}" for key in keys)]
        mounts: list[int] = []
        user_namespace = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
        try:
            for folder in folders:
                mounts.append(kernel.copy_mount(folder))
                if self.own_id is None:
                    kernel.map_ids(mounts[-1], user_namespace)
        except OSError:
            for mount in mounts:
                os.close(mount)
            raise
        finally:
            os.close(user_namespace)
        return mounts

    def finish(self, key: str, size: int) -> None:
        """Record that a layer was built and takes `size` bytes."""
        self.layers[key].size, self.layers[key].ready = size, True

    def abandon(self, key: str) -> None:
        """Remove a layer that was not finished. A finished layer stays."""
        if key in self.layers and not self.layers[key].ready:
            self._drop(key)

    def _evict_oldest(self, in_use: set[str]) -> bool:
        parents = {layer.parent for layer in self.layers.values()}
        for key, layer in self.layers.items():
            if layer.ready and key not in in_use and key not in parents:
                self._drop(key)
                return True
        return False

    def _drop(self, key: str) -> None:
        del self.layers[key]
        self.removed_count += 1
        gone = f"{_GONE}{self.removed_count}"
        os.rename(f"{LAYER_STORE}/{key}", f"{LAYER_STORE}/{gone}")
        try:
            self.run_in_child(lambda: _remove([gone]))  # the layer may have many files, so removing it takes time
        except OSError:  # the process limit is reached, so remove it here
            _remove([gone])

    def _mount(self) -> None:
        """Mount the tmpfs, once, a quarter larger than `max_bytes`: layers that are being deleted still take space."""
        if not self.mounted:
            size = self.max_bytes + self.max_bytes // 4
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
    """Raise OSError if overlays on tmpfs, with user extended attributes, do not work here."""
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
