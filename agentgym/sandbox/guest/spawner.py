"""The process that makes sandboxes: small, single-threaded, with a clean environment, started by the backend.

The host sends one datagram per sandbox, with two descriptors: the guest's end of the control socket, and the
far end of a lifeline. The spawner answers on the lifeline alone: an error text if no sandbox came of it, and
end-of-file once everything of the sandbox is gone. When the host closes its end, the sandbox is killed; when it
says `RESET` and then `GO` there, the sandbox gets fresh writable areas. A layer is ordered in the same way, with
its archive in place of the control socket; its builder is made as a sandbox is, and is gone when the layer is
finished.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from . import birth, boot, image, kernel, root, server, starting
from .cgroups import Limits
from .errands import bury_later, in_child
from .frames import GO, HOST_SOCKET, LINKED, MAX_DATAGRAM, RESET, receive
from .layers import FIRST_LAYER_ID, Layers
from .starting import Standing
from .watch import Watch


class Box:
    """One sandbox, or the builder of a layer, as the spawner sees it."""

    def __init__(self, name: str, lifeline: socket.socket, spec: dict[str, Any]) -> None:
        self.name, self.lifeline, self.spec = name, lifeline, spec
        self.layer: str = spec.get("layer", "")  # key of the layer that it is ordered to build
        self.builds = False  # it is the one that builds it
        self.pid = -1
        self.process = -1  # pidfd of process 1
        self.namespace = -1  # its mount namespace
        self.said = -1  # pipe from a builder: bytes it wrote, or what is wrong
        self.go = -1  # pipe to the child that is ready to reset it
        self.unwanted = False


class Spawner:
    """Serves the host until it goes away, then takes every sandbox with it."""

    def __init__(self, host: socket.socket, parent: int, standing: Standing) -> None:
        """`parent`: a descriptor of the process that started this one; not PDEATHSIG, which follows its *thread*."""
        self.host, self.parent, self.watch = host, parent, Watch()
        self.boxes: set[Box] = set()
        self.removals: list[str] = []
        self.counter = 0
        self.own_handle = os.pidfd_open(os.getpid())  # process 1 of each sandbox looks at it
        self.as_root, self.own_id, self.broken = standing.as_root, standing.own_id, standing.broken
        self.cgroups = standing.cgroups
        self.layers = Layers(standing.layers, lambda work: in_child(self.watch, work))
        self.host_gone = False
        gc.collect()
        gc.freeze()
        self.template = birth.Template(self.own_handle, self.cgroups.descriptors())  # before any order is known here

    def run(self) -> None:
        """Serve until the host, the process that started this one, or the template is gone."""
        self.watch.add(self.host.fileno(), self._receive)
        self.watch.add(self.parent, self._end)
        self.watch.add(self.template.process, self._end)
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

    def _receive(self) -> None:
        message, descriptors = receive(self.host, MAX_DATAGRAM, 2)
        if not message:
            self._end()
            return
        source, lifeline = descriptors
        spec = json.loads(message)
        self.counter += 1
        box = Box(f"{self.counter}", socket.socket(fileno=lifeline), spec)
        try:
            refusal = self._refuse_layer(spec) if box.layer else self._refuse(spec)
            if refusal:
                self._bury(box, *refusal)
            else:
                self._create(box, source)
        finally:
            os.close(source)

    def _end(self) -> None:
        """Take no more orders: those under way find nobody who says no, and may be given again."""
        if not self.host_gone:
            self.host_gone = True
            self.watch.remove(self.host.fileno())
            self.host.close()

    def _create(self, box: Box, source: int) -> None:
        spec = box.spec
        box.builds = bool(box.layer)
        spec["cgroups"] = bool(self.cgroups.hierarchies) and not box.layer
        try:
            self._bear(box, source)
        except ConnectionError:  # the template is gone, and so are we; the host finds another spawner
            self._end()
            self._abort(box)
            self._bury(box)
            return
        except OSError as error:
            self._abort(box)
            self._bury(box, "unavailable", birth.describe(error))
            return
        self.boxes.add(box)
        self.watch.add(box.process, lambda: self._reap(box))
        self.watch.add(box.lifeline.fileno(), lambda: self._hear(box))

    def _refuse(self, spec: dict[str, Any]) -> tuple[str, str] | None:
        if self.broken:
            return self.broken
        if self.cgroups.missing and not spec["insecure_ok"]:
            return "limit", json.dumps(self.cgroups.missing)
        missing = self.layers.missing(spec["layers"])
        if missing:
            return "layers", json.dumps(missing)
        spec["missing"] = self.cgroups.missing
        if "memory" not in self.cgroups.missing:
            spec["address_space"] = 0
        return None

    def _refuse_layer(self, order: dict[str, Any]) -> tuple[str, str] | None:
        if self.broken:
            return self.broken
        key = order["layer"]
        if not self.layers.missing([key]):
            return "layer", ""
        if self.layers.being_made(key):
            return "busy", ""
        in_use = {key for box in self.boxes for key in box.spec.get("layers", ())}
        try:
            reason = self.layers.begin(key, order["parent"], order["size"], in_use)
        except OSError as error:
            self.layers.abandon(key)
            reason = birth.describe(error)
        return ("unavailable", reason) if reason else None

    def _bear(self, box: Box, source: int) -> None:
        """Have what becomes process 1 forked into new namespaces, give it its user ids and limits, let it go on."""
        go_read = go = said_write = -1
        spec = box.spec
        try:
            go_read, go = os.pipe()
            if box.layer:
                box.said, said_write = os.pipe()
                setting_up = boot.confine_builder(spec, self.own_handle)
                self.template.fork(boot.NAMESPACES, "layer", spec, setting_up, [source, go_read, said_write])
                box.pid = self.template.born()
            else:
                memory = self.cgroups.memory_files(box.name)
                spec["counted"] = bool(memory)
                setting_up = boot.confine(
                    spec, server.greeting(spec), self.own_handle, self.cgroups.joining(box.name), memory
                )
                self.template.fork(boot.NAMESPACES, "guest", spec, setting_up, [source, go_read])
                try:  # meanwhile
                    self.cgroups.create(box.name, Limits(spec["memory"], spec["processes"] + 1, spec["cores"]))
                finally:
                    box.pid = self.template.born()
            box.process = os.pidfd_open(box.pid)
            box.namespace = os.open(f"/proc/{box.pid}/ns/mnt", os.O_RDONLY)  # as long as it may: it hides itself soon
            outside = self._user_of(box)
            kernel.write_to(f"/proc/{box.pid}/uid_map", f"{root.AGENT_ID} {outside} 1")
            kernel.write_to(f"/proc/{box.pid}/gid_map", f"{root.AGENT_ID} {outside} 1")
            if not box.layer:
                self.cgroups.attach(box.name, box.pid)
            os.write(go, GO)
        finally:
            for descriptor in (go_read, go, said_write):
                if descriptor >= 0:
                    os.close(descriptor)

    def _user_of(self, box: Box) -> int:
        """The user id that the agent's is mapped to: one that nobody else has, or as an ordinary user, our own."""
        if box.layer:
            return self.layers.give(box.layer, FIRST_LAYER_ID + box.pid if self.as_root else self.own_id)
        if box.spec["layers"]:
            return self.layers.kept[box.spec["layers"][0]].user
        return image.FIRST_HOST_ID + box.pid if self.as_root else self.own_id

    def _hear(self, box: Box) -> None:
        try:
            said = box.lifeline.recv(16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if said == RESET and box.process >= 0:
            self._forget_ready(box)
            self._make_ready(box)
        elif said == GO and box.go >= 0:
            self._reset(box)
        else:
            self._kill(box)

    def _make_ready(self, box: Box) -> None:
        """Have a child forked for a reset while the guest still kills what runs in the sandbox."""
        opened: list[int] = []
        try:
            opened.append(kernel.user_namespace_of(box.namespace))
            ready, box.go = os.pipe()
            opened.append(ready)
            passed = [*opened, box.namespace, box.lifeline.fileno()]
            self.template.fork(0, "refresh", box.spec, boot.refresh(box.spec), passed)
            bury_later(self.watch, self.template.born())
        except OSError as error:
            self._tell(box, "unavailable", birth.describe(error))
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _reset(self, box: Box) -> None:
        """The agent's processes are all dead: the child may exchange the writable areas for fresh ones. It tells."""
        self.cgroups.forget_peak(box.name)
        with contextlib.suppress(BrokenPipeError):  # there is no child; the host was told
            os.write(box.go, GO)
        self._forget_ready(box)

    def _forget_ready(self, box: Box) -> None:
        if box.go >= 0:
            os.close(box.go)  # at which a child that was not told to go on ends
            box.go = -1

    def _abort(self, box: Box) -> None:
        """Creation failed half-way: without its go, what would have become process 1 ends by itself."""
        for descriptor in (box.process, box.namespace):
            if descriptor >= 0:
                os.close(descriptor)
        if box.pid > 0:
            os.waitpid(box.pid, 0)

    def _kill(self, box: Box) -> None:
        box.unwanted = True
        self.watch.remove(box.lifeline.fileno())
        if box.process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(box.process, signal.SIGKILL)
        else:
            self._bury(box)

    def _reap(self, box: Box) -> None:
        """Process 1 is dead, and with it everything in its pid namespace."""
        self.watch.remove(box.process)
        os.close(box.process)
        if box.namespace >= 0:
            os.close(box.namespace)
        _, status = os.waitpid(box.pid, 0)
        if box.layer:
            said = os.read(box.said, 4096).decode("utf-8", "replace")
            if status == 0 and said.isdecimal():
                self.layers.finish(box.layer, int(said))
                self._tell(box, "layer", "")
            else:
                self._tell(box, "unavailable", said or "the builder of the layer died")
        elif not box.unwanted:
            code = os.waitstatus_to_exitcode(status)
            self._tell(box, "died", f"process 1 ended with {'signal ' if code < 0 else 'exit code '}{abs(code)}")
        self._bury(box)

    def _bury(self, box: Box, kind: str = "", text: str = "") -> None:
        if kind:
            self._tell(box, kind, text)
        self.watch.remove(box.lifeline.fileno())
        self.boxes.discard(box)
        self._forget_ready(box)
        if box.said >= 0:
            os.close(box.said)
        if box.builds:
            self.layers.abandon(box.layer)
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


def main() -> None:
    """The spawner process: serves orders on the host's socket until the host closes it."""
    kernel.close_from(HOST_SOCKET + 1)
    _serve(starting.begin)


def resume(descriptor: int) -> None:
    """The same process, or its child, now run by an image's Python. `descriptor`: where the handover is."""
    _serve(lambda host: starting.go_on(descriptor))


def _serve(start: Callable[[socket.socket], Standing]) -> None:
    parent = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in LINKED:
        os.environ.pop(name, None)  # what a sandbox runs need not have it
    os.umask(0o022)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors for every sandbox alive
    gc.disable()
    host = socket.socket(fileno=HOST_SOCKET)
    Spawner(host, parent, start(host)).run()
