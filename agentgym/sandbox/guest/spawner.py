"""The process that makes sandboxes: small, single-threaded, with a clean environment, started by the backend.

The host sends one datagram per sandbox, with two descriptors: the guest's end of the control socket, and the
far end of a lifeline. The spawner answers on the lifeline alone: an error text if no sandbox came of it, and
end-of-file once everything of the sandbox is gone. When the host closes its end, the sandbox is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Any, NoReturn

from . import boot, image, kernel, python, root, server
from .cgroups import Cgroups, Limits
from .frames import HOST_SOCKET, MAX_DATAGRAM
from .watch import Watch

_PID = struct.Struct("i")


class Box:
    """One sandbox as the spawner sees it."""

    def __init__(self, name: str, lifeline: socket.socket) -> None:
        self.name, self.lifeline = name, lifeline
        self.helper = self.pid = -1
        self.process = -1  # pidfd of process 1
        self.report = self.go = -1  # pipes from and to what becomes process 1, while it does
        self.unwanted = False


class Spawner:
    """Serves the host until it goes away, then takes every sandbox with it."""

    def __init__(self, host: socket.socket) -> None:
        self.host, self.watch = host, Watch()
        self.boxes: set[Box] = set()
        self.removals: list[str] = []
        self.counter = 0
        self.broken: tuple[str, str] | None = None  # kind and text of what every order is answered with
        self.cgroups = Cgroups()
        self.host_gone = False
        self.as_root, self.own_id = os.geteuid() == 0, 0

    def run(self, handover: dict[str, Any] | None = None) -> None:
        """Set up and serve. `handover`: what a spawner that moved into an image left for the image's Python."""
        parent = os.pidfd_open(os.getppid())  # not PDEATHSIG, which fires when the *thread* that started us ends
        try:
            if handover is None:
                self._set_up(json.loads(self.host.recv(MAX_DATAGRAM)))
            else:
                self.as_root, self.own_id = handover["as_root"], handover["own_id"]
                self.cgroups = Cgroups.taken_over(handover["cgroups"])
                self._warm_up(handover["preload"])
        except image.Refused as error:
            self.broken = "image", str(error)
        except Exception:  # noqa: BLE001 - whatever it is, each create must be answered with it
            self.broken = "unavailable", f"the spawner could not set itself up:\n{traceback.format_exc()}"
        self.watch.add(self.host.fileno(), self._receive)
        self.watch.add(parent, self._end)
        gc.collect()
        gc.freeze()
        while not self.host_gone:
            self._turn()
        for box in list(self.boxes):
            self._kill(box)
        give_up = time.monotonic() + 10
        while (self.boxes or self.removals) and time.monotonic() < give_up:
            self._turn()
        self.cgroups.close()

    def _turn(self) -> None:
        self.watch.once(0.002 if self.removals else None)
        self.removals = [name for name in self.removals if not self.cgroups.remove(name)]

    def _set_up(self, config: dict[str, Any]) -> None:
        reason = kernel.unsupported()
        if reason:
            self.broken = "unavailable", reason
            return
        user, group = os.geteuid(), os.getegid()
        try:
            kernel.unshare(kernel.CLONE_NEWNS | (0 if self.as_root else kernel.CLONE_NEWUSER))
        except OSError as error:
            self.broken = "unavailable", f"{error.strerror} at unshare"
            return
        if not self.as_root:
            _write("/proc/self/setgroups", "deny")
            # not as 0, under an image: its Python starts in here, so the /proc files of sandboxes' process 1 will
            # belong to user 0 of this namespace, if there is one, and to the machine's root if not
            self.own_id = root.AGENT_ID if "image" in config else 0
            _write("/proc/self/uid_map", f"{self.own_id} {user} 1")
            _write("/proc/self/gid_map", f"{self.own_id} {group} 1")
        if "image" in config:
            image.move_in(config, self.own_id, as_root=self.as_root)
        root.enter(config)
        self.cgroups = Cgroups.open()
        root.leave_host()
        if config["packages"]:
            sys.path.append(root.PACKAGES)
        self._warm_up(config["preload"])

    def _warm_up(self, preload: list[str]) -> None:
        python.prepare()
        for name in preload:
            importlib.import_module(name)
        if len(os.listdir("/proc/self/task")) > 1:
            text = f"preloading {', '.join(preload)} started threads; such a process cannot be forked"
            self.broken = "unavailable", text

    def _receive(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self.host, MAX_DATAGRAM, 2, socket.MSG_CMSG_CLOEXEC)
        if not message:
            self._end()
            return
        control, lifeline = descriptors
        try:
            self._create(json.loads(message), control, socket.socket(fileno=lifeline))
        finally:
            os.close(control)

    def _end(self) -> None:
        self.host_gone = True

    def _create(self, spec: dict[str, Any], control: int, lifeline: socket.socket) -> None:
        self.counter += 1
        box = Box(f"{self.counter}", lifeline)
        refusal = self._refuse(spec)
        if refusal:
            self._bury(box, *refusal)
            return
        spec["cgroups"] = bool(self.cgroups.hierarchies)
        try:
            self.cgroups.create(box.name, Limits(spec["memory"], spec["processes"] + 1, spec["cores"]))
            self._fork(box, spec, control)
        except OSError as error:
            self._abort(box)
            self._bury(box, "unavailable", _describe(error))
            return
        self.boxes.add(box)
        self.watch.add(box.report, lambda: self._deliver(box))
        self.watch.add(lifeline.fileno(), lambda: self._kill(box))

    def _refuse(self, spec: dict[str, Any]) -> tuple[str, str] | None:
        if self.broken:
            return self.broken
        if self.cgroups.missing and not spec["insecure_ok"]:
            return "limit", json.dumps(self.cgroups.missing)
        spec["missing"] = self.cgroups.missing
        if "memory" not in self.cgroups.missing:
            spec["address_space"] = 0
        return None

    def _fork(self, box: Box, spec: dict[str, Any], control: int) -> None:
        """Start a helper that enters the new namespaces and forks process 1 there.

        Two plain forks rather than one raw clone: libc's own bookkeeping stays right in process 1. The helper
        joins the control groups, and process 1 is born there; the kernel takes milliseconds for that, in which
        the helper makes the namespaces.
        """
        memory = self.cgroups.open_memory(box.name)
        go_read, box.go = os.pipe()
        box.report, report_write = os.pipe()
        try:
            box.helper = os.fork()
            if box.helper == 0:
                os.close(box.go)  # else it would keep itself waiting when the spawner gives up
                _helper(spec, control, go_read, report_write, memory)
        finally:
            for descriptor in (go_read, report_write, *(memory or ())):
                os.close(descriptor)
        self.cgroups.attach(box.name, box.helper)
        os.write(box.go, b"f")

    def _deliver(self, box: Box) -> None:
        """The helper has reported: give process 1 its user ids and limits, and let it go on."""
        answer = os.read(box.report, 4096)
        self.watch.remove(box.report)
        os.close(box.report)
        box.report = -1
        try:
            if len(answer) != _PID.size:
                raise OSError(answer.decode("utf-8", "replace") or "the helper died")
            (box.pid,) = _PID.unpack(answer)
            box.process = os.pidfd_open(box.pid)
            self.watch.add(box.process, lambda: self._reap(box))
            outside = image.FIRST_HOST_ID + box.pid if self.as_root else self.own_id  # nobody else's, as root
            _write(f"/proc/{box.pid}/uid_map", f"{root.AGENT_ID} {outside} 1")
            _write(f"/proc/{box.pid}/gid_map", f"{root.AGENT_ID} {outside} 1")
        except OSError as error:
            self._tell(box, "unavailable", _describe(error))
            box.unwanted = True
        os.waitpid(box.helper, 0)  # before the go: process 1 shall tie its life to ours, not to the helper's
        if not box.unwanted:
            with contextlib.suppress(OSError):  # it died meanwhile: its end is noticed like any other
                os.write(box.go, b"g")
        os.close(box.go)
        box.go = -1
        if box.unwanted:
            self._kill(box)

    def _abort(self, box: Box) -> None:
        """Creation failed half-way: without its go, the helper ends by itself."""
        for descriptor in (box.go, box.report):
            if descriptor >= 0:
                os.close(descriptor)
        if box.helper > 0:
            os.waitpid(box.helper, 0)

    def _kill(self, box: Box) -> None:
        box.unwanted = True
        self.watch.remove(box.lifeline.fileno())
        if box.process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(box.process, signal.SIGKILL)
        elif box.report < 0:  # else process 1 is on its way: _deliver will see that it is unwanted
            self._bury(box)

    def _reap(self, box: Box) -> None:
        """Process 1 is dead, and with it everything in its pid namespace."""
        self.watch.remove(box.process)
        os.close(box.process)
        _, status = os.waitpid(box.pid, 0)
        if not box.unwanted:
            code = os.waitstatus_to_exitcode(status)
            self._tell(box, "died", f"process 1 ended with {'signal ' if code < 0 else 'exit code '}{abs(code)}")
        self._bury(box)

    def _bury(self, box: Box, kind: str = "", text: str = "") -> None:
        if kind:
            self._tell(box, kind, text)
        self.watch.remove(box.lifeline.fileno())
        self.boxes.discard(box)
        deadline = time.monotonic() + 0.05
        while not self.cgroups.remove(box.name):
            if time.monotonic() > deadline:
                self.removals.append(box.name)
                break
            time.sleep(0.0002)
        box.lifeline.close()

    def _tell(self, box: Box, kind: str, text: str) -> None:
        with contextlib.suppress(OSError):  # the host may be gone already
            box.lifeline.send(json.dumps({"kind": kind, "text": text[:8000]}).encode(), socket.MSG_DONTWAIT)


