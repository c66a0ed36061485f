"""What agent code finds inside a sandbox, beyond what the contract promises of every backend."""

from __future__ import annotations

import asyncio
import sys

import pytest

from agentgym.sandbox.limits import SandboxSpec

pytestmark = pytest.mark.needs_namespaces


@pytest.fixture
async def sandbox(backend, small):
    created = await backend.create(small)
    yield created
    await created.close()


async def test_the_agent_is_an_unprivileged_user_in_work_with_the_hosts_python(sandbox):
    code = "import os, sys; print(os.getuid(), os.getcwd(), sys.version_info[:3] == %r, os.uname().nodename)"
    result = await sandbox.run_python(code % (tuple(sys.version_info[:3]),))
    assert result.text == "1000 /work True sandbox\n"
    assert (await sandbox.exec(["python3", "-c", "import json, ssl, sqlite3; print('ok')"])).text == "ok\n"


async def test_no_capability_is_left_and_a_filter_is_on(sandbox):
    result = await sandbox.exec(["cat", "/proc/self/status"])
    fields = dict(line.split(":\t") for line in result.text.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


async def test_a_crash_cannot_start_the_hosts_crash_handler(sandbox):
    code = "import resource as r; r.setrlimit(r.RLIMIT_CORE, (0, 0)); print(r.getrlimit(r.RLIMIT_CORE))"
    assert (await sandbox.run_python(code)).text == "(1, 1)\n"


async def test_no_memory_outlives_its_processes(sandbox):
    """System V shared memory would: filled and abandoned, it starves the guest, and an episode is void."""
    code = "import ctypes; print([ctypes.CDLL(None).shmget(0, 4096, 0o1666), ctypes.CDLL(None).msgget(0, 0o1666)])"
    assert (await sandbox.run_python(code)).text == "[-1, -1]\n"


async def test_third_party_packages_are_hidden_unless_preloaded(backend, sandbox, small):
    """They could hold the tasks and their truth."""
    for module in ("agentgym", "numpy", "pytest"):
        result = await sandbox.run_python(f"import {module}")
        assert b"ModuleNotFoundError" in result.stderr
    other = await backend.create(SandboxSpec(memory_mib=256, preload=("numpy", "sqlite3"), accept_weaker=("all",)))
    result = await other.run_python("import sys; print('numpy' in sys.modules, __import__('numpy').arange(3).sum())")
    assert result.text == "True 3\n"
    assert (await other.exec(["python3", "-c", "import numpy; print(numpy.ones(2).sum())"])).text == "2.0\n"
    assert b"ModuleNotFoundError" in (await other.run_python("import pytest")).stderr
    await other.close()


async def test_no_command_line_tells_of_the_host(sandbox):
    command_lines = await sandbox.exec(["cat", "/proc/1/cmdline", "/proc/cmdline"])
    assert set(command_lines.text.split("\0")) <= {"agentgym-guest", ""}


async def test_sets_have_the_same_order_in_every_sandbox(backend, small, sandbox):
    """A replayed episode must see what the first one saw."""
    other = await backend.create(small)
    code = "print(list({'alpha', 'beta', 'gamma', 'delta', 'epsilon'}))"
    results = [await each.run_python(code) for each in (sandbox, other)]
    results.append(await other.exec(["python3", "-c", code]))
    assert len({result.stdout for result in results}) == 1
    await other.close()


async def test_random_numbers_differ_from_call_to_call(sandbox):
    code = "import random, uuid; print(random.random(), uuid.uuid4())"
    assert (await sandbox.run_python(code)).stdout != (await sandbox.run_python(code)).stdout


async def test_programs_may_talk_to_themselves(sandbox):
    code = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"hi")).start()
print(socket.create_connection(server.getsockname()).recv(2))
"""
    assert (await sandbox.run_python(code)).text == "b'hi'\n"


async def test_a_memory_kill_is_told_from_other_kills(backend):
    sandbox = await backend.create(SandboxSpec(memory_mib=64, disk_mib=8, accept_weaker=("all",)))
    if sandbox.missing:
        pytest.skip("no control groups here: too much memory is a MemoryError, not a kill")
    for session in (None, "a"):
        result = await sandbox.run_python("b = bytearray(200 << 20)", session=session)
        assert (result.exit_code, result.oom_killed, result.timed_out) == (-9, True, False)
    result = await sandbox.exec(["sh", "-c", "kill -9 $$"])
    assert (result.exit_code, result.oom_killed) == (-9, False)
    assert (await sandbox.run_python("print(1)")).text == "1\n"
    await sandbox.close()


async def test_files_fill_the_disk_limit_without_killing_the_guest(backend):
    """Files lie in memory; a disk limit near the memory limit must not cost the guest its life."""
    sandbox = await backend.create(SandboxSpec(memory_mib=48, disk_mib=48, accept_weaker=("all",)))
    await sandbox.write("half", bytes(30 << 20))
    for number in range(3):
        with pytest.raises(OSError, match="No space"):
            await sandbox.write(f"big{number}", bytes(30 << 20))
    assert (await sandbox.run_python("print(1)")).text == "1\n"
    await sandbox.close()


async def test_long_code_long_input_and_long_output_pass(sandbox):
    long = f"x = '{'y' * 2_400_000}'\nprint(len(x))"
    assert (await sandbox.run_python(long)).text == "2400000\n"
    assert (await sandbox.run_python(long, session="a")).text == "2400000\n"
    assert (await sandbox.run_python("#" * 70_000 + "\nprint(2)", session="a")).text == "2\n"
    result = await sandbox.run_python("print('y' * 3_000_000)", max_output_bytes=4_000_000)
    assert (len(result.stdout), result.truncated) == (3_000_001, False)


async def test_a_program_inherits_nothing_but_its_three_streams(sandbox):
    """Requests that arrive together bring their descriptors together: none may be open in another's process."""
    streams, *_ = await asyncio.gather(
        sandbox.exec(["ls", "/proc/self/fd"], stdin=b"x" * 2_000_000),
        sandbox.open_channel(["cat"]),
        sandbox.exec(["cat"], stdin=b"y" * 2_000_000),
        sandbox.snapshot(),
    )
    assert streams.text.split() == ["0", "1", "2", "3"], "the three, and the directory that ls reads"


