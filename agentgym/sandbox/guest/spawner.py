"""The process that creates sandboxes: small, single-threaded, with a clean environment, started by the backend.

For each sandbox the host sends one datagram with two descriptors: the guest's end of the control socket, and the far
end of a lifeline. The spawner replies on the lifeline alone: an error if no sandbox was created, and end-of-file once
no part of the sandbox is left. When the host closes its end, the sandbox is killed. A layer is requested in the same
way, with its archive in place of the control socket; its builder is created like a sandbox, and has ended when the
layer is finished.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from . import boot, identity, image, kernel, oom_score, server, spawner_setup, zygote
from .cgroups import Limits
from .frames import HOST_SOCKET, LINKED, MAX_DATAGRAM, receive
from .layers import LayerStore
from .poller import Poller, run_in_child
from .priority import prefer
from .spawner_setup import SpawnerState

_PASSED = 2  # descriptors in a request
# pause after a creation; much longer than a sandbox needs to set itself up, to leave it the processor
_CALM_S = 0.05
_SHORTAGES = {
    errno.EMFILE: "descriptors",
    errno.ENFILE: "descriptors",
    errno.EAGAIN: "processes",
    errno.ENOMEM: "memory",
}


class SandboxRecord:
    """The spawner's record of one sandbox, or of the builder of a layer."""

    def __init__(self, name: str, lifeline: socket.socket, spec: dict[str, Any]) -> None:
        self.name, self.lifeline, self.spec = name, lifeline, spec
        self.layer: str = spec.get("layer", "")  # key of the layer that is requested
        self.builds = False  # whether this is the builder, not a second request for the same layer
        self.pid = -1
        self.process = -1  # pidfd of process 1
        self.result_pipe = -1  # read from a builder: the bytes it wrote, or an error
        self.killed = False


class GroupNames:
    """Names of control groups. They are reused, because the kernel remembers the name of each removed group while the
    spawner lives.
    """

    def __init__(self) -> None:
        self._highest = 0
        self._free: list[str] = []

    def take(self) -> str:
        """Return a name that no group has."""
        if self._free:
            return self._free.pop()
        self._highest += 1
        return str(self._highest)

    def give_back(self, name: str) -> None:
        """Free the name of a group that has been removed."""
        self._free.append(name)


