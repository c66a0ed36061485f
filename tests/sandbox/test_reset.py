"""A reset is as good as a new sandbox: whatever an agent can leave is gone, with the machine that it was left in."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from counts import guests_below, open_files, processes_below

from agentgym.errors import SandboxDied
from agentgym.sandbox.guest.architecture import CALLS
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing.backends.testbed import mounts

pytestmark = pytest.mark.needs_namespaces

EVERYTHING_LEFT = """
import os, signal, socket, subprocess, sys
for folder in ("/work", "/tmp", "/dev/shm"):
    for number in range(20): open(f"{folder}/{number}", "w").write("x" * 1000)
    os.makedirs(f"{folder}/a/b"); os.chmod(f"{folder}/a", 0); os.mkfifo(f"{folder}/pipe")
os.chmod("/tmp", 0o700); os.chmod("/work", 0o555)
servers = [socket.socket(socket.AF_UNIX) for _ in range(2)]
servers[0].bind("\\0abstract"); servers[1].bind("/tmp/socket")
listener = socket.create_server(("127.0.0.1", 5005))
held = [open("/work/1"), os.memfd_create("m"), *os.openpty()]
for command in ("sleep 60", "trap '' TERM HUP; setsid sleep 60", "while :; do :; done"):
    subprocess.Popen(["sh", "-c", command], start_new_session=True)
value = 1
"""
LOOK_AROUND = """
import os, socket
found = [name for name in globals() if name == "value"]
for folder in ("/work", "/tmp", "/dev/shm"):
    found += [f"{folder}/{name}" for name in os.listdir(folder)] + [oct(os.stat(folder).st_mode)]
for family, address in ((socket.AF_UNIX, "\\0abstract"), (socket.AF_INET, ("127.0.0.1", 5005))):
    one = socket.socket(family)
    try: one.bind(address)
    except OSError as error: found.append(repr(error))
    one.close()
found += [os.getpriority(os.PRIO_PROCESS, 1), sorted(os.sched_getaffinity(0)), os.getcwd()]
found += [len(os.listdir("/proc/self/fd"))]
import resource; found += [resource.getrlimit(kind) for kind in range(16)]
print(found, sorted(name for name in os.listdir("/proc") if name.isdecimal() and name not in ("1", str(os.getpid()))))
"""


async def left_after(sandbox) -> list[str]:
    return [(await sandbox.run_python(LOOK_AROUND, session=session)).text for session in (None, "a")]


@pytest.fixture(params=["plain", "layers"])
async def sandbox(request, backend, small):
    created = await backend.create(small)
    if request.param == "layers":
        await created.run_python("open('kept', 'w').write('kept'); open('/tmp/kept', 'w').write('kept')")
        snapshot = await created.snapshot()
        await created.close()
        created = await backend.create(small, snapshot=snapshot)
    yield created
    await created.close()


async def test_nothing_an_agent_leaves_survives_a_reset(sandbox):
    first = await left_after(sandbox)
    files = await sandbox.snapshot()
    await sandbox.reset()
    assert await left_after(sandbox) == first
    for _ in range(3):
        done = await sandbox.run_python(EVERYTHING_LEFT, session="a")
        assert done.ok, done.stderr
        channel = await sandbox.open_channel(["cat"])
        assert await left_after(sandbox) != first
        await sandbox.reset()
        assert await left_after(sandbox) == first
        assert (await sandbox.snapshot()).id == files.id
        with pytest.raises(SandboxDied):
            await channel.request(1)


READ_MEMORY = """
# each byte is raised by one before the search: so the word itself is never made here
raised, found = bytes((byte + 1) % 256 for byte in range(256)), 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
    for line in maps:
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if " rw" in line and last < 1 << 47:
            memory.seek(first)
            found += memory.read(last - first).translate(raised).count(b"sfnfncfs.nf")
