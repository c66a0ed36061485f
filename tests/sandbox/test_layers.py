"""Snapshots as stacks of layers: forks see every file, change none of their siblings', and nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from counts import processes_below
from specs import checks_about

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox.contract import Layer, Snapshot
from agentgym.sandbox.host.snapshots import MAX_LAYERS, snapshot_of
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend

pytestmark = pytest.mark.needs_namespaces

ODD_FILES = r"""
import os
os.makedirs("d/e"); os.makedirs("gone/deep"); os.makedirs("again")
for path in ("a", "d/f", "d/e/g", "gone/deep/h", "again/old", "was-file", "a-b", "a0", "two\nlines"):
    with open(path, "w") as file: file.write(path * 100)
open(b"\xff\xfe", "w").close(); os.mkdir(b"d\xfe"); open(b"d\xfe/in", "w").close()
os.symlink("a", "link"); os.symlink("/etc/passwd", "out"); os.symlink("nowhere", "dangling")
os.link("a", "hard"); os.mkfifo("pipe")
os.chmod("a", 0o4751); os.mkdir("shut"); open("shut/in", "w").close(); os.chmod("shut/in", 0); os.chmod("shut", 0o500)
os.utime("a", ns=(1, 10**18)); os.utime("d", (2**40, 2**40)); os.chmod("/work", 0o700)
open("/tmp/t", "w").close()
"""
CHANGES = r"""
import os, shutil
shutil.rmtree("gone"); shutil.rmtree("again"); os.mkdir("again"); open("again/new", "w").close()
os.unlink("was-file"); os.mkdir("was-file"); open("was-file/now", "w").close()
shutil.rmtree("d/e"); open("d/e", "w").write("a file now")
os.rename("a", "moved"); os.unlink("link"); os.symlink("moved", "link"); os.unlink(b"\xff\xfe")
open(b"d\xfe/in", "a").write("more"); os.unlink("a0"); os.mkfifo("a0")
os.chmod("d/f", 0o400); os.chmod("d", 0o550)
os.unlink("/tmp/t"); os.mkdir("/tmp/t"); os.chmod("shut", 0o700); os.unlink("shut/in")
"""


@pytest.fixture
async def maker_and_snapshot(backend, small):
    """A sandbox with odd files, and its snapshot."""
    sandbox = await backend.create(small)
    assert (await sandbox.run_python(ODD_FILES)).stderr == b""
    yield sandbox, await sandbox.snapshot()
    await sandbox.close()


def stacked(sandbox) -> bool:
    return sandbox._guest.base_snapshot is not None


def store_of(backend) -> Path:
    """Where the backend's only spawner keeps its layers, as root sees it."""
    (spawner,) = backend._spawners.values()
    return Path(f"/proc/{spawner.pid}/root/tmp")


async def test_a_fork_lies_on_a_layer_and_has_every_file(backend, small, maker_and_snapshot):
    sandbox, snapshot = maker_and_snapshot
    fork = await backend.create(small, snapshot=snapshot)
    assert stacked(fork)
    assert (await fork.snapshot()) == snapshot
    code = "import os\nfor name in sorted(os.listdir()): s = os.lstat(name); print(name, s.st_mode, s.st_mtime_ns)"
    here, there = [(await each.run_python(code)).text.splitlines() for each in (sandbox, fork)]
    assert [line for line in here if not line.startswith("pipe")] == there, "a pipe is not kept, the rest is"
    assert len(there) == len(here) - 1
    await fork.close()