def _helper(spec: dict[str, Any], control: int, go: int, report: int, memory: tuple[int, int] | None) -> NoReturn:
    try:
        kernel.die_with_parent()
        kernel.unshare(boot.NAMESPACES)
        if os.read(go, 1) != b"f":
            os._exit(1)
        guest = os.fork()
        if guest:
            os.write(report, _PID.pack(guest))
            os._exit(0)
        _guest(spec, [control, go, *(memory or ())])
    except OSError as error:
        os.write(report, _describe(error).encode())
    finally:
        os._exit(1)  # never back into the spawner's loop


def _guest(spec: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Process 1 of the sandbox. Keeps the given descriptors, as 3, 4, ..., and no other."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 200) for descriptor in descriptors]
    for position, descriptor in enumerate(high):
        os.dup2(descriptor, 3 + position, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    kernel.close_from(3 + len(high))
    control = socket.socket(fileno=3)
    try:
        if os.read(4, 1) != b"g":
            os._exit(1)  # the spawner is gone, or wants this sandbox no more
        boot.confine(spec)
    except OSError as error:
        server.refuse(control, _describe(error))
    os.close(4)
    server.serve(control, spec, (5, 6) if len(high) == 4 else None)


def _describe(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename2 or error.filename}" if error.filename else "")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def main() -> None:
    """The spawner process: serves orders on the host's socket until the host closes it."""
    kernel.close_from(HOST_SOCKET + 1)
    _settle()
    Spawner(socket.socket(fileno=HOST_SOCKET)).run()


def resume(descriptor: int) -> None:
    """The same process, or its child, now run by an image's Python. `descriptor`: where the handover is."""
    with open(descriptor, "rb") as file:
        handover = json.load(file)
    os.set_inheritable(HOST_SOCKET, False)
    _settle()
    Spawner(socket.socket(fileno=HOST_SOCKET)).run(handover)


def _settle() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o022)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors for every sandbox alive
    kernel.adopt_orphans()  # process 1 of each sandbox becomes our child when its helper ends
    gc.disable()
