"""What the host or the machine runs short of is named with its remedy, and a spawner that hangs is replaced."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
from counts import processes_below
from processes import spawners
from sandbox_scripts import run_script, until

from agentgym.errors import SandboxDied
from agentgym.sandbox.host import guest_handle
from agentgym.sandbox.namespaces import backend as backend_module
from agentgym.sandbox.namespaces import spawner as spawner_module
from agentgym.sandbox.namespaces.backend import NamespacesBackend

needs_namespaces = pytest.mark.needs_namespaces


@needs_namespaces
async def test_a_spawner_that_hangs_is_replaced_and_the_creation_succeeds(small, monkeypatch):
    end_if_hung, usual_s = spawner_module.SpawnerProcess.end_if_hung, backend_module._CREATE_S

    async def end_and_wait_longer(spawner):
        monkeypatch.setattr(backend_module, "_CREATE_S", usual_s)  # the second try starts a process
        return await end_if_hung(spawner)

    before, backend = spawners(), NamespacesBackend()
    lost = await backend.create(small)
    (hung,) = spawners() - before
    os.kill(hung, signal.SIGSTOP)
    monkeypatch.setattr(spawner_module.SpawnerProcess, "end_if_hung", end_and_wait_longer)
    monkeypatch.setattr(spawner_module, "_ANSWER_S", 0.1)
    monkeypatch.setattr(backend_module, "_CREATE_S", 0.1)
    sandbox = await backend.create(small)
    assert (await sandbox.run_python("print(1)")).stdout == b"1\n"
    with pytest.raises(SandboxDied):
        await lost.run_python("pass")
    assert hung not in spawners()
    await backend.close()


@needs_namespaces
async def test_a_sandbox_of_a_spawner_that_hangs_can_be_closed(small, monkeypatch):
    monkeypatch.setattr(guest_handle, "_CLOSE_S", 0.1)
    monkeypatch.setattr(spawner_module, "_ANSWER_S", 0.1)
    before, backend = spawners(), NamespacesBackend()
    sandbox = await backend.create(small)
    (hung,) = spawners() - before
    below = processes_below(hung)
    os.kill(hung, signal.SIGSTOP)
    await sandbox.close()
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), "the sandbox's processes to end")
    await backend.close()


@needs_namespaces
def test_a_spawner_that_hangs_when_it_is_to_end_is_killed(small, monkeypatch):
    monkeypatch.setattr(spawner_module, "_ENDING_S", 0.1)
    spawner = spawner_module.SpawnerProcess((), layers_mib=1)
    os.kill(spawner.pid, signal.SIGSTOP)
    spawner.close()
    assert not Path(f"/proc/{spawner.pid}").exists()


@needs_namespaces
async def test_a_spawner_that_answers_is_not_ended(backend, small):
    sandbox = await backend.create(small)
    (spawner,) = backend._spawners.values()
    assert not await spawner.end_if_hung()
    assert (await sandbox.run_python("print(1)")).stdout == b"1\n"
    await sandbox.close()


@pytest.mark.parametrize(
    ("report", "pattern"),
    [
        ({"kind": "killed", "text": "process 1 ended with signal 9"}, "signal 9.*out of memory.*fewer sandboxes"),
        ({"kind": "descriptors", "text": "Too many open files"}, "Too many open files.*ulimit -Hn"),
        ({"kind": "processes", "text": "Resource temporarily unavailable at clone"}, "clone.*ulimit -u"),
        ({"kind": "exhausted", "text": "process 1 ended with signal 9"}, "memory_mib"),
    ],
)
def test_what_ran_short_is_named_with_its_remedy_and_no_kernel_is_blamed(report, pattern):
    text = str(backend_module._creation_error(report))
    assert re.search(pattern, text)
    assert "Linux 5.14" not in text


@needs_namespaces
def test_a_host_without_descriptors_says_so_at_every_call():
    done = run_script("""
        import resource
        async def attempt(what, work):
            try:
                await work
            except SandboxUnavailable as error:
                print(what, "ulimit -n" in str(error))
        async def main():
            backend, other = NamespacesBackend(), NamespacesBackend()
            sandbox = await backend.create(spec)
            await sandbox.run_python("pass")
            used = max(map(int, os.listdir("/proc/self/fd")))
            resource.setrlimit(resource.RLIMIT_NOFILE, (used, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            await attempt("create", backend.create(spec))
            await attempt("first", other.create(spec))
            await attempt("snapshot", sandbox.snapshot())
            await attempt("channel", sandbox.open_channel(["cat"]))
            await attempt("write", sandbox.write("big", b"x" * (2 << 20)))
            print("call", (await sandbox.run_python("pass")).ok)
            await backend.close()
        asyncio.run(main())
    """)
    expected = [f"{what} True" for what in ("create", "first", "snapshot", "channel", "write", "call")]
    assert done.stdout.splitlines() == expected, done.stderr


@needs_namespaces
def test_too_low_a_hard_limit_on_descriptors_is_named():
    done = run_script("""
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        try:
            asyncio.run(NamespacesBackend().create(spec))
        except SandboxUnavailable as error:
            print(error)
    """)
    assert "the hard limit on open files is 100" in done.stdout
    assert "Linux 5.14" not in done.stdout