async def test_changes_to_a_fork_come_to_the_same_files_as_on_a_plain_disk(backend, small, maker_and_snapshot):
    """The same changes through an overlay, and on files unpacked into the sandbox: equal files, equal ids."""
    _, snapshot = maker_and_snapshot
    plain_backend = NamespacesBackend(layers_mib=0)
    plain = await plain_backend.create(small, snapshot=snapshot)
    fork = await backend.create(small, snapshot=snapshot)
    assert (stacked(plain), stacked(fork)) == (False, True)
    for sandbox in (plain, fork):
        assert (await sandbox.run_python(CHANGES)).stderr == b""
    expected, got = await plain.snapshot(), await fork.snapshot()
    assert got.id == expected.id != snapshot.id
    assert dict(got.entries) == dict(expected.entries)
    assert (len(expected.layers), len(got.layers)) == (1, 2)
    assert got.layers[0] is snapshot.layers[0]
    for maker in (backend, plain_backend):
        second = await maker.create(small, snapshot=got)
        assert (await second.snapshot()).id == got.id
        await second.close()
    await plain_backend.close()
    await fork.close()


async def test_unchanged_forks_hand_back_the_snapshot_itself(backend, small, maker_and_snapshot):
    _, snapshot = maker_and_snapshot
    fork = await backend.create(small, snapshot=snapshot)
    assert await fork.snapshot() is snapshot
    await fork.write("x", b"1")
    changed = await fork.snapshot()
    assert changed.id != snapshot.id
    assert changed.size_bytes - snapshot.size_bytes < 1000, "a layer holds changes only"
    await fork.exec(["rm", "x"])
    assert (await fork.snapshot()) is snapshot
    await fork.close()


async def test_many_forks_of_one_layer_at_once_do_not_touch_each_other(small):
    backend = NamespacesBackend()
    first = await backend.create(small)
    await first.run_python("open('shared', 'w').write('s' * 100_000); open('own', 'w').write('base')")
    snapshot = await first.snapshot()
    forks = await asyncio.gather(*(backend.create(small, snapshot=snapshot) for _ in range(24)))
    assert all(stacked(fork) for fork in forks)
    await asyncio.gather(*(fork.write("own", b"%d" % number) for number, fork in enumerate(forks)))
    assert [await fork.read("own") for fork in forks] == [b"%d" % number for number in range(24)]
    assert await first.read("own") == b"base"
    if os.geteuid() == 0:
        assert len(list(store_of(backend).iterdir())) == 1, "one layer, made once"
        owners = {(await fork.exec(["cat", "/proc/self/uid_map"])).text.split()[1] for fork in (*forks, first)}
        assert len(owners) == 25, "each sandbox is a user of its own"
    await backend.close()


async def test_a_deep_stack_is_flattened_and_every_generation_has_its_files(backend, small):
    sandbox = await backend.create(small)
    await sandbox.run_python("open('base', 'w').write('b' * 20_000)")
    seen = set()
    for number in range(2 * MAX_LAYERS + 3):
        snapshot = await sandbox.snapshot()
        assert len(snapshot.layers) <= MAX_LAYERS
        seen.add(snapshot.id)
        await sandbox.close()
        sandbox = await backend.create(small, snapshot=snapshot)
        assert stacked(sandbox)
        await sandbox.exec(["sh", "-c", f"rm -rf folder; mkdir folder; echo {number} > folder/{number}; echo x >> log"])
    assert len(seen) == 2 * MAX_LAYERS + 3
    assert await sandbox.list("folder") == [f"{2 * MAX_LAYERS + 2}"]
    assert await sandbox.read("log") == b"x\n" * (2 * MAX_LAYERS + 3)
    await sandbox.close()


async def test_layers_that_are_not_used_make_room_and_those_that_are_stay(small):
    backend = NamespacesBackend(layers_mib=8)
    snapshots = []
    for number in range(6):
        sandbox = await backend.create(small)
        await sandbox.run_python(f"import os; open('f', 'wb').write(bytes([{number}]) * 2_000_000)")
        snapshots.append(await sandbox.snapshot())
        await sandbox.close()
    for snapshot in [*snapshots, *snapshots]:
        fork = await backend.create(small, snapshot=snapshot)
        assert stacked(fork)
        assert (await fork.snapshot()).id == snapshot.id
        await fork.close()
    held = [await backend.create(small, snapshot=snapshot) for snapshot in snapshots]
    assert [stacked(fork) for fork in held] == [True] * 3 + [False] * 3, "what does not fit is unpacked in the sandbox"
    for fork, snapshot in zip(held, snapshots, strict=True):
        assert (await fork.snapshot()).id == snapshot.id
    if os.geteuid() == 0:
        area = os.statvfs(store_of(backend))
        assert (area.f_blocks - area.f_bfree) * area.f_frsize <= 8 << 20
        assert len(list(store_of(backend).iterdir())) == 3
    await backend.close()


