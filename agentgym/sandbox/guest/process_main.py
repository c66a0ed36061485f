"""The guest's start among the machine's other processes, where no namespaces can be made.

Landlock and a filter of system calls take from it what it does not need; `path_tracer` shows agent code its folders
under the usual names. A process of its own traces the guest's children, and ends with the guest.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import socket
import sys
import traceback
from typing import Any, NoReturn

from . import boot, frames, identity, kernel, landlock, path_tracer, python, root, seccomp, server, surroundings

_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# of /proc, agent code sees what is about no process
_FACTS = tuple(
    f"/proc/{name}" for name in ("cpuinfo", "meminfo", "stat", "uptime", "loadavg", "version", "filesystems")
)
_SHARED_ROOM = 512  # processes that a sandbox may have beside all others of its user, until they are seen
_RESERVED = range(boot.CONTROL, boot.CONTROL + 4)  # where agent code gets its descriptors
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def main(descriptor: int) -> None:
    """Serve the host over a socket, until the host closes it."""
    os.umask(0o022)
    for number in _RESERVED:
        os.dup2(0, number)  # /dev/null
    os.dup2(descriptor, boot.CONTROL, inheritable=False)
    os.close(descriptor)
    control = socket.socket(fileno=boot.CONTROL)
    order = _read_order(control)
    try:
        own_user = os.geteuid() == 0
        surroundings.folder, surroundings.moved = order["folder"], (*surroundings.AREAS, *order["moved"])
        _become(order["user"])
        partly, readable, writable = *_readable(order), _writable(order)
        inner = landlock.rules(partly, [*readable, *_FACTS], writable, scoped=False)
        # the tracer too: otherwise the guest's children, which must stay among themselves, could not call it
        landlock.enter(landlock.rules(partly, [*readable, "/proc"], writable, scoped=True))
        path_tracer.start(lambda: _serve(control, order), inner, shares_user=not own_user)
    except Exception as error:  # noqa: BLE001 - every failure is reported to the host
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        control.sendall(frames.encode({"id": 0, "error": "setup", "text": text[:8000]}))


def _read_order(control: socket.socket) -> dict[str, Any]:
    """Return the host's first frame: the limits, and where the folders of the sandbox are."""
    reader = frames.FrameReader(1 << 26, 0)
    while (frame := reader.next()) is None:
        data = control.recv(1 << 16)
        if not data:
            os._exit(1)
        reader.feed(data)
    return frame[0]


def _serve(control: socket.socket, order: dict[str, Any]) -> NoReturn:
    kernel.die_with_parent()
    kernel.adopt_orphans()
    identity.AGENT = os.getuid()
    os.environ.clear()
    os.environ.update(order["environment"])
    python.prepare()
    sys.path += filter(None, [order["environment"].get("PYTHONPATH")])
    for name in order["preload"]:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        raise OSError(f"preloading {', '.join(order['preload'])} started threads; such a process cannot be forked")
    processes = order["processes"] + 1  # the tracer is of the same user
    if "processes" in order["missing"]:
        processes = _tasks_of_user() + max(order["processes"], _SHARED_ROOM)
    for kind, most in boot.limits_of(order["open_files"], processes, order["disk"], order["address_space"]):
        resource.setrlimit(kind, (most, most))
    kernel.install_filter(seccomp.program(sockets=False))
    kernel.set_dumpable(False)
    gc.disable()
    gc.collect()
    gc.freeze()
    control.sendall(server.greeting(order))
    server.serve(control, order, None)


def _become(user: int) -> None:
    """Act as another user, for good, if this process is root."""
    if os.geteuid() != 0:
        return
    for capability in range(kernel.capabilities()):
        with contextlib.suppress(OSError):  # a container may not let its root do this; nothing that runs here has any
            kernel.drop_from_bounding_set(capability)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    kernel.set_dumpable(True)


def _tasks_of_user() -> int:
    """Return how many processes and threads this process's user has now."""
    count = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _readable(order: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return of which folders agent code may read the names, and what it may read: the machine's programs, without the
    packages that may hold tasks.
    """
    partly: list[str] = []
    paths = [path for folder in (*_FOLDERS, *order["readable"]) for path in _without(folder, order["hidden"], partly)]
    return partly, [
        *paths,
        *order["packages"],
        order["folder"],
        *(f"/etc/{name}" for name in root.ETC_OF_HOST),
    ]


def _writable(order: dict[str, Any]) -> list[str]:
    return [*(order["folder"] + area for area in surroundings.AREAS), *(f"/dev/{name}" for name in _DEVICES)]


def _without(folder: str, hidden: list[str], partly: list[str]) -> list[str]:
    """Return the folder or, if something in it is hidden, everything else in it, and add it to `partly`."""
    folder = os.path.realpath(folder)
    inside = [path for path in hidden if path == folder or path.startswith(f"{folder}/")]
    if not inside:
        return [folder]
    if folder in inside or not os.access(folder, os.R_OK):
        return []
    partly.append(folder)
    return [path for name in os.listdir(folder) for path in _without(f"{folder}/{name}", inside, partly)]