class Spawner:
    """Serves the host until it closes its socket, then ends every sandbox."""

    def __init__(self, host: socket.socket, parent: int, state: SpawnerState) -> None:
        """`parent`: a pidfd of the process that started this one. PR_SET_PDEATHSIG would follow its *thread*."""
        self.host, self.parent, self.poller = host, parent, Poller()
        self.records: set[SandboxRecord] = set()
        self.removals: list[str] = []
        self.names = GroupNames()
        self.prepared = ""  # the name of the group that is prepared for the next request
        self.prepare_at: float | None = None  # when to prepare the next sandbox
        self.own_handle = os.pidfd_open(os.getpid())  # process 1 of each sandbox watches it
        self.as_root, self.own_id, self.startup_error = state.as_root, state.own_id, state.startup_error
        self.cgroups = state.cgroups
        own_id = None if self.as_root else self.own_id
        self.layers = LayerStore(state.layers, lambda work: run_in_child(self.poller, work), own_id)
        self.host_gone = False
        self.memory, self.own_oom_score = boot.own_memory(), int(kernel.read_from("/proc/self/oom_score_adj"))
        gc.collect()
        gc.freeze()
        self.zygote = zygote.Zygote(
            self.own_handle, self.cgroups.descriptors()
        )  # before this process has received any request

    def run(self) -> None:
        """Serve until the host, the process that started this one, or the zygote has ended."""
        self.poller.add(self.host.fileno(), self._receive)
        self.poller.add(self.parent, self._end)
        self.poller.add(self.zygote.process, self._end)
        while not self.host_gone:
            self._run_once()
        for record in list(self.records):
            self._kill(record)
        give_up = time.monotonic() + 10
        while (self.records or self.removals) and time.monotonic() < give_up:
            self._run_once()
        self.zygote.end_child()
        if self.prepared:
            self.cgroups.remove(self.prepared)
        self.cgroups.close()

    def _run_once(self) -> None:
        wait_s = 0.002 if self.removals else None
        if self.prepare_at is not None:
            due_s = max(self.prepare_at - time.monotonic(), 0.0)
            wait_s = due_s if wait_s is None else min(wait_s, due_s)
        self.poller.once(wait_s)
        removed = [name for name in self.removals if self.cgroups.remove(name)]
        self.removals = [name for name in self.removals if name not in removed]
        for name in removed:
            self.names.give_back(name)
        if self.prepare_at is not None and self.prepare_at <= time.monotonic():
            self._prepare_next()

    def _prepare_next(self) -> None:
        """Prepare a process and control groups for the next sandbox, while no request waits."""
        self.prepare_at = None
        if not self.host_gone:
            with contextlib.suppress(OSError):  # the next creation will report the error
                self.zygote.request_child()
                self.prepared = self.prepared or self.names.take()
                self.cgroups.prepare(self.prepared)

    def _receive(self) -> None:
        message, descriptors = receive(self.host, MAX_DATAGRAM, _PASSED)
        if not message:
            self._end()
            return
        spec = json.loads(message)
        if "ping" in spec or len(descriptors) < _PASSED:  # the reply to either is the end of the lifeline
            for descriptor in descriptors:
                os.close(descriptor)
            return
        source, lifeline = descriptors
        name, self.prepared = self.prepared or self.names.take(), ""
        record = SandboxRecord(name, socket.socket(fileno=lifeline), spec)
        try:
            refusal = self._refuse_layer(spec) if record.layer else self._refuse(spec)
            if refusal:
                self._dispose(record, *refusal)
            else:
                self._create(record, source)
        finally:
            os.close(source)

    def _end(self) -> None:
        """Accept no more requests. Running requests get no reply, so the host may send them to another spawner."""
        if not self.host_gone:
            self.host_gone = True
            self.poller.remove(self.host.fileno())
            self.host.close()

    def _create(self, record: SandboxRecord, source: int) -> None:
        spec = record.spec
        record.builds = bool(record.layer)
        spec["cgroups"] = bool(self.cgroups.hierarchies) and not record.layer
        try:
            self._fork_process_1(record, source)
        except ConnectionError:  # the zygote has ended, so this process ends too, and the host finds another spawner
            self._end()
            self._abort(record)
            self._dispose(record)
            return
        except OSError as error:
            if not self.cgroups.exist():  # the groups were removed, which is only possible while no sandbox lives
                self._end()
                self._abort(record)
                self._dispose(record, "retired", "the control groups of the spawner process were removed")
                return
            self._abort(record)
            self._dispose(record, _SHORTAGES.get(error.errno or 0, "unavailable"), zygote.describe_error(error))
            return
        self.records.add(record)
        self.poller.add(record.process, lambda: self._reap(record))
        self.poller.add(record.lifeline.fileno(), lambda: self._read_lifeline(record))
        self.prepare_at = time.monotonic() + _CALM_S

    def _refuse(self, spec: dict[str, Any]) -> tuple[str, str] | None:
        if self.startup_error:
            return self.startup_error
        if "all" not in spec["accepted"] and self.cgroups.missing.keys() - spec["accepted"]:
            return "limit", json.dumps(self.cgroups.missing)
        missing = self.layers.missing(spec["layers"])
        if missing:
            return "layers", json.dumps(missing)
        spec["missing"] = self.cgroups.missing
        if "memory" not in self.cgroups.missing:
            spec["address_space"] = 0
        return None

    def _refuse_layer(self, order: dict[str, Any]) -> tuple[str, str] | None:
        if self.startup_error:
            return self.startup_error
        key = order["layer"]
        if not self.layers.missing([key]):
            return "layer", ""
        if self.layers.being_made(key):
            return "busy", ""
        in_use = {key for record in self.records for key in record.spec.get("layers", ())}
        try:
            reason = self.layers.start_layer(key, order["parent"], order["size"], in_use)
        except OSError as error:
            self.layers.abandon(key)
            reason = zygote.describe_error(error)
        return ("unavailable", reason) if reason else None

    def _fork_process_1(self, record: SandboxRecord, source: int) -> None:
        """Take a process in new namespaces, map its user ids, set its limits, and make it the sandbox's process 1."""
        result_write, spec, layers = -1, record.spec, list[int]()
        self.zygote.request_child()
        if record.layer:  # the rest runs while the zygote forks
            record.result_pipe, result_write = os.pipe()
            setup = list(boot.confine_builder(spec, self.own_handle))
        else:
            memory = self.cgroups.memory_files(record.name)
            spec["counted"] = bool(memory)
            spec["oom_score"] = max(oom_score.of_guest(spec["memory"], self.memory), self.own_oom_score)
            joining = self.cgroups.joining(record.name)
            setup = list(boot.confine(spec, server.greeting(spec), self.own_handle, joining, memory))
            self.cgroups.create(record.name, Limits(spec["memory"], spec["processes"] + 1, spec["cores"]))
        try:
            child = self.zygote.take_child()
            record.pid = child.pid
            with contextlib.closing(child):
                record.process = os.pidfd_open(record.pid)
                outside = image.FIRST_HOST_ID + record.pid if self.as_root else self.own_id
                kernel.write_to(f"/proc/{record.pid}/uid_map", f"{identity.AGENT} {outside} 1")
                kernel.write_to(f"/proc/{record.pid}/gid_map", f"{identity.AGENT} {outside} 1")
                if record.layer:
                    layers = self.layers.mount_for([record.layer], record.pid)
                    child.become("layer", spec, setup, [source, result_write, *layers])
                else:
                    layers = self.layers.mount_for(spec["layers"], record.pid, spec.get("root", ()))
                    self.cgroups.attach(record.name, record.pid)
                    prefer(record.pid)
                    child.become("guest", spec, setup, [source, *layers])
        finally:
            for descriptor in layers if result_write < 0 else [*layers, result_write]:
                os.close(descriptor)

    def _read_lifeline(self, record: SandboxRecord) -> None:
        """Record that the host has closed its end of the lifeline."""
        self._kill(record)

    def _abort(self, record: SandboxRecord) -> None:
        """Clean up after a creation that failed half-way. The child, which gets no order, ends by itself."""
        if record.process >= 0:
            os.close(record.process)
        if record.pid > 0:
            os.waitpid(record.pid, 0)

    def _kill(self, record: SandboxRecord) -> None:
        record.killed = True
        self.poller.remove(record.lifeline.fileno())
        if record.process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(record.process, signal.SIGKILL)
        else:
            self._dispose(record)

    def _reap(self, record: SandboxRecord) -> None:
        """Handle the end of process 1; everything else in its pid namespace has ended with it."""
        self.poller.remove(record.process)
        os.close(record.process)
        _, status = os.waitpid(record.pid, 0)
        if record.layer:
            result = os.read(record.result_pipe, 4096).decode("utf-8", "replace")
            if status == 0 and result.isdecimal():
                self.layers.finish(record.layer, int(result))
                self._report(record, "layer", "")
            else:
                self._report(record, "unavailable", result or "the builder of the layer died")
        elif not record.killed:
            code = os.waitstatus_to_exitcode(status)
            exhausted = self.cgroups.ran_out_of_memory(record.name, record.spec["memory"])
            kind = "exhausted" if exhausted else "killed" if code < 0 else "died"
            text = f"process 1 ended with {'signal ' if code < 0 else 'exit code '}{abs(code)}"
            self._report(record, kind, text)
        self._dispose(record)

    def _dispose(self, record: SandboxRecord, kind: str = "", text: str = "") -> None:
        """Forget a sandbox, after reporting a message of `kind` if one is given, and remove its control groups."""
        if kind:
            self._report(record, kind, text)
        self.poller.remove(record.lifeline.fileno())
        self.records.discard(record)
        if record.result_pipe >= 0:
            os.close(record.result_pipe)
        if record.builds:
            self.layers.abandon(record.layer)
        deadline = time.monotonic() + 0.05
        while not self.cgroups.remove(record.name):
            if time.monotonic() > deadline:
                self.removals.append(record.name)
                break
            time.sleep(0.0002)
        else:
            self.names.give_back(record.name)
        record.lifeline.close()
        self.prepare_at = time.monotonic()

    def _report(self, record: SandboxRecord, kind: str, text: str) -> None:
        with contextlib.suppress(OSError):  # the host may have closed its end
            record.lifeline.send(json.dumps({"kind": kind, "text": text[:8000]}).encode(), socket.MSG_DONTWAIT)


def main() -> None:
    """Run the spawner process until the host closes its socket."""
    kernel.close_from(HOST_SOCKET + 1)
    _serve(spawner_setup.set_up_spawner)


def resume(descriptor: int) -> None:
    """Continue as the same process, or its child, on the Python of an image. `descriptor`: the file with its state."""
    _serve(lambda host: spawner_setup.resume_in_image(descriptor))


def _serve(start: Callable[[socket.socket], SpawnerState]) -> None:
    parent = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in LINKED:
        os.environ.pop(name, None)  # processes in a sandbox must not inherit it
    os.umask(0o022)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # two descriptors for every sandbox alive
    gc.disable()
    host = socket.socket(fileno=HOST_SOCKET)
    Spawner(host, parent, start(host)).run()