async def test_a_spawner_that_is_killed_is_replaced_and_the_layers_are_made_again(small):
    backend = NamespacesBackend()
    sandbox = await backend.create(small)
    await sandbox.write("f", b"x")
    snapshot = await sandbox.snapshot()
    fork = await backend.create(small, snapshot=snapshot)
    (spawner,) = backend._spawners.values()
    os.kill(spawner.pid, signal.SIGKILL)
    with pytest.raises(SandboxDied):
        await fork.run_python("import time; time.sleep(30)")
    second = await backend.create(small, snapshot=snapshot)
    assert stacked(second)
    assert await second.read("f") == b"x"
    await backend.close()


async def test_a_cancelled_fork_leaves_no_half_made_layer(small):
    backend = NamespacesBackend()
    sandbox = await backend.create(small)
    await sandbox.run_python("for n in range(400): open(str(n), 'w').write('x' * 5000)")
    snapshot = await sandbox.snapshot()
    for pause in (0.001, 0.004, 0.01, 0.02):
        creating = [asyncio.create_task(backend.create(small, snapshot=snapshot)) for _ in range(3)]
        await asyncio.sleep(pause)
        creating[0].cancel()
        for fork in await asyncio.gather(*creating, return_exceptions=True):
            if not isinstance(fork, BaseException):
                assert (await fork.snapshot()).id == snapshot.id
                await fork.close()
    (spawner,) = backend._spawners.values()
    await sandbox.close()
    for _ in range(200):
        if len(processes_below(spawner.pid)) == 2:
            break
        await asyncio.sleep(0.01)
    assert len(processes_below(spawner.pid)) == 2  # its zygote, and the process for the next sandbox
    await backend.close()


async def test_no_sandbox_sees_the_layers_of_another(backend, small, maker_and_snapshot):
    _, snapshot = maker_and_snapshot
    other = await backend.create(small)
    await other.write("marker-of-another", b"secret")
    fork_of_other = await backend.create(small, snapshot=await other.snapshot())
    fork = await backend.create(small, snapshot=snapshot)
    code = """
import os, re
seen, odd = [], re.compile("marker-of|^[0-9a-f]{64}$").search
for folder, folders, names in os.walk("/", followlinks=False):
    if folder.startswith("/proc/") and folder.count("/") > 2: folders.clear(); continue
    seen += [os.path.join(folder, name) for name in names + folders if odd(name)]
for path in ("/tmp/..", "/work/..", "/dev/shm/..", "/proc/1/root/tmp", "/proc/self/root/tmp", "/proc/1/cwd"):
    try: seen += [name for name in os.listdir(path) if odd(name)]
    except OSError: pass
print(seen)
"""
    for each in (fork, maker_and_snapshot[0]):
        result = await each.run_python(code, timeout_s=120)  # the whole tree, on a machine that may be busy
        assert result.text == "[]\n", result
    assert await fork_of_other.list() == ["marker-of-another"]
    await asyncio.gather(*(each.close() for each in (other, fork, fork_of_other)))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "lines",
    [
        [{"t": "l", "p": "work/l", "l": "/tmp"}, {"t": "f", "p": "work/l/x", "n": 0}],
        [{"t": "f", "p": "work/../../x", "n": 0}],
        [{"t": "f", "p": "/usr/x", "n": 0}],
        [{"t": "f", "p": "work/x", "n": 2**40}],
        [{"t": "d", "p": "work/x"}, {"t": "l", "p": "work/x", "l": "/"}, {"t": "f", "p": "work/x/y", "n": 0}],
        [{"t": "f", "p": "work/" + "x" * 300, "n": 0}],
        [{"t": "l", "p": "work/x", "l": ""}],
        "deep",
    ],
)
async def test_a_hostile_archive_is_unpacked_by_nobody_who_could_do_harm(backend, small, lines, first):
    """As if a snapshot had been kept where others write; the guest and the builder are what stands in its way."""
    if lines == "deep":
        lines = [{"t": "d", "p": "work" + "/d" * count} for count in range(1, 2500)]
    records = [{"t": "d", "p": "work"}, *lines]
    data = b"".join(json.dumps({"m": 0o755, "u": 0, **record}).encode() + b"\n" for record in records)
    good = Layer("g" * 64, b'{"m":493,"p":"work","t":"d","u":0}\n')
    layers = (Layer("h" * 64, data),) if first else (good, Layer("h" * 64, data))
    with pytest.raises(SandboxUnavailable, match="cannot be restored"):
        await backend.create(small, snapshot=Snapshot("x" * 64, "namespaces", layers, {}))
    sandbox = await backend.create(small)
    assert (await sandbox.run_python("print(1)")).text == "1\n"
    await sandbox.close()


