"""Python calls in quick succession find a process that was forked before they came; nothing else ever meets it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentgym.sandbox.guest import frames, prefork, server
from agentgym.sandbox.guest.exit_watcher import ExitWatcher
from agentgym.sandbox.guest.poller import Poller
from agentgym.sandbox.metering import usage_since

pytestmark = pytest.mark.needs_namespaces

STARTED = """
import os
print(int(open('/proc/self/stat').read().rpartition(')')[2].split()[19]) / os.sysconf('SC_CLK_TCK'))
"""
OTHERS = "import os; print(sorted({int(p) for p in os.listdir('/proc') if p.isdecimal()} - {1, os.getpid()}))"


@pytest.fixture
def ahead() -> Iterator[prefork.Prefork]:
    """A Prefork outside of any sandbox."""
    poller = Poller()
    created = prefork.Prefork(poller, ExitWatcher())
    yield created
    created.drop()
    poller.close()


@pytest.fixture
async def sandbox(backend, small):
    created = await backend.create(small)
    yield created
    await created.close()


async def hurry(sandbox, calls: int = 3) -> None:
    for _ in range(calls):
        assert (await sandbox.run_python("pass")).ok


async def waited(sandbox) -> bool:
    """Whether the process of a call is older than the call, by more than the kernel's clock ticks."""
    asked_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    return float((await sandbox.run_python(STARTED)).stdout) < asked_at - 0.05


async def test_the_process_of_the_next_call_is_there_before_the_call(sandbox):
    for _ in range(10):  # on a machine with much to do, calls may lie further apart than they were meant to
        await hurry(sandbox)
        await asyncio.sleep(0.15)
        if await waited(sandbox):
            return
    raise AssertionError("no call found its process ready")


@pytest.mark.parametrize(
    ("text", "expected"), [("print(6 * 7)", b"42\n"), ("print(6 * 7)" + "#" * 70_000, b"42\n"), ("1 / 0", b"")]
)
async def test_the_first_call_of_a_sandbox_has_one_process_and_one_answer(sandbox, text, expected):
    """It is forked while the guest sets itself up, unless its code is too long for a message."""
    result = await sandbox.run_python(text)
    assert (result.stdout, result.exit_code) == (expected, 0 if expected else 1)
    assert result.usage.started == 1
    assert (await sandbox.usage()).started == 1
    assert (await sandbox.run_python(OTHERS)).stdout == b"[]\n"


def test_only_a_short_python_call_is_taken_for_one():
    def is_python_call(blob: bytes, **request: object) -> bool:
        return server.is_python_call(frames.encode(request, blob)[:64])

    assert is_python_call(b"pass", op="python", timeout=1.0)
    assert not is_python_call(bytes(1 << 16), op="python")
    assert not is_python_call(b"pass", op="exec", argv=['{"op":"python"'])
    assert not server.is_python_call(b"")


@pytest.mark.parametrize("before", ["python", "exec", "session"])
async def test_it_is_there_while_a_model_thinks_after_any_kind_of_call(sandbox, before):
    for _ in range(10):
        if before == "exec":
            await sandbox.exec(["true"])
        await sandbox.run_python("pass", session="a" if before == "session" else None)
        await sandbox.run_python("pass")
        if before == "exec":
            await sandbox.exec(["true"])
        await asyncio.sleep(0.3)
        if await waited(sandbox):
            return
    raise AssertionError("no call found its process ready")


@pytest.mark.parametrize(
    ("calls", "delay_s"),
    [
        ("python", prefork.QUIET_S),
        ("exec", None),
        ("exec exec", None),
        ("python exec", prefork.QUIET_S),
        ("python exec python", None),
        ("python exec python exec", 0.0),
        ("python python", 0.0),
        ("python 2 python", prefork.QUIET_S),
        ("python python pack", prefork.QUIET_S),
        ("python session python", None),
        ("session python session", 0.0),
    ],
)
def test_what_followed_a_call_last_time_tells_whether_to_fork_and_when(ahead, monkeypatch, calls, delay_s):
    now = 0.0
    monkeypatch.setattr(prefork, "time", SimpleNamespace(monotonic=lambda: now))
    for word in calls.split():
        if word.isdecimal():
            now += float(word)
            continue
        ahead.call_begins(word)
        ahead.call_ended(word)
    assert ahead.due_in_s() == (None if delay_s is None else pytest.approx(delay_s))


