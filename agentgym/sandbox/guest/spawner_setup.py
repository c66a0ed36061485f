"""Turns a fresh process into a spawner that can serve: namespaces, file tree, control groups, warm modules."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import socket
import sys
import traceback
from typing import Any

from . import boot, files, identity, image, jobs, kernel, oom_score, python, root, seccomp, warmup
from .cgroups import Cgroups
from .frames import HOST_SOCKET, MAX_DATAGRAM


class SpawnerState:
    """The state of a spawner that has been set up.

    Attributes:
        as_root: it may give other user ids to its sandboxes.
        own_id: its own user id in its user namespace.
        layers: bytes of unpacked snapshots that it may keep.
        startup_error: the kind and text of the reply to every request; None if it can serve.
    """

    def __init__(self) -> None:
        self.as_root, self.own_id, self.layers = os.geteuid() == 0, 0, 0
        self.cgroups = Cgroups()
        self.startup_error: tuple[str, str] | None = None


def set_up_spawner(host: socket.socket) -> SpawnerState:
    """Set up as the host's first message says. If that names an image, the image's Python runs `resume_in_image`."""
    state = SpawnerState()
    try:
        _set_up(state, json.loads(host.recv(MAX_DATAGRAM)))
    except image.ImageRefused as error:
        state.startup_error = "image", str(error)
    except Exception:  # noqa: BLE001 - every request must be answered with it
        state.startup_error = "unavailable", f"the spawner could not set itself up:\n{traceback.format_exc()}"
    return state


def resume_in_image(descriptor: int) -> SpawnerState:
    """Finish the set-up in an image. `descriptor`: a file with the state that `image.switch_to_image` wrote."""
    state = SpawnerState()
    with open(descriptor, "rb") as file:
        handover = json.load(file)
    os.set_inheritable(HOST_SOCKET, False)
    state.as_root, state.own_id, state.layers = (handover[name] for name in ("as_root", "own_id", "layers"))
    state.cgroups = Cgroups.from_handover(handover["cgroups"])
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
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most <= boot.HIGHEST_DESCRIPTOR:
        text = f"the hard limit on open files is {most}, but setting a sandbox up takes {boot.HIGHEST_DESCRIPTOR + 1}"
        state.startup_error = "descriptors", text
        return
    oom_score.raise_own(oom_score.SPAWNER)
    state.layers = config["layers"]
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWNS | (0 if state.as_root else kernel.CLONE_NEWUSER))
    except OSError as error:
        state.startup_error = "unavailable", f"{error.strerror} at unshare"
        return
    if not state.as_root:
        kernel.write_to("/proc/self/setgroups", "deny")
        # Not 0 if there is an image: its Python starts in this user namespace, so the /proc files of each sandbox's
        # process 1 would belong to user 0 of this namespace. Without such a user they belong to the machine's root.
        state.own_id = root.AGENT_ID if "image" in config else 0
        kernel.write_to("/proc/self/uid_map", f"{state.own_id} {user} 1")
        kernel.write_to("/proc/self/gid_map", f"{state.own_id} {group} 1")
    if "image" in config:
        image.switch_to_image(config, state.own_id, as_root=state.as_root)
    if config["images"]:
        identity.AGENT, files.areas = 0, ()
    root.enter(config)
    state.cgroups = Cgroups.open()
    root.leave_host()
    if config["packages"]:
        sys.path.append(root.PACKAGES)
    _warm_up(state, config["preload"])


def _warm_up(state: SpawnerState, preload: list[str]) -> None:
    python.prepare()
    kernel.filter_at(seccomp.program(as_root=identity.is_root_by_name()))  # once, in memory that all share
    for name in preload:
        importlib.import_module(name)
    jobs.inherited_environment()
    if len(os.listdir("/proc/self/task")) > 1:
        text = f"preloading {', '.join(preload)} started threads; such a process cannot be forked"
        state.startup_error = "unavailable", text
        return
    with contextlib.suppress(OSError, RuntimeError):  # without this, sandboxes only cost more memory and time
        warmup.warm_up()