async def test_a_folder_of_a_layer_is_moved_by_programs_that_can_copy(backend, small, maker_and_snapshot):
    """An overlay refuses to rename such a folder, as on Docker; mv and shutil copy it then, as they do there."""
    _, snapshot = maker_and_snapshot
    fork = await backend.create(small, snapshot=snapshot)
    code = "import os\ntry: os.rename('d', 'D')\nexcept OSError as error: print(error.errno)"
    assert (await fork.run_python(code)).text == "18\n"
    assert (await fork.exec(["sh", "-c", "mv gone moved && cat moved/deep/h"])).exit_code == 0
    await fork.close()


FORGED = """
import ctypes, os, stat
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *arguments):
    try: call(*arguments)
    except OSError: pass
for folder in ("/work", "/work/d", "/tmp"):
    os.makedirs(folder, exist_ok=True); open(f"{folder}/one", "w").close()
    attempt(os.mknod, f"{folder}/hidden", stat.S_IFCHR, 0)
    for name in ("opaque", "redirect", "metacopy", "origin", "whiteout", "impure"):
        for value in (b"y", b"x", b"/../..", b""): attempt(os.setxattr, folder, f"user.overlay.{name}", value)
        attempt(os.setxattr, f"{folder}/one", f"user.overlay.{name}", b"y")
    libc.renameat2(-100, f"{folder}/one".encode(), -100, f"{folder}/two".encode(), 4)
"""


async def test_an_agent_cannot_forge_the_marks_of_an_overlay(backend, small, maker_and_snapshot):
    """Whiteouts and opaque folders of its own would hide files of a layer, or show others: they do nothing."""
    empty = await backend.create(small)
    for sandbox in (empty, await backend.create(small, snapshot=maker_and_snapshot[1])):
        await sandbox.run_python(FORGED)
        listed = "find /work /tmp -not -type c -not -type p | sort"
        first, snapshot = (await sandbox.exec(["sh", "-c", listed])).stdout, await sandbox.snapshot()
        second = await backend.create(small, snapshot=snapshot)
        assert (await second.exec(["sh", "-c", listed])).stdout == first
        assert (await second.snapshot()).id == snapshot.id
        await asyncio.gather(sandbox.close(), second.close())


