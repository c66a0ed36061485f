"""Start Ray on this host so that sandboxes get their share of the CPU, and end only the nodes started here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from agentgym.cluster.ray_access import send_token_if_asked
from agentgym.cluster.ray_nodes import NICE_VARIABLE, import_ray, reachable
from agentgym.errors import ClusterError

START_S = 120.0
"""How long a node may take to start."""
END_S = 10.0
"""How long a node may take to end by itself."""
_ADDRESS = re.compile(r"--address='([^']+)'")
_SETTINGS = {NICE_VARIABLE: "0", "RAY_USAGE_STATS_ENABLED": "0"}


def start_node(*, join: str | None = None, port: int = 6379, cpus: int | None = None) -> str:
    """Start a node of Ray in the background: the head of a new cluster, or one that joins a cluster.

    Args:
        join: address of the head to join.
        port: where the head of a new cluster listens; 0 takes any free one.
        cpus: the number of CPUs that the node reports.
    Returns: the address of the cluster.
    Raises: ClusterError with Ray's message, or if the token that the cluster asks for is missing; MissingExtraError.
    """
    import_ray()
    if join:
        try:
            send_token_if_asked(reachable(join))
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"No program answers at {join!r} ({error}). Give the HOST:PORT of the cluster's head."
            ) from error
    where = ["--address", join] if join else ["--head", "--port", str(port), "--include-dashboard=false"]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *where, "--block", "--disable-usage-stats"]
    command += ["--num-cpus", str(cpus)] if cpus is not None else []
    folder = _folder()
    log = folder / f"{os.getpid()}-{time.time_ns()}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | _SETTINGS,
            start_new_session=True,
        )
    address = join or _wait_for_address(process, log)
    if join:
        _wait_for(process, log, "Ray runtime started")
    row = {"pid": process.pid, "began": _began(process.pid), "address": address, "log": str(log)}
    (folder / f"{process.pid}.json").write_text(json.dumps(row))
    return address


def end_nodes() -> list[str]:
    """End the nodes that `start_node` started on this host. Returns: the address of the cluster of each."""
    rows = {file: json.loads(file.read_text()) for file in _folder().glob("*.json")}
    ended = []
    for file, row in sorted(
        rows.items(), key=lambda item: int(item[1]["began"]), reverse=True
    ):  # stop the nodes before their heads
        if _began(row["pid"]) == row["began"]:  # otherwise another process has reused the pid
            _end(row["pid"])
            ended.append(str(row["address"]))
        file.unlink()
        Path(row["log"]).unlink(missing_ok=True)
    return ended


def _end(pid: int) -> None:
    """End the processes of a session gracefully, then kill the ones left after a while."""
    os.kill(pid, signal.SIGTERM)  # the leader ends the others
    deadline = time.monotonic() + END_S
    while time.monotonic() < deadline:
        if not _session(pid):
            return
        time.sleep(0.1)
    for member in _session(pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def _session(leader: int) -> list[int]:
    """Return the live processes of the session that a process leads."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (fields := _stat(int(entry.name))) and int(fields[3]) == leader:
            members.append(int(entry.name))
    return members


def _wait_for_address(process: subprocess.Popen[bytes], log: Path) -> str:
    match = _ADDRESS.search(_wait_for(process, log, "Ray runtime started"))
    if match is None:
        raise ClusterError(f"Ray has started, but did not print its address. See its log: {log}.")
    return match[1]


def _wait_for(process: subprocess.Popen[bytes], log: Path, words: str) -> str:
    """Wait until the log contains some words and return it. Raises: ClusterError with its end."""
    deadline = time.monotonic() + START_S
    while words not in (text := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            if process.poll() is None:
                process.terminate()
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            raise ClusterError("Ray did not start. Its last messages were: " + " ".join(lines[-4:])[-800:])
        time.sleep(0.1)
    return text


def _began(pid: int) -> str:
    """Return a process's start time in kernel clock ticks; empty if the process does not exist."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def _stat(pid: int) -> list[str]:
    """Return the fields of a live process's /proc stat file from its state on, see proc(5). Empty without one.

    Raises: OSError if the file cannot be read, which does not mean that the process has ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [] if fields[0] == "Z" else fields


def _folder() -> Path:
    """Return the folder that records this user's nodes on this host."""
    folder = Path(tempfile.gettempdir()) / f"agentgym-cluster-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise ClusterError(f"{folder} belongs to another user. Set TMPDIR to a folder of your own.")
    return folder
