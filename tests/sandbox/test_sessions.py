"""Sessions are made anew by running their code again: a snapshot keeps files only."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.errors import SandboxError
from agentgym.sandbox.host.sessions import MAX_BYTES, SessionCall, SessionLog, replay_sessions

pytestmark = pytest.mark.needs_namespaces


@pytest.fixture
async def sandbox(backend, small):
    created = await backend.create(small)
    yield created
    await created.close()


async def fork_of(sandbox, backend, small):
    return await backend.create(small, snapshot=await sandbox.snapshot())


async def test_a_fork_gets_the_sessions_by_replay_and_not_by_itself(backend, small, sandbox):
    await sandbox.run_python("x = [1]; open('f', 'w').write('file')", session="a")
    await sandbox.run_python("x.append(2); y = 1 / 0", session="a")
    await sandbox.run_python("x = 'other'", session="b")
    await sandbox.run_python("raise SystemExit(3)", session="b")
    fork = await fork_of(sandbox, backend, small)
    assert (await fork.run_python("print(x)", session="a")).exit_code == 1, "processes are not captured"
    await fork.reset()
    log = sandbox.session_log
    await replay_sessions(fork, log)
    assert (await fork.run_python("print(x, open('f').read())", session="a")).text == "[1, 2] file\n"
    assert (await fork.run_python("print(x)", session="b")).text == "other\n"
    assert len(log.calls) == 4, "the log is a copy"
    assert [call.exit_code for call in log.calls] == [0, 1, 0, 3]
    assert fork.session_log.calls[:4] == log.calls
    await fork.close()


async def test_a_session_that_was_killed_is_not_replayed(sandbox):
    await sandbox.run_python("x = 1", session="a")
    await sandbox.run_python("x = 1", session="b")
    assert (await sandbox.run_python("while True: pass", session="a", timeout_s=0.2)).timed_out
    assert [call.session for call in sandbox.session_log.calls] == ["b"]
    running = asyncio.create_task(sandbox.run_python("while True: pass", session="b"))
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert sandbox.session_log.calls == ()
    await sandbox.run_python("import os; os.kill(os.getpid(), 9)", session="c")
    assert sandbox.session_log.calls == ()
    await sandbox.run_python("x = 1", session="d")
    await sandbox.reset()
    assert sandbox.session_log.calls == ()


async def test_a_replay_that_ends_otherwise_says_where(backend, small, sandbox):
    await sandbox.write("f", b"x")
    await sandbox.run_python("x = 1", session="a")
    await sandbox.run_python("import os; x = open('f').read(); os.remove('f')", session="a")
    fork = await fork_of(sandbox, backend, small)
    with pytest.raises(
        SandboxError, match=r"'a'.*call 2 of 2 ended with exit code 1, but 0 when it first ran.*No such"
    ):
        await replay_sessions(fork, sandbox.session_log)
    with pytest.raises(SandboxError, match="timed out"):
        await replay_sessions(fork, SessionLog([SessionCall("s", "while True: pass", 0)]), timeout_s=0.2)
    await fork.close()


async def test_a_log_that_grew_too_long_says_so(sandbox):
    log = SessionLog()
    for _ in range(3):
        log.add(SessionCall("s", "x" * (MAX_BYTES // 2), 0))
    log.add(SessionCall("s", "y", 0))
    assert (log.complete, log.calls) == (False, ())
    with pytest.raises(SandboxError, match="of which no full record is kept"):
        await replay_sessions(sandbox, log.copy())
