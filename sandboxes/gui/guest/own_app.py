"""A web application that a task brings: its folder, its processes in this sandbox, and requests to it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import random
import shutil
import socket
import stat
import subprocess
import threading
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .processes import Output, end_group, end_those_at_home_in
from .sites import Site, SiteFailed
from .tab import Tab

if TYPE_CHECKING:
    import http.server

APPS_FOLDER = "/tmp/apps"
SETUP_S, STATE_S, MAX_STATE = 120.0, 55.0, 4 << 20  # three times STATE_S must fit into the host's wait
PORTS, STARTS = range(15_000, 32_000), 3  # below the ports that the system gives to programs that ask for any free port
_POLL_S, _ANSWER_S, _CHUNK = 0.05, 120.0, 1 << 16
_MAX_OUTPUT = 1 << 16  # how much of an application's output is kept, from its end
_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
_TLS = b"\x16"  # the first byte of TLS; the browser would accept no certificate of an application
_numbers = itertools.count(1)
_ports = itertools.cycle(random.sample(PORTS, len(PORTS)))
_preparing = threading.Lock()  # guards `_locks` and `_prepared`
_locks: dict[str, threading.Lock] = {}
PREPARED = 16
"""How many prepared folders are kept besides those in use. Each task of a set may have other data."""


@dataclass(eq=False, slots=True)
class Prepared:
    """A folder that is unpacked and set up, and the state that its state hook printed."""

    folder: str
    state: Any
    used_by: set[OwnApp] = field(default_factory=set)


_prepared: dict[str, Prepared] = {}  # by key, the most recently used last


class SandboxFailed(Exception):
    """A hook that worked before fails although no agent has acted: the machine is too slow, or has no memory left."""


class PortTaken(SiteFailed):
    """The application has ended, and another program has the port that it was given."""


class OwnApp(Site):
    """One process tree for each episode, in its own copy of the application's folder.

    The folder is unpacked and set up once in a browser's sandbox; every episode begins with a copy of it.
    """

    def __init__(self, description: Mapping[str, Any], archives: Sequence[zipfile.ZipFile]) -> None:
        """Use a description made by `WebParameters.site_in`, and archives of the folder and then of the packages."""
        super().__init__(description["host"], description["path"])
        self._description, self._archives = description, archives
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Output | None = None  # the process's output
        self._prepared = Prepared("", None)
        self._folder, self._port = "", 0

    def open(self) -> None:
        """Start the application and wait until it answers. Raises: SiteFailed."""
        key = self._description["key"]
        with _lock_of(key):  # one episode sets the folder up; others that use it wait
            with _preparing:
                prepared = _prepared.get(key)
                if prepared is not None:
                    prepared.used_by.add(self)
            if prepared is None:
                prepared = self._prepare(f"{APPS_FOLDER}/{key}")
                prepared.used_by.add(self)
            with _preparing:
                _prepared.pop(key, None)
                _prepared[key] = self._prepared = prepared
                idle = [key for key, prepared in _prepared.items() if not prepared.used_by]
                for key in idle[: max(0, len(idle) - PREPARED)]:
                    shutil.rmtree(_prepared.pop(key).folder, ignore_errors=True)
        self._folder = f"{APPS_FOLDER}/run/{next(_numbers)}"
        shutil.copytree(self._prepared.folder, self._folder, symlinks=True)
        self._start()

    def close(self) -> None:
        """End every process of the application and remove its folder."""
        self._end_processes()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._prepared.used_by.discard(self)

    def begin(self, tab: Tab) -> Any:
        if end := self._end():
            raise SiteFailed(f"when its first page was asked for, {end}")
        return super().begin(tab)

    def outcome(self, tab: Tab, url: str) -> dict[str, Any]:
        outcome: dict[str, Any] = {"url": url}
        if end := self._end():
            outcome["application"] = end  # shown to the application's author; the reward ignores it
        if self._description["state"]:
            outcome["effects"] = changes(self._prepared.state, self._end_state())
        return outcome

    def forward(self, handler: http.server.BaseHTTPRequestHandler, path: str) -> None:
        """Forward a page's request, and the answer as it arrives."""
        length = handler.headers.get("Content-Length", "")
        body = handler.rfile.read(int(length)) if length.isdigit() else None
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in _HOP_BY_HOP}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_S)
        handler.close_connection = True
        try:
            connection.request(handler.command, path, body, {**headers, "Connection": "close"})
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            handler.send_response(502)
            handler.send_header("Content-Type", "text/plain")
            handler.end_headers()
            handler.wfile.write(f"The application does not answer: {error}".encode())
            return
        handler.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        while piece := answer.read1(_CHUNK):
            handler.wfile.write(piece)
            handler.wfile.flush()
        connection.close()

    def tunnel(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Connect page and application, for web sockets, until either closes the connection."""
        handler.close_connection = True
        page = handler.connection
        handler.send_response_only(200)
        handler.end_headers()
        begun = page.recv(_CHUNK)
        if begun[:1] in (b"", _TLS):  # a plain HTTP server might wait forever for the end of a line of TLS
            return
        with socket.create_connection(("127.0.0.1", self._port), timeout=_ANSWER_S) as application:
            application.sendall(begun)
            for end in (page, application):
                end.settimeout(None)  # the agent may think for long
            back = threading.Thread(target=_pump, args=(application, page), daemon=True)
            back.start()
            _pump(page, application)
            with contextlib.suppress(OSError):  # the application has ended
                application.shutdown(socket.SHUT_RDWR)
            back.join()

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _prepare(self, template: str) -> Prepared:
        """Unpack the folder and run the set-up command in it."""
        folder_archive, *packages = self._archives
        shutil.rmtree(template, ignore_errors=True)
        try:
            unpack(folder_archive, template)
            for archive in packages:
                with _lock_of(self._packages):
                    if not os.path.isdir(self._packages):
                        archive.extractall(f"{self._packages}.part")
                        os.rename(f"{self._packages}.part", self._packages)
            if self._description["data"] is not None:
                with open(f"{template}/data.json", "w", encoding="utf-8") as file:
                    json.dump(self._description["data"], file)
            if self._description["setup"]:
                self._run("setup", template)
            return Prepared(template, self._state(template) if self._description["state"] else None)
        except BaseException:
            shutil.rmtree(template, ignore_errors=True)  # frees disk space for other folders
            raise

    def _end_processes(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            end_group(process)
            end_those_at_home_in(self._folder)

    def _start(self) -> None:
        """Start the application; if another process has taken its port, try again on another port."""
        for start in range(1, STARTS + 1):
            self._port = free_port()
            try:
                self._start_on_port()
                return
            except PortTaken:
                if start == STARTS:
                    raise
                self._end_processes()

    def _start_on_port(self) -> None:
        command = [part.replace("{port}", str(self._port)) for part in self._description["command"]]
        try:
            self._process = self._started(command, self._folder, subprocess.STDOUT)
        except OSError as error:
            raise SiteFailed(f"its command {command!r} cannot be started: {error}") from error
        assert self._process.stdout is not None
        self._output = output = Output(self._process.stdout, _MAX_OUTPUT)
        deadline = time.monotonic() + self._description["start_s"]
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                ended = SiteFailed if is_free(self._port) else PortTaken
                end_group(self._process)
                but = "" if self._process.returncode else ", but must run until the episode ends"
                raise ended(f"its command ended with {self._process.returncode}{but}: {output}")
            if self._listens():
                return
            time.sleep(_POLL_S)
        self._end_processes()
        raise SiteFailed(
            f"its command does not listen on 127.0.0.1:{self._port} (the port that $PORT and {{port}} give) after "
            f"{self._description['start_s']:g} s: {output}"
        )

    def _listens(self) -> bool:
        """Return whether a process listens on the application's port."""
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
        except OSError:
            return False
        return True

    def _end(self) -> str:
        """Return how the application ended by itself, with its output; empty while it runs."""
        if self._process is None or self._process.poll() is None or self._listens():
            return ""
        return f"its command ended with {self._process.returncode}: {self._output}"

    def _end_state(self) -> Any:
        """Return the state that the agent left. Raises: SiteFailed; SandboxFailed if the agent is not the cause."""
        with contextlib.suppress(SiteFailed):
            return self._state(self._folder)
        try:
            self._state(self._prepared.folder)  # the state before the agent acts
        except SiteFailed as error:
            raise SandboxFailed(f"{error}, although no agent has acted yet") from error
        return self._state(self._folder)

    def _state(self, folder: str) -> Any:
        output = self._run("state", folder)
        try:
            state = json.loads(output)
        except ValueError as error:
            raise SiteFailed(f"its state command printed no JSON ({error}): {output[:200]!r}") from error
        if not isinstance(state, dict):
            raise SiteFailed(
                f"its state command printed {output[:200]!r}, which is not an object. Print one whose changed entries "
                "are the effects"
            )
        return state

    def _run(self, hook: str, folder: str) -> bytes:
        """Run a hook, and end its remaining processes. Returns: its output. Raises: SiteFailed."""
        command, limit_s = self._description[hook], SETUP_S if hook == "setup" else STATE_S
        try:
            process = self._started(command, folder, subprocess.PIPE)
        except OSError as error:
            raise SiteFailed(f"its {hook} command {command!r} failed: {error}") from error
        assert process.stdout is not None and process.stderr is not None
        errors = Output(process.stderr, _MAX_OUTPUT)
        if hook == "state":
            printed = Output(process.stdout, MAX_STATE, lambda: end_group(process))
        else:
            printed = Output(process.stdout, _MAX_OUTPUT)
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise SiteFailed(f"its {hook} command {command!r} failed: {error}") from error
        finally:
            end_group(process)
        text = bytes(printed)
        if hook == "state" and printed.is_cut:
            raise SiteFailed(
                f"its {hook} command {command!r} prints more than {MAX_STATE >> 20} MiB. It should print only what is "
                "judged"
            )
        if process.returncode != 0:
            raise SiteFailed(f"its {hook} command {command!r} ended with {process.returncode}: {errors or printed}")
        return text

    def _started(self, command: Sequence[str], folder: str, errors: int) -> subprocess.Popen[bytes]:
        """Start a program in a folder, as the leader of a session. `errors`: receives its standard error."""
        return subprocess.Popen(
            command,
            cwd=folder,
            env=self._environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )

    @property
    def _packages(self) -> str:
        return f"{APPS_FOLDER}/packages/{self._description['packages_key']}"

    def _environment(self, folder: str) -> dict[str, str]:
        return {
            "HOME": folder,
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PORT": str(self._port),
            "PYTHONPATH": f"{self._packages}:{folder}",
            "PYTHONUNBUFFERED": "1",
        }


def _lock_of(key: str) -> threading.Lock:
    with _preparing:
        return _locks.setdefault(key, threading.Lock())


def unpack(archive: zipfile.ZipFile, folder: str) -> None:
    """Unpack an archive, with its symbolic links and executable files."""
    os.makedirs(folder, exist_ok=True)
    for info in archive.infolist():
        path, mode = archive.extract(info, folder), info.external_attr >> 16
        if stat.S_ISLNK(mode):
            os.remove(path)
            os.symlink(archive.read(info), path)
        elif not info.is_dir() and mode & stat.S_IXUSR:
            os.chmod(path, 0o755)


def free_port() -> int:
    """Return a free port that no recent application was given. Raises: SiteFailed."""
    for port in itertools.islice(_ports, len(PORTS)):
        if is_free(port):
            return port
    raise SiteFailed(f"all ports from {PORTS[0]} to {PORTS[-1]} are taken")


def is_free(port: int) -> bool:
    """Return whether no process in this sandbox has bound the port."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def changes(before: Any, after: Any) -> Any:
    """Return what changed: for two objects, the entries that differ (None for a removed entry); else the new value."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    keys = [
        key for key in {**before, **after} if before.get(key) != after.get(key) or (key in before) != (key in after)
    ]
    return {key: changes(before.get(key), after.get(key)) for key in sorted(keys)}


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy from one socket to the other until the source ends."""
    try:
        while data := source.recv(_CHUNK):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # either side has gone
