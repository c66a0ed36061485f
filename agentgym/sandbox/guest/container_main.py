"""The guest's start inside a container. The container runtime isolates the guest, which only has to drop privileges.

It runs as the container's process 1 and root, connects to the host over the one socket in `SOCKET_FOLDER`, and reads
its request from there. All but the most basic modules are imported after that, so that an image whose Python is too old
or incomplete is reported to the host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from typing import Any

from . import architecture, frames

FOLDER = "/.agentgym/code"  # the guest's sources inside a container
SOCKET_FOLDER = "/.agentgym/meeting"  # the directory with the host's socket
SOCKET_NAME = "socket"
GUEST_CAPABILITIES = {"KILL": 5, "SETGID": 6, "SETUID": 7}  # capabilities that the guest needs while it serves
START_CAPABILITIES = (
    *GUEST_CAPABILITIES,
    "SETPCAP",
)  # capabilities that it needs at its start; the last one empties the bounding set
FILES = "/.agentgym/files"  # with a writable root: the tmpfs with everything that the sandbox writes, ...
FILES_INODES = 14  # ... how many of its files are not the agent's, ...
OWN = "/.agentgym/own"  # ... the guest's own Python, ...
ROOT_CAPABILITIES = {"DAC_OVERRIDE": 1, "FOWNER": 3}  # ... what guest and agent may do with files of other owners, ...
ROOT_START_CAPABILITIES = (*ROOT_CAPABILITIES, "SETGID", "SETPCAP", "SYS_ADMIN", "SYS_CHROOT")  # ... and the start
_MAX_DESCRIPTORS = 17
_MEMORY_FILES = (
    ("memory/memory.oom_control", "memory/memory.max_usage_in_bytes"),  # control groups version 1
    ("memory.events", "memory.peak"),
)


def main() -> None:
    """Serve the host from within a container, until it closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o022)
    control = socket.socket(socket.AF_UNIX)
    control.connect(f"{SOCKET_FOLDER}/{SOCKET_NAME}")
    order, descriptors = _read_request(control)
    try:
        if reason := architecture.unsupported():
            raise OSError(reason)
        count = len(descriptors) - order["layers"]
        score = descriptors[0] if count else _own_oom_score()
        _serve(control, order, score, descriptors[count:])
    except Exception as error:  # noqa: BLE001 - every failure is reported to the host
        error_text = "".join(traceback.format_exception_only(type(error), error)).strip()
        text = f"Python {sys.version.split()[0]} of the image says {error_text}"
        control.sendall(frames.encode({"id": 0, "error": "setup", "text": text[:8000]}))


def _read_request(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the host's first frame, the settings from SandboxSpec, and the descriptors that come with it: one of
    oom_score_adj, which may be missing, and those of the layers.
    """
    reader = frames.FrameReader(1 << 26, 0)
    descriptors: list[int] = []
    while (frame := reader.next()) is None:
        data, passed = frames.receive(control, 1 << 16, _MAX_DESCRIPTORS)
        if not data:
            os._exit(1)
        descriptors += passed
        reader.feed(data)
    return frame[0], descriptors


def _serve(control: socket.socket, order: dict[str, Any], oom_score: int, layers: list[int]) -> None:
    import gc
    import importlib
    import resource

    from . import boot, python, server

    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    os.environ.clear()
    os.environ.update(order["environment"])
    python.prepare()
    for name in order["preload"]:
        importlib.import_module(name)
    if len(os.listdir("/proc/self/task")) > 1:
        raise OSError(
            f"preloading {', '.join(order['preload'])} started threads, so the process cannot be forked; leave it out "
            "of SandboxSpec.preload"
        )
    memory = _memory_files()
    if order["address_space"]:
        most = order["address_space"] + boot.own_address_space()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    changes = _confine(layers, whole_root=order["whole_root"])
    gc.disable()
    gc.collect()
    gc.freeze()
    control.sendall(server.greeting(order))
    server.serve(control, order, memory, changes, oom_score)


def _confine(layers: list[int], *, whole_root: bool) -> int:
    """Keep only the capabilities that serving needs. No agent code has run before this ends.

    Returns: a descriptor of the folder with the changes to the image; -1 without a writable root.
    """
    from . import container_root, files, identity, kernel, seccomp, syscalls

    keep, changes = tuple(GUEST_CAPABILITIES.values()), -1
    if whole_root:
        identity.AGENT, files.areas = 0, ()
        keep = tuple(ROOT_CAPABILITIES.values())
        changes = container_root.enter(FILES, layers, (FOLDER, OWN), keep)
        for descriptor in layers:
            os.close(descriptor)
    os.chdir("/work")
    with contextlib.suppress(OSError):  # usually read-only; crun with cgroups version 1 leaves it writable for all
        os.chmod("/sys/fs/cgroup", 0o755)
    os.setgroups([])
    filter_program = kernel.filter_at(seccomp.program(as_root=whole_root))
    syscalls.execute(syscalls.drop_privileges(filter_program, keep=keep, inherit=keep if whole_root else ()))
    return changes


def _own_oom_score() -> int:
    """Return a descriptor of this process's oom_score_adj; -1 if there is no such file."""
    try:
        return os.open("/proc/self/oom_score_adj", os.O_RDWR)
    except OSError:
        return -1


def _memory_files() -> tuple[int, int] | None:
    """Return read-only descriptors of the files with the memory kills and the peak, if the container shows cgroups."""
    for names in _MEMORY_FILES:
        paths = [f"/sys/fs/cgroup/{name}" for name in names]
        if all(map(os.path.exists, paths)):
            first, second = (os.open(path, os.O_RDONLY) for path in paths)
            return first, second
    return None