@pytest.mark.parametrize(
    "code", ["print('\ud800')", "\0", "x = '" + "[" * 3000, "[" * 3000, "exit(3)", "", "raise SystemExit('no')"]
)
async def test_odd_code_is_a_result(sandbox, code):
    for session in (None, "a"):
        result = await sandbox.run_python(code, session=session)
        assert result.exit_code == {"exit(3)": 3, "": 0}.get(code, 1)


async def test_odd_arguments_are_a_result(sandbox):
    assert (await sandbox.exec(["echo", "a\0b"])).exit_code == 126
    assert (await sandbox.exec(["echo", "\ud800"])).exit_code == 126
    assert (await sandbox.exec(["pwd"], cwd="/nowhere")).exit_code == 127
    assert (await sandbox.exec(["/etc/passwd"])).exit_code == 126
    assert (await sandbox.exec(["pwd"])).text == "/work\n"
    with pytest.raises(ValueError, match="sh"):
        await sandbox.exec("echo hello")
    with pytest.raises(ValueError, match="above 0"):
        await sandbox.run_python("pass", timeout_s=float("nan"))


async def test_threads_and_exit_handlers_of_a_program_finish(sandbox):
    code = """
import atexit, threading, time
atexit.register(lambda: print("bye"))
threading.Thread(target=lambda: (time.sleep(0.05), print("thread"))).start()
"""
    assert (await sandbox.run_python(code)).text == "thread\nbye\n"


async def test_a_session_keeps_its_processes_and_other_calls_spare_them(sandbox):
    await sandbox.run_python("import subprocess; p = subprocess.Popen(['sleep', '50'])", session="a")
    await sandbox.run_python("pass")
    await sandbox.exec(["true"])
    assert (await sandbox.run_python("print(p.poll())", session="a")).text == "None\n"
    await sandbox.run_python("import os; os._exit(0)", session="a")
    assert (await sandbox.usage()).processes == 0


async def test_a_daemon_does_not_hide_behind_a_session(sandbox):
    await sandbox.run_python("x = 1", session="a")
    await sandbox.exec(["sh", "-c", "setsid sh -c 'setsid sleep 50 & setsid sleep 50' &"])
    for _ in range(50):
        if (await sandbox.usage()).processes == 1:
            break
        await asyncio.sleep(0.02)
    assert (await sandbox.usage()).processes == 1
    assert (await sandbox.run_python("print(x)", session="a")).text == "1\n"


async def test_a_session_that_is_full_of_processes_leaves_room_for_none_and_says_so(sandbox):
    bomb = """
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(30)
except OSError: print('full')
"""
    assert "full" in (await sandbox.run_python(bomb, session="a")).text
    result = await sandbox.run_python("print(1)")
    assert (result.exit_code, b"process limit" in result.stderr) == (126, True)
    await sandbox.run_python("import os; os._exit(0)", session="a")
    assert (await sandbox.run_python("print(1)")).text == "1\n"


async def test_a_channel_that_speaks_no_json_or_ends_is_closed_with_its_last_words(sandbox):
    from agentgym.errors import SandboxDied

    for command, words in (
        (["sh", "-c", "read x; echo not json; echo why >&2; sleep 9"], "not JSON"),
        (["sh", "-c", "echo why >&2; exit 1"], "why"),
        (["no-such-program"], "No such file"),
    ):
        channel = await sandbox.open_channel(command)
        with pytest.raises(SandboxDied, match=words):
            await channel.request(1)
        with pytest.raises(SandboxDied):
            await channel.request(1)
    channel = await sandbox.open_channel(["sleep", "30"])
    with pytest.raises(TimeoutError):
        await channel.request(1, timeout_s=0.1)
    assert (await sandbox.run_python("print(1)")).text == "1\n"


async def test_snapshots_keep_odd_names_unreadable_files_and_read_only_folders(backend, small, sandbox):
    await sandbox.run_python(r"""
import os
open(b"\xff\xfe", "w").close()
os.mkdir("shut"); open("shut/in", "w").write("x"); os.chmod("shut/in", 0); os.chmod("shut", 0o500)
os.symlink("/etc/passwd", "link"); os.mkfifo("pipe")
open("hole", "w").truncate(1 << 20)
""")
    snapshot = await sandbox.snapshot()
    restored = await backend.create(small, snapshot=snapshot)
    assert (await restored.snapshot()).id == snapshot.id
    result = await restored.exec(["sh", "-c", "stat -c %a shut shut/in; readlink link; ls | wc -l"])
    assert result.text == "500\n0\n/etc/passwd\n4\n"
    await restored.close()
