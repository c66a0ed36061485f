"""How process 1 comes into its namespaces: one fork, after which Python is in order on both sides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import agentgym.sandbox.guest
from agentgym.sandbox.guest.frames import LINKED

FOLDER = Path(agentgym.sandbox.guest.__file__).parents[1]


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that has the guest's modules and one thread."""
    start = f"import os, sys; sys.path.insert(0, {str(FOLDER)!r}); from guest import kernel\n"
    return subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.needs_namespaces
def test_a_child_is_first_in_its_namespaces_and_python_knows_that_it_forked():
    code = """
import random, threading
seen = []
os.register_at_fork(before=lambda: seen.append("before"), after_in_child=lambda: seen.append("child"))
os.register_at_fork(after_in_parent=lambda: seen.append("parent"))
read, write = os.pipe()
state = random.getstate()
pid = kernel.fork_into(kernel.CLONE_NEWUSER | kernel.CLONE_NEWPID)
if pid == 0:
    os.write(write, f"{seen} {os.getpid()} {os.getppid()} {random.getstate() != state} ".encode())
    again = os.fork()
    if again == 0:
        thread = threading.Thread(target=lambda: os.write(write, b"thread"))
        thread.start()
        thread.join()
        os._exit(0)
    os._exit(7 if os.waitpid(again, 0) == (2, 0) else 1)
_, status = os.waitpid(pid, 0)
print(seen, os.waitstatus_to_exitcode(status), os.read(read, 100).decode())
"""
    result = run(code)
    assert result.stdout == "['before', 'parent'] 7 ['before', 'child'] 1 0 True thread\n", result.stderr


def test_namespaces_that_cannot_be_had_are_an_error_that_names_the_call_and_leave_python_in_order():
    code = """
os.register_at_fork(after_in_parent=lambda: print("parent"))
try:
    kernel.fork_into(kernel.CLONE_NEWNS | 0x200)  # CLONE_FS: the kernel takes no such pair
except OSError as error:
    print(error.strerror, error.filename)
import decimal
"""
    result = run(code)
    assert result.stdout.splitlines() == ["parent", "Invalid argument clone"], result.stderr


@pytest.mark.needs_namespaces
async def test_what_a_sandbox_runs_links_as_usual(backend, small):
    sandbox = await backend.create(small)
    code = f"import os; print(any(name in os.environ for name in {list(LINKED)!r}))"
    assert (await sandbox.run_python(code)).text == "False\n"
    assert (await sandbox.exec(["python3", "-c", code])).text == "False\n"
    await sandbox.close()


def test_the_warmup_serves_calls_and_leaves_nothing_but_what_python_has_learnt():
    code = """
import gc, ctypes
from guest import python, warmup
before = len(os.listdir("/proc/self/fd"))
calls = []
fork = python.fork
python.fork = lambda: calls.append(1) or fork()
kill = os.kill
warmup.warm_up()
gc.collect()
read, write = os.pipe()
os.write(write, b"still open")
print(len(calls) >= 24, len(os.listdir("/proc/self/fd")) - before, os.kill is kill)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child", ctypes.CDLL(None).prctl(3), os.getuid() == os.geteuid(), os.read(read, 100).decode())
"""
    result = run(code)
    assert result.stdout.splitlines() == ["True 2 True", "no child 1 True still open"], result.stderr