@pytest.mark.skipif(os.geteuid() != 0, reason="outside of a sandbox only root can become its user")
def test_a_child_that_no_call_uses_is_killed(ahead, monkeypatch):
    monkeypatch.setattr(prefork, "KEPT_S", 0.0)
    for _ in range(2):
        ahead.call_begins("python")
        ahead.call_ended("python")
    ahead.fork_if_due(lambda out, code: os.posix_spawn("/bin/sleep", ["sleep", "60"], {}), lambda call: None)
    pid = ahead.pid
    assert pid
    ahead.drop_if_stale()
    assert (ahead.pid, Path(f"/proc/{pid}").exists()) == (0, False)


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGSTOP"])
async def test_a_session_that_disturbs_it_harms_its_own_sandbox_only(sandbox, signal_name):
    await hurry(sandbox)
    await sandbox.run_python("pass", session="a")
    await sandbox.run_python("pass")
    disturb = f"""
import os, signal, threading, time
def disturb():
    for _ in range(500):
        for name in os.listdir('/proc'):
            if name.isdecimal() and int(name) not in (1, os.getpid()):
                try: os.kill(int(name), signal.{signal_name})
                except OSError: pass
        time.sleep(0.001)
threading.Thread(target=disturb, daemon=True).start()
"""
    await sandbox.run_python(disturb, session="a")
    for _ in range(3):
        await asyncio.sleep(0.06)
        assert (await sandbox.run_python("pass", timeout_s=0.2)).exit_code in (0, -9)
    await sandbox.run_python("import os; os._exit(0)", session="a")
    assert (await sandbox.run_python("print(1)")).stdout == b"1\n"


@pytest.mark.parametrize("how", ["exec", "session", "channel"])
async def test_nothing_else_of_the_agents_lives_beside_it(sandbox, how):
    await hurry(sandbox)
    if how == "exec":
        seen = (await sandbox.exec(["python3", "-S", "-c", OTHERS])).stdout
    elif how == "session":
        seen = (await sandbox.run_python(OTHERS, session="a")).stdout
    else:
        channel = await sandbox.open_channel(["python3", "-S", "-c", f"input(); {OTHERS}"])
        seen = str(await channel.request(1)).encode()
    assert seen.strip() == b"[]"


async def test_it_is_a_fresh_interpreter_and_sees_the_files_of_now(sandbox):
    await hurry(sandbox)
    await sandbox.write("late.py", b"x = 7")
    result = await sandbox.run_python("import late, os, sys; print(late.x, os.getcwd(), sys.stdin.read(), __name__)")
    assert result.stdout == b"7 /work  __main__\n"
    await sandbox.run_python("import builtins; builtins.kept = 1")
    assert (await sandbox.run_python("kept")).exit_code == 1, "nothing of one call is left in the next"


@pytest.mark.parametrize("code", ["", "print('\u00e4' * 3)", "# " + "x" * 200_000 + "\nprint('long')"])
async def test_any_code_can_be_given_to_it(sandbox, code):
    await hurry(sandbox)
    result = await sandbox.run_python(code)
    assert result.ok
    assert result.stdout.decode().strip() == {"": "", "p": "\u00e4" * 3, "#": "long"}[code[:1]]


async def test_it_is_nobodys_use_until_it_is_called(sandbox):
    before = await sandbox.usage()
    await hurry(sandbox, 5)
    used = usage_since(await sandbox.usage(), before)
    assert (used.started, used.processes) == (5, 0)
    result = await sandbox.run_python("import os; os.wait() if os.fork() else os._exit(0)")
    assert result.usage.started == 2


async def test_a_time_limit_counts_from_the_call_and_ends_it(sandbox):
    await hurry(sandbox)
    result = await sandbox.run_python("import time; time.sleep(60)", timeout_s=0.3)
    assert result.timed_out
    assert 0.3 <= result.duration_s < 5
    assert (await sandbox.run_python("print(1)")).stdout == b"1\n"


async def test_a_reset_and_a_snapshot_end_it_too(sandbox):
    await hurry(sandbox)
    await sandbox.write("f", b"1")
    snapshot = await sandbox.snapshot()
    await hurry(sandbox)
    await sandbox.reset()
    assert await sandbox.list() == []
    used = await sandbox.usage()
    assert (used.started, used.processes) == (0, 0)
    await hurry(sandbox)
    assert await sandbox.list() == []
    assert (await sandbox.snapshot()).id != snapshot.id, "the file was in it"