print(found)
"""


async def test_no_memory_of_a_process_holds_what_was_there_before_a_reset(sandbox):
    """The guest is forked for each call, so that agent code has a copy of what the guest has in memory."""
    secret = "remember-me"
    for _ in range(3):
        await sandbox.run_python(f"x = '{secret}'", session="a")
        await sandbox.exec(["cat"], stdin=secret.encode() * 100, env={"SECRET": secret})
        await sandbox.write(secret, secret.encode() * 1000)
        await sandbox.read(secret)
        await sandbox.reset()
        assert (await sandbox.run_python(READ_MEMORY)).text == "0\n"


async def test_usage_starts_anew(sandbox):
    await sandbox.run_python("open('big', 'w').write('x' * 3_000_000); sum(range(6_000_000))")
    before = await sandbox.usage()
    await sandbox.reset()
    after = await sandbox.usage()
    assert (before.disk_bytes > 3_000_000, after.disk_bytes < 10_000) == (True, True)
    assert after.cpu_s < before.cpu_s / 2
    assert after.processes == 0


LINGERING = """
import socket
server = socket.create_server(("127.0.0.1", 5005)); near = socket.create_connection(("127.0.0.1", 5005))
far = server.accept()[0]; far.close(); near.recv(1); near.close()
"""


async def test_connections_that_linger_do_not_outlive_a_reset(sandbox):
    """Closed by its processes, a connection keeps its port busy for a minute; only a new network is free of it."""
    files = await sandbox.snapshot()
    first = await left_after(sandbox)
    done = await sandbox.run_python(LINGERING)
    assert done.ok, done.stderr
    await sandbox.reset()
    assert await left_after(sandbox) == first
    assert (await sandbox.snapshot()).id == files.id


async def test_calls_under_way_end_and_calls_after_it_work(sandbox):
    endless = [
        asyncio.create_task(sandbox.run_python("while True: pass", session="a")),
        asyncio.create_task(sandbox.exec(["sleep", "60"])),
        asyncio.create_task(sandbox.run_python("while True: print('x' * 10000)")),
    ]
    await asyncio.sleep(0.2)
    resetting = asyncio.create_task(sandbox.reset())
    await asyncio.sleep(0)
    with pytest.raises(SandboxDied, match="reset"):
        await sandbox.run_python("print(1)")
    await resetting
    for answer in await asyncio.gather(*endless, return_exceptions=True):
        assert isinstance(answer, SandboxDied), answer
        assert "reset" in str(answer)
    results = await asyncio.gather(*(sandbox.run_python(f"print({n})") for n in range(4)))
    assert [result.text for result in results] == ["0\n", "1\n", "2\n", "3\n"]


async def test_a_cancelled_call_before_a_reset_leaves_no_answer_behind(sandbox):
    for pause in (0.0, 0.001, 0.01):
        running = asyncio.create_task(sandbox.run_python("while True: pass"))
        await asyncio.sleep(pause)
        running.cancel()
        await sandbox.reset()
        await asyncio.gather(running, return_exceptions=True)
        assert (await sandbox.run_python("print(1)")).text == "1\n"


async def test_two_resets_at_once_and_a_close_in_the_middle(backend, small, sandbox):
    await asyncio.gather(sandbox.reset(), sandbox.reset(), return_exceptions=True)
    assert (await sandbox.run_python("print(1)")).text == "1\n"
    other = await backend.create(small)
    outcome = await asyncio.gather(other.reset(), other.close(), return_exceptions=True)
    assert all(error is None or isinstance(error, SandboxDied) for error in outcome)
    with pytest.raises(SandboxDied):
        await other.run_python("pass")


async def test_a_reset_that_is_cancelled_leaves_no_half_made_sandbox(backend, small):
    """Either it had not begun, or it was done, or the sandbox is dead: no call ever runs in between."""
    for pause in (0.0, 0.0003, 0.001, 0.002, 0.004):
        sandbox = await backend.create(small)
        await sandbox.write("f", b"x")
        resetting = asyncio.create_task(sandbox.reset())
        await asyncio.sleep(pause)
        resetting.cancel()
        await asyncio.gather(resetting, return_exceptions=True)
        try:
            assert (await sandbox.exec(["pwd"])).text == "/work\n"
            assert await sandbox.list() in ([], ["f"])
        except SandboxDied:
            pass
        await sandbox.close()


async def test_a_reset_whose_guest_or_spawner_is_dead_makes_a_new_machine(small):
    backend = NamespacesBackend()
    sandbox = await backend.create(small)
    for victim in ("guest", "spawner"):
        guest = sandbox._guest
        (spawner,) = backend._spawners.values()
        for pid in guests_below(spawner.pid) if victim == "guest" else [spawner.pid]:
            os.kill(pid, signal.SIGKILL)
        await sandbox.reset()
        assert sandbox._guest is not guest
        assert (await sandbox.run_python("print(1)")).text == "1\n"
    await backend.close()


async def test_resets_leave_nothing_on_the_host(small):
    backend = NamespacesBackend()
    first = await backend.create(small)
    await first.write("f", b"x" * 100_000)
    sandboxes = [first, await backend.create(small, snapshot=await first.snapshot())]
    (spawner,) = backend._spawners.values()

    def counted() -> tuple[int, list[str], int, int]:
        handles = len(os.listdir(f"/proc/{spawner.pid}/fd")) if os.geteuid() == 0 else 0
        return len(processes_below(spawner.pid)), mounts(), open_files(), handles

    async def settled() -> tuple[int, list[str], int, int]:
        """Once the guests that were replaced are gone; the spawner may take a moment to see it."""
        for _ in range(500):
            if len(processes_below(spawner.pid)) == len(sandboxes) + 2:  # and the zygote, and the next one's process
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        return counted()

    for sandbox in sandboxes:
        await sandbox.reset()
    before = await settled()
    for _ in range(30):
        for sandbox in sandboxes:
            await sandbox.write("more", b"y" * 1_000_000)
            await sandbox.reset()
    assert await settled() == before
    await backend.close()


async def test_no_queue_outlives_its_processes(sandbox):
    number = CALLS["mq_open"]
    code = f"import ctypes, os; print(ctypes.CDLL(None).syscall({number}, b'q', os.O_CREAT | 2, 0o600, None))"
    assert (await sandbox.run_python(code)).text == "-1\n"
