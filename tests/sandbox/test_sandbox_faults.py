"""Whatever breaks, the host gets a typed error, and nothing stays behind: processes, groups, mounts, descriptors."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from counts import groups, guests_below, open_files, processes_below, working_below
from processes import spawners
from sandbox_scripts import SCRIPT, run_script, until

from agentgym.errors import SandboxDied, SandboxError, SandboxUnavailable
from agentgym.sandbox.host import guest_sandbox
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing.backends.testbed import mounts

pytestmark = pytest.mark.needs_namespaces


def guests() -> set[int]:
    return guests_below(os.getpid())


async def test_a_closed_backend_leaves_nothing(small):
    """Sandboxes with sessions, channels, snapshots, attacks under way: after close the host is as before."""
    before = (working_below(os.getpid()), mounts(), open_files())
    before_it, folders = spawners(), set(os.listdir("/tmp"))
    backend = NamespacesBackend()
    sandboxes = [await backend.create(small) for _ in range(4)]
    first, second, third, fourth = sandboxes
    await first.run_python("x = 1", session="a")
    await first.open_channel(["cat"])
    restored = await backend.create(small, snapshot=await second.snapshot())
    await restored.reset()
    endless = asyncio.create_task(third.exec(["sh", "-c", "while :; do sleep 0.01; done"]))
    await asyncio.sleep(0.2)
    await asyncio.gather(fourth.close(), fourth.close())
    (spawner,) = spawners() - before_it
    assert len(processes_below(spawner)) >= 6
    await backend.close()
    with pytest.raises(SandboxDied):
        await endless
    assert (working_below(os.getpid()), mounts(), open_files()) == before
    assert groups(spawner) == set()
    others = ("agentgym-check-", "agentgym-docker-")  # folders of other backends, which other tests make meanwhile
    ours = {name for name in set(os.listdir("/tmp")) - folders if "agentgym" in name}
    assert not {name for name in ours if not name.startswith(others)}


async def test_a_guest_that_is_killed_is_a_dead_sandbox_and_the_next_one_works(backend, small):
    sandbox = await backend.create(small)
    running = asyncio.create_task(sandbox.run_python("import time; time.sleep(30)"))
    await asyncio.sleep(0.05)
    for pid in guests():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxDied):
        await running
    with pytest.raises(SandboxDied):
        await sandbox.read("x")
    await sandbox.close()
    other = await backend.create(small)
    assert (await other.run_python("print(1)")).stdout == b"1\n"
    await other.close()


async def test_a_spawner_that_is_killed_takes_its_sandboxes_and_is_replaced(backend, small):
    sandbox = await backend.create(small)
    await sandbox.exec(["true"])
    (spawner,) = spawners()
    below = processes_below(spawner)
    assert below
    os.kill(spawner, signal.SIGKILL)
    with pytest.raises(SandboxDied):
        await sandbox.run_python("import time; time.sleep(30)")
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "the sandbox's processes to end")
    await sandbox.close()
    other = await backend.create(small)
    assert (await other.run_python("print(1)")).stdout == b"1\n"
    await other.close()
    assert groups(spawner) == set(), "its groups are swept up"


async def test_a_spawner_that_is_killed_again_and_again_is_a_typed_error(small):
    backend = NamespacesBackend()
    killing = True

    async def kill() -> None:
        while killing:
            for pid in spawners():
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.001)

    killer = asyncio.create_task(kill())
    with pytest.raises(SandboxUnavailable, match="killed twice"):
        await backend.create(small)
    killing = False
    await killer
    sandbox = await backend.create(small)
    await sandbox.close()
    await backend.close()


async def test_a_stalled_guest_misses_the_hosts_deadline(backend, small, monkeypatch):
    monkeypatch.setattr(guest_sandbox, "_GRACE_S", 0.3)
    sandbox = await backend.create(small)
    for pid in guests():
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(SandboxDied, match="stalled"):
        await sandbox.run_python("pass", timeout_s=0.1)
    await sandbox.close()
    assert guests() == set()


async def test_a_cancelled_creation_leaves_no_sandbox(backend, small):
    for pause in (0.0, 0.001, 0.003, 0.006):
        creating = asyncio.create_task(backend.create(small))
        await asyncio.sleep(pause)
        creating.cancel()
        for created in await asyncio.gather(creating, return_exceptions=True):
            if not isinstance(created, BaseException):
                await created.close()
    await until(lambda: guests() == set(), "the guests to end")


async def test_a_cancelled_session_call_is_killed_and_the_session_starts_anew(backend, small):
    sandbox = await backend.create(small)
    await sandbox.run_python("x = 1", session="a")
    running = asyncio.create_task(sandbox.run_python("while True: pass", session="a"))
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    result = await sandbox.run_python("print('x' in globals())", session="a")
    assert result.stdout == b"False\n"
    assert (await sandbox.usage()).processes == 1
    await sandbox.close()


def test_one_backend_serves_one_event_loop_after_another_and_two_at_once(small):
    backend = NamespacesBackend()

    async def create_and_run():
        sandbox = await backend.create(small)
        result = await sandbox.run_python("print(2)")
        return sandbox, result.stdout

    async def run_and_close(sandbox):
        result = await sandbox.run_python("print(3)")
        await sandbox.close()
        return result.stdout

    sandbox, first = asyncio.run(create_and_run())
    assert (first, asyncio.run(run_and_close(sandbox))) == (b"2\n", b"3\n")
    outputs = []

    def in_thread():
        created, output = asyncio.run(create_and_run())
        outputs.append(output)
        asyncio.run(created.close())

    threads = [threading.Thread(target=in_thread) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == [b"2\n"] * 3
    asyncio.run(backend.close())


def test_a_spawner_outlives_the_thread_that_started_it(small):
    """Parent-death signals follow the thread, not the process; a backend may be first used in any thread."""
    backend = NamespacesBackend()
    created = []

    async def create():
        created.append(await backend.create(small))

    thread = threading.Thread(target=lambda: asyncio.run(create()))
    thread.start()
    thread.join()
    time.sleep(0.1)

    async def use():
        result = await created[0].run_python("print(1)")
        await backend.close()
        return result.stdout

    assert asyncio.run(use()) == b"1\n"


def test_after_a_fork_parent_and_child_each_have_their_own_sandboxes():
    done = run_script("""
        backend = NamespacesBackend()
        async def use():
            sandbox = await backend.create(spec)
            text = (await sandbox.run_python("print('ok')")).text
            return sandbox, text
        sandbox, _ = asyncio.run(use())
        pid = os.fork()
        if pid == 0:
            async def child():
                try:
                    await sandbox.run_python("pass")
                except SandboxDied as error:
                    print("child:", "another process" in str(error), flush=True)
                await sandbox.close()
                own, text = await use()
                print("child:", text, flush=True)
                await backend.close()
            asyncio.run(child())
            os._exit(0)
        os.waitpid(pid, 0)
        async def parent():
            print("parent:", (await sandbox.run_python("print('still here')")).text)
            await backend.close()
        asyncio.run(parent())
    """)
    assert "child: True" in done.stdout, done.stderr
    assert "child: ok" in done.stdout, done.stderr
    assert "parent: still here" in done.stdout, done.stderr


async def test_a_host_killed_outright_leaves_no_process_and_no_group():
    code = textwrap.dedent(SCRIPT) + textwrap.dedent("""
        async def main():
            backend = NamespacesBackend()
            for _ in range(3):
                sandbox = await backend.create(spec)
                asyncio.create_task(sandbox.exec(["sleep", "60"]))
            await asyncio.sleep(0.1)
            print("ready", flush=True)
            await asyncio.sleep(60)
        asyncio.run(main())
    """)
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert await host.stdout.readline() == b"ready\n"
    below = processes_below(host.pid)
    assert len(below) >= 7, "a spawner, three guests, three sleeps"
    host.kill()
    await host.wait()
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "every process to end")
    await until(lambda: not any(groups(pid) for pid in below), "every group to go")


def test_a_process_that_never_closes_its_backend_ends_cleanly():
    done = run_script("""
        async def main():
            sandbox = await NamespacesBackend().create(spec)
            print((await sandbox.run_python("print('ok')")).text)
            await sandbox.close()
        asyncio.run(main())
    """)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "ok", "")


async def test_what_the_spec_asks_and_cannot_be_had_is_refused_with_a_reason(backend):
    with pytest.raises(SandboxUnavailable, match="no image has this name"):
        await backend.create(SandboxSpec(image="swe", accept_weaker=("all",)))
    with pytest.raises(SandboxUnavailable, match="not installed"):
        await backend.create(SandboxSpec(preload=("no_such_module",), accept_weaker=("all",)))
    with pytest.raises(SandboxUnavailable, match="truth"):
        await backend.create(SandboxSpec(preload=("agentgym.tasks",), accept_weaker=("all",)))


async def test_a_broken_snapshot_is_refused(backend, small):
    from agentgym.sandbox.contract import Layer, Snapshot

    broken = Snapshot("x" * 64, "namespaces", (Layer("y" * 64, b"junk\n"),), {})
    with pytest.raises(SandboxError, match="cannot be restored"):
        await backend.create(small, snapshot=broken)
    assert guests() == set()
