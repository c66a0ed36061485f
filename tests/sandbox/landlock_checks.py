"""What test_landlock runs as an ordinary user; prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

from agentgym.sandbox import Sandbox
from agentgym.sandbox.landlock.backend import LandlockBackend
from agentgym.sandbox.limits import SandboxSpec

ATTACK = """
import ctypes, json, os, resource, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
file, other, done = {file!r}, {other}, []
def attempt(name, call):
    try:
        if call() in (None, 0): done.append(name)
    except OSError: pass
os.symlink(file, "/work/link"); os.mkdir("/work/inside")
handle = os.open(file, os.O_PATH)
attempt("chmod", lambda: os.chmod(file, 0o777))
attempt("chmod of a link", lambda: os.chmod("/work/link", 0o777))
attempt("chmod through a descriptor", lambda: os.chmod(f"/proc/self/fd/{{handle}}", 0o777))
folder = os.open(os.path.dirname(file), os.O_PATH)
attempt("chmod from a folder", lambda: os.chmod(os.path.basename(file), 0o777, dir_fd=folder))
attempt("times", lambda: os.utime(file, (1, 1)))
attempt("times of a link", lambda: os.utime("/work/link", (1, 1)))
attempt("attributes", lambda: os.setxattr(file, "user.x", b"1"))
attempt("reading", lambda: open(file).read() and None)
attempt("writing", lambda: open(file, "a").write("x") and None)
attempt("truncating", lambda: os.truncate(file, 0))
attempt("removing", lambda: os.unlink(file))
attempt("a signal", lambda: os.kill(other, 15))
attempt("a limit", lambda: resource.prlimit(other, resource.RLIMIT_CPU, (1, 1)) and None)
attempt("a priority", lambda: os.setpriority(os.PRIO_PROCESS, other, 19))
attempt("processors", lambda: os.sched_setaffinity(other, {{0}}))
address = struct.pack("H14s", 1, b"/run/x")
attempt("a connection", lambda: libc.connect(socket.socket(1, 1).fileno(), address, 16))
print(json.dumps(done))
"""
OWN = """
import json, os
open("/work/f", "w").close(); os.chmod("/work/f", 0o640); os.utime("/work/f", (5, 7))
status = os.stat("/work/f")
handle = os.open("/work/f", os.O_RDONLY); os.fchmod(handle, 0o600); os.utime(handle, ns=(1, 9))
os.chdir("/work"); os.chmod("f", 0o711)
print(json.dumps([oct(status.st_mode), int(status.st_mtime), os.stat("f").st_mtime_ns, oct(os.stat("f").st_mode)]))
"""
MANY = "import os, time\nfor _ in range(60):\n    if os.fork() == 0: time.sleep(9); os._exit(0)\ntime.sleep(9)"


async def report_of(sandbox: Sandbox, code: str) -> object:
    result = await sandbox.run_python(code)
    assert result.ok, result.stderr.decode()
    return json.loads(result.text)


async def in_a_sandbox(file: Path, other: int) -> dict[str, object]:
    backend = LandlockBackend()
    sandbox = await backend.create(SandboxSpec(processes=20, accept_weaker=("all",)))
    report = {
        "through": await report_of(
            sandbox, ATTACK.format(file=f"/.{file}", other=other)
        ),  # a spelling that is not replaced
        "own": await report_of(sandbox, OWN),
        "many": (await sandbox.run_python(MANY, timeout_s=20)).exit_code,
        "missing": sorted(sandbox.missing),
    }
    await backend.close()
    return report


def main() -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, subprocess.Popen(["sleep", "60"]) as other:
        file = Path(folder, "mine")
        file.write_text("mine")
        file.chmod(0o644)
        before = file.stat()
        report = asyncio.run(in_a_sandbox(file, other.pid))
        after, limit = file.stat(), resource.prlimit(other.pid, resource.RLIMIT_CPU)[0]
        same = (after.st_mode, after.st_mtime_ns, limit) == (before.st_mode, before.st_mtime_ns, -1)
        alive = other.poll() is None
        other.kill()
    return {**report, "uid": os.getuid(), "unchanged": same and alive}


print(json.dumps(main()))
