"""From a fresh process to a spawner that can serve: its namespaces, its file tree, its control groups, warm modules."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import sys
import traceback
from typing import Any

from . import image, jobs, kernel, python, root, seccomp, warmup
from .cgroups import Cgroups
from .frames import HOST_SOCKET, MAX_DATAGRAM


class SpawnerState:
    """How a spawner stands once it has started.

    Attributes:
        own_id: its user id in its user namespace. `as_root`: it can give others to its sandboxes.
        layers: bytes of unpacked snapshots that it may keep.
        broken: kind and text of what every order has to be answered with; None if it can serve.
    """

    def __init__(self) -> None:
        self.as_root, self.own_id, self.layers = os.geteuid() == 0, 0, 0
        self.cgroups = Cgroups()
        self.startup_error: tuple[str, str] | None = None


def set_up_spawner(host: socket.socket) -> SpawnerState:
    """Set up as the host's first message says. If it names an image, its Python continues: `resume_in_image`."""
    state = SpawnerState()
    try:
        _set_up(state, json.loads(host.recv(MAX_DATAGRAM)))
    except image.ImageRefused as error:
        state.startup_error = "image", str(error)
    except Exception:  # noqa: BLE001 - whatever it is, each order must be answered with it
        state.startup_error = "unavailable", f"the spawner could not set itself up:\n{traceback.format_exc()}"
    return state


def resume_in_image(descriptor: int) -> SpawnerState:
    """What remains to be done in an image. `descriptor`: where the process that moved into it left what it knows."""
    state = SpawnerState()
    with open(descriptor, "rb") as file:
        handover = json.load(file)
    os.set_inheritable(HOST_SOCKET, False)
    state.as_root, state.own_id, state.layers = (handover[name] for name in ("as_root", "own_id", "layers"))
    state.cgroups = Cgroups.taken_over(handover["cgroups"])
    try:
        _warm_up(state, handover["preload"])
    except Exception:  # noqa: BLE001 - as above; the modules are the image's
        state.startup_error = "image", f"it cannot preload {', '.join(handover['preload'])}:\n{traceback.format_exc()}"
    return state


def _set_up(state: SpawnerState, config: dict[str, Any]) -> None:
    reason = kernel.unsupported()
    if reason:
        state.startup_error = "unavailable", reason
        return
    state.layers = config["layers"]
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWNS | (0 if state.as_root else kernel.CLONE_NEWUSER))
    except OSError as error:
        state.startup_error = "unavailable", f"{error.strerror} at unshare"
        return
    if not state.as_root:
        kernel.write_to("/proc/self/setgroups", "deny")
        # not as 0, under an image: its Python starts in here, so the /proc files of sandboxes' process 1 will belong
        # to user 0 of this namespace, if there is one, and to the machine's root if not
        state.own_id = root.AGENT_ID if "image" in config else 0
        kernel.write_to("/proc/self/uid_map", f"{state.own_id} {user} 1")
        kernel.write_to("/proc/self/gid_map", f"{state.own_id} {group} 1")
    if "image" in config:
        image.switch_to_image(config, state.own_id, as_root=state.as_root)
    root.enter(config)
    state.cgroups = Cgroups.open()
    root.leave_host()
    if config["packages"]:
        sys.path.append(root.PACKAGES)
    _warm_up(state, config["preload"])


def _warm_up(state: SpawnerState, preload: list[str]) -> None:
    python.prepare()
    kernel.filter_at(seccomp.program())  # where every fork finds it
    for name in preload:
        importlib.import_module(name)
    jobs.inherited_environment()
    if len(os.listdir("/proc/self/task")) > 1:
        text = f"preloading {', '.join(preload)} started threads; such a process cannot be forked"
        state.startup_error = "unavailable", text
        return
    with contextlib.suppress(OSError, RuntimeError):  # without it sandboxes cost more, and are no worse
        warmup.warm_up()