async def test_the_disk_limit_holds_for_a_fork_and_what_it_lies_on(backend, small):
    sandbox = await backend.create(small)
    await sandbox.write("big", bytes(4 << 20))
    await sandbox.exec(["sh", "-c", "for n in $(seq 300); do : > o$n; done"])
    fork = await backend.create(small, snapshot=await sandbox.snapshot())
    assert (await fork.usage()).disk_bytes < 1 << 20, "what lies below was written by another"
    await fork.write("half", bytes(2 << 20))
    with pytest.raises(OSError, match="No space"):
        await fork.write("more", bytes(2 << 20))
    result = await fork.exec(["sh", "-c", "for n in $(seq 250); do : > f$n || exit 9; done"])
    assert result.exit_code != 0, "nor can it make more files than it may"
    assert (await fork.run_python("print(1)")).text == "1\n"
    await fork.close()
    await sandbox.close()


async def test_no_line_of_forks_grows_beyond_the_disk_limit(backend, small):
    """Every generation writes what it can; what can be captured can be restored, also by unpacking."""
    sandbox, sizes = await backend.create(small), []
    for number in range(6):
        await sandbox.run_python(
            f"open('again', 'wb').write(bytes(3 << 20)); open('f{number}', 'wb').write(bytes(9 << 20))"
        )
        snapshot = await sandbox.snapshot()
        sizes.append(snapshot.size_bytes)
        await sandbox.close()
        sandbox = await backend.create(small, snapshot=snapshot)
    assert sizes[-1] <= (8 + 6) << 20, "a megabyte is left to each, however full the disk"
    await sandbox.close()


async def test_a_large_file_that_is_written_anew_does_not_pile_up(backend, small):
    sandbox = await backend.create(small)
    for number in range(5):
        done = await sandbox.run_python(f"open('large', 'wb').write(bytes([{number}]) * (3 << 20))")
        assert done.ok, done.stderr
        snapshot = await sandbox.snapshot()
        assert snapshot.size_bytes < 4 << 20
        await sandbox.close()
        sandbox = await backend.create(small, snapshot=snapshot)
    await sandbox.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a user for each sandbox")
async def test_forks_of_one_snapshot_are_users_of_their_own(backend, small, maker_and_snapshot):
    """The kernel counts descriptors in flight, pages of pipes and watches by user: a fork takes only its own."""
    _, snapshot = maker_and_snapshot
    forks = [await backend.create(small, snapshot=snapshot) for _ in range(2)]
    hold = """
import socket, time
pairs = [socket.socketpair() for _ in range(20)]
for ours, _ in pairs:
    try: socket.send_fds(ours, [b"x"], [0] * 200)
    except OSError: pass
"""
    await forks[0].run_python(hold, session="held")
    send = "import socket; a, b = socket.socketpair(); print(socket.send_fds(a, [b'x'], [0]))"
    result = await forks[1].run_python(send)
    assert (result.text, result.stderr) == ("1\n", b"")
    owner = "import os; print(open('/proc/self/uid_map').read().split()[1], os.stat('a').st_uid)"
    users = [(await each.run_python(owner)).text.split() for each in forks]
    assert users[0][0] != users[1][0]
    assert [own for _, own in users] == ["1000", "1000"]
    for each in forks:
        assert (await each.run_python("open('a', 'a').write('more')")).stderr == b""
        await each.close()


class Stacked(NamespacesBackend):
    """Every sandbox lies on a layer, if only an empty one."""

    name = "stacked"

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None):
        folders = b"".join(b'{"m":%d,"p":"%s","t":"d","u":0}\n' % item for item in ((0o1777, b"tmp"), (0o755, b"work")))
        sandbox = await super().create(spec, snapshot=snapshot or snapshot_of(folders, ""))
        assert stacked(sandbox)
        return sandbox


async def test_a_stacked_sandbox_keeps_what_layers_could_break():
    """Layers are where files lie and what snapshots are made of; calls and limits know nothing of them."""
    backend = Stacked()
    try:
        await check_backend(backend, only=checks_about("Files", "Snapshots", "Snapshots and their forks"))
    finally:
        await backend.close()
