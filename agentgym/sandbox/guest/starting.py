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

from . import image, jobs, kernel, python, rehearsal, root, seccomp
from .cgroups import Cgroups
from .frames import HOST_SOCKET, MAX_DATAGRAM


class Standing:
    """How a spawner stands once it has started.

    Attributes:
        own_id: its user id in its user namespace. `as_root`: it can give others to its sandboxes.
        layers: bytes of unpacked snapshots that it may keep.
        broken: kind and text of what every order has to be answered with; None if it can serve.
    """

    def __init__(self) -> None:
        self.as_root, self.own_id, self.layers = os.geteuid() == 0, 0, 0
        self.cgroups = Cgroups()
        self.broken: tuple[str, str] | None = None


def begin(host: socket.socket) -> Standing:
    """Set up as the host's first message says. If that names an image, its Python goes on, at `go_on`, and not we."""
    standing = Standing()
    try:
        _set_up(standing, json.loads(host.recv(MAX_DATAGRAM)))
    except image.Refused as error:
        standing.broken = "image", str(error)
    except Exception:  # noqa: BLE001 - whatever it is, each order must be answered with it
        standing.broken = "unavailable", f"the spawner could not set itself up:\n{traceback.format_exc()}"
    return standing


def go_on(descriptor: int) -> Standing:
    """What remains to be done in an image. `descriptor`: where the process that moved into it left what it knows."""
    standing = Standing()
    with open(descriptor, "rb") as file:
        handover = json.load(file)
    os.set_inheritable(HOST_SOCKET, False)
    standing.as_root, standing.own_id, standing.layers = (handover[name] for name in ("as_root", "own_id", "layers"))
    standing.cgroups = Cgroups.taken_over(handover["cgroups"])
    try:
        _warm_up(standing, handover["preload"])
    except Exception:  # noqa: BLE001 - as above; the modules are the image's
        standing.broken = "image", f"it cannot preload {', '.join(handover['preload'])}:\n{traceback.format_exc()}"
    return standing


def _set_up(standing: Standing, config: dict[str, Any]) -> None:
    reason = kernel.unsupported()
    if reason:
        standing.broken = "unavailable", reason
        return
    standing.layers = config["layers"]
    user, group = os.geteuid(), os.getegid()
    try:
        kernel.unshare(kernel.CLONE_NEWNS | (0 if standing.as_root else kernel.CLONE_NEWUSER))
    except OSError as error:
        standing.broken = "unavailable", f"{error.strerror} at unshare"
        return
    if not standing.as_root:
        kernel.write_to("/proc/self/setgroups", "deny")
        # not as 0, under an image: its Python starts in here, so the /proc files of sandboxes' process 1 will belong
        # to user 0 of this namespace, if there is one, and to the machine's root if not
        standing.own_id = root.AGENT_ID if "image" in config else 0
        kernel.write_to("/proc/self/uid_map", f"{standing.own_id} {user} 1")
        kernel.write_to("/proc/self/gid_map", f"{standing.own_id} {group} 1")
    if "image" in config:
        image.move_in(config, standing.own_id, as_root=standing.as_root)
    root.enter(config)
    standing.cgroups = Cgroups.open()
    root.leave_host()
    if config["packages"]:
        sys.path.append(root.PACKAGES)
    _warm_up(standing, config["preload"])


def _warm_up(standing: Standing, preload: list[str]) -> None:
    python.prepare()
    kernel.filter_at(seccomp.program())  # where every fork finds it
    for name in preload:
        importlib.import_module(name)
    jobs.inherited_environment()
    if len(os.listdir("/proc/self/task")) > 1:
        text = f"preloading {', '.join(preload)} started threads; such a process cannot be forked"
        standing.broken = "unavailable", text
        return
    with contextlib.suppress(OSError, RuntimeError):  # without it sandboxes cost more, and are no worse
        rehearsal.rehearse()
