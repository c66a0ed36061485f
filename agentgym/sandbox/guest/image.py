"""Moves a spawner into an image, where the image's own Python continues with few rights, and none over the host.

An image is trusted less than this code. So a spawner that is root stays behind as a *keeper*, and its child continues
under a separate unprivileged user id: in its own namespaces, without network, with write access only to its own
control groups, and able to give sandboxes only the user ids meant for them. The keeper makes sure that the child
ends, and then removes the control groups.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from . import kernel, root
from .cgroups import Cgroups
from .frames import HOST_SOCKET, LINKED

MAX_PIDS = 1 << 22  # Linux's maximum. Sandboxes have user ids FIRST_HOST_ID + pid; spawners and layers follow
FIRST_HOST_ID = 2_000_000_000

_OWN_NAMESPACES = kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_NAMES = ("python3", *(f"python3.{minor}" for minor in range(20, 8, -1)), "python")
_FLAGS = ("-s", "-B", "-X", "utf8")
_TRIAL = """
import sys
if sys.version_info < (3, 9): sys.exit(41)
import ctypes, json, resource, select, socket
sys.exit(42)
"""
_TRIAL_S = 20.0
_BOOT = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
sys.path.insert(0, {folder!r})
from guest import spawner
sys.path.remove({folder!r})
spawner.resume({descriptor})
"""
_ENDING_S = 12.0
_GO = b"go"


class ImageRefused(Exception):
    """The image cannot be used. The message says why."""


def switch_to_image(config: dict[str, Any], own_id: int, *, as_root: bool) -> NoReturn:
    """Build the image's tree, move into it, and execute its Python. Never returns.

    Args:
        config: `image`: folder of the unpacked tree; `guest`: folder of this code; `programs`: folders of agent
            programs; `environment` of the interpreter;
            `preload`: names of modules. own_id: user id of this process in its user namespace.
    Raises: ImageRefused, OSError.
    """
    root.enter_image(config["image"], config["guest"], config["programs"])
    cgroups = Cgroups.open()
    sys.meta_path.clear()  # no imports from here on: they would come from the image
    root.move_into_image()
    if as_root:
        _become_unprivileged_user(cgroups)
    else:
        kernel.unshare(_OWN_NAMESPACES)
        kernel.keep_capabilities()  # user ids in a user namespace that has only this user
    interpreter = _interpreter(config["environment"])
    descriptor = os.memfd_create("handover", 0)
    handover = {
        "cgroups": cgroups.hand_over(),
        "preload": config["preload"],
        "as_root": as_root,
        "own_id": own_id,
        "layers": config["layers"],
    }
    os.write(descriptor, json.dumps(handover).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    boot = _BOOT.format(folder=os.path.dirname(root.GUEST), descriptor=descriptor)
    os.set_inheritable(HOST_SOCKET, True)
    arguments = sys.argv[1:]  # name the owner to anyone who lists the processes of this machine
    os.execve(interpreter, [interpreter, *_FLAGS, "-c", boot, *arguments], {**config["environment"], **LINKED})


def _become_unprivileged_user(cgroups: Cgroups) -> None:
    """Fork. The child returns as root of a user namespace that has no rights outside; the parent never returns."""
    ready_read, ready_write = os.pipe()
    go_read, go_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go_write)
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | _OWN_NAMESPACES)
        os.write(ready_write, b"r")
        answer = os.read(go_read, 1000)
        if answer != _GO:
            raise ImageRefused(
                f"the spawner process could not give up its privileges: {answer.decode() or 'its keeper died'}"
            )
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        kernel.die_with_parent()
        for descriptor in (ready_read, ready_write, go_read):
            os.close(descriptor)
        return
    try:
        os.close(ready_write)
        if os.read(ready_read, 1) == b"r":
            try:
                _map_ids(child, cgroups)
                os.write(go_write, _GO)
            except OSError as error:
                os.write(go_write, f"{error.strerror} at {error.filename}".encode())
        os.close(go_write)
        _run_keeper(child)
        cgroups.clear(give_up_s=5)
    finally:
        os._exit(0)


def _map_ids(child: int, cgroups: Cgroups) -> None:
    own = FIRST_HOST_ID + MAX_PIDS + os.getpid()
    for kind in ("uid", "gid"):
        with open(f"/proc/{child}/{kind}_map", "wb") as file:
            file.write(b"0 %d 1\n%d %d 1\n" % (own, root.AGENT_ID, own + MAX_PIDS))  # this user, and its layers' user
            # the user ids of sandboxes keep their numbers
            file.write(b"%d %d %d\n" % (FIRST_HOST_ID, FIRST_HOST_ID, MAX_PIDS))
    cgroups.delegate(own, child)


def _run_keeper(child: int) -> None:
    """Wait for the child's end. If the host has ended and the child does not end in time, kill it."""
    ended, host = os.pidfd_open(child), os.pidfd_open(os.getppid())
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(host, select.POLLIN)
    poll.register(HOST_SOCKET, 0)  # only for POLLHUP
    deadline = None
    while True:
        timeout_ms = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1000
        ready = {descriptor for descriptor, _ in poll.poll(timeout_ms)}
        if ended in ready:
            break
        if deadline is None:
            deadline = time.monotonic() + _ENDING_S
            poll.unregister(host)
            poll.unregister(HOST_SOCKET)
        elif time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _interpreter(environment: dict[str, str]) -> str:
    """Try each Python in the image, and return the path of the first that can run this code."""
    reasons = []
    for name in _NAMES:
        for folder in environment["PATH"].split(":"):
            path = f"{folder}/{name}"
            if not folder.startswith("/") or not os.path.isfile(path):
                continue
            reason = _try_interpreter(path, environment)
            if reason is None:
                return path
            reasons.append(f"{path} {reason}")
    tried = "; ".join(dict.fromkeys(reasons)) or f"none in {environment['PATH']}"
    raise ImageRefused(
        f"the image has no Python 3.9 or newer that runs on this machine ({tried}). Install one in the image"
    )


def _try_interpreter(path: str, environment: dict[str, str]) -> str | None:
    """Return why an interpreter cannot be used; None if it can."""
    try:
        pid = os.posix_spawn(path, [path, *_FLAGS, "-c", _TRIAL], environment)
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    ended = os.pidfd_open(pid)
    try:
        if not select.select([ended], [], [], _TRIAL_S)[0]:
            os.kill(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(ended)
    if code == 42:
        return None
    if code == 41:
        return "is older"
    return f"ended with signal {-code}" if code < 0 else "lacks a part of its standard library, or a shared library"
