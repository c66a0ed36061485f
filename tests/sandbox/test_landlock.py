"""The backend `landlock`: the names that agent code knows, what it may not touch, and what is refused at once."""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
from functools import partial
from pathlib import Path

import pytest
from ordinary_user import as_ordinary_user

from agentgym.errors import LimitUnenforceable, SandboxUnavailable
from agentgym.sandbox.guest import architecture, landlock, metadata_calls
from agentgym.sandbox.landlock.backend import LandlockBackend
from agentgym.sandbox.limits import LIMITS, SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend

pytestmark = [pytest.mark.needs_namespaces, pytest.mark.skipif(not landlock.version(), reason="no Landlock here")]
WEAKER = SandboxSpec(accept_weaker=("all",))
SHELL = """
set -e; cd /work; mkdir -p a/b /tmp/t; echo one > /work/a/f; ln -s /work/a/f link; ln link hard
readlink /work/link; cat /work/link; mv /work/a/f /tmp/t/g; cat /tmp/t/g; cat link 2>/dev/null || echo dangling
cp -r /tmp/t /work/copy; (cd /work/copy && pwd && cat ../copy/g); printf '#!/bin/sh\\necho "$@"\\n' > /work/run
chmod 755 /work/run; /work/run 1; PATH=/work:$PATH run 2; stat -c %n:%a /work/run; ls -d /work/* /tmp/*
rm -r /work/copy; rmdir /work/a/b; test -e /work/copy || echo gone; cat < /work/run | wc -l; echo x > /dev/shm/y
ls /dev/shm; touch /workshop 2>/dev/null || echo no
python3 -c 'import os; print(os.getcwd(), os.path.realpath("link"))'
"""
PYTHON = """
import os, shutil, sqlite3, subprocess, tempfile, threading
os.makedirs("/work/d/e"); os.chdir("/work/d/e")
print(os.getcwd(), os.listdir("/work"), os.path.exists("/work/nothing"), os.access("/work/d", os.R_OK))
def note(number):
    for turn in range(20):
        with open(f"/work/t{number}-{turn}", "w") as file: file.write(f"{number}")
threads = [threading.Thread(target=note, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print(sum(name.startswith("t") for name in os.listdir("/work")))
base = sqlite3.connect("/work/base.db"); base.execute("create table t (a)"); base.commit()
shutil.move("/work/base.db", "/tmp/moved.db"); print(os.path.getsize("/tmp/moved.db") > 0, tempfile.gettempdir())
os.symlink("/tmp/moved.db", "/work/l"); print(os.readlink("/work/l"), os.path.realpath("/work/l"))
print(subprocess.run(["cat", "/work/t0-0"], capture_output=True, cwd="/tmp").stdout)
child = subprocess.Popen(["sleep", "30"]); os.kill(child.pid, 19); os.waitpid(child.pid, os.WUNTRACED)
os.kill(child.pid, 18); os.kill(child.pid, 9); print(child.wait())
try: open("/work/missing")
except FileNotFoundError as error: print(error)
"""


@pytest.fixture
def open_folder():
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


async def test_programs_see_the_same_folders_as_in_a_sandbox_with_mounts():
    """The same programs print the same: renames, links, folders, threads, stopped children."""
    shells, pythons, names = [], [], []
    for backend in (LandlockBackend(), NamespacesBackend()):
        sandbox = await backend.create(WEAKER)
        shell = await sandbox.exec(["sh", "-c", SHELL], timeout_s=60)
        shells.append((shell.exit_code, shell.text, shell.stderr))
        await sandbox.reset()
        python = await sandbox.run_python(PYTHON, timeout_s=60)
        pythons.append((python.exit_code, python.text, python.stderr))
        restored = await backend.create(WEAKER, snapshot=await sandbox.snapshot())
        names.append((await restored.list("/work"), (await restored.exec(["readlink", "/work/l"])).text))
        await backend.close()
    assert shells[0] == shells[1]
    assert shells[0][0] == 0
    assert pythons[0] == pythons[1]
    assert names[0] == names[1]


async def test_no_other_user_sees_into_a_sandbox_and_no_umask_shuts_it(open_folder):
    before = os.umask(0o077)
    try:
        backend = LandlockBackend(folder=open_folder)
        sandbox = await backend.create(WEAKER)
    finally:
        os.umask(before)
    (facts,) = open_folder.glob("*/sandbox.json")
    assert facts.parent.stat().st_mode & 0o007 == 0
    assert (await sandbox.exec(["id", "-un"])).text == "agent\n"
    await backend.close()


async def test_closing_leaves_no_folder_whatever_is_in_it(open_folder):
    backend = LandlockBackend(folder=open_folder)
    sandbox = await backend.create(WEAKER)
    closed = "import os\nfor n in range(300): os.mkdir('x' * 40); os.chdir('x' * 40)\nos.chmod('/work', 0)"
    assert (await sandbox.run_python(closed)).ok
    await sandbox.close()
    await backend.close()
    assert list(open_folder.iterdir()) == []


async def test_what_a_dead_process_left_is_removed(open_folder):
    backend = LandlockBackend(folder=open_folder)
    sandbox = await backend.create(WEAKER)
    (own,) = await backend.running()
    left = open_folder / own.id.replace(f"-{os.getpid()}-", "-1-")
    await asyncio.to_thread(left.mkdir)
    assert not own.orphaned
    assert [left.name] == [line.partition(":")[0] for line in await backend.clean()]
    assert (await sandbox.exec(["true"])).ok, "the living are spared"
    await sandbox.close()
    await backend.close()


async def test_files_that_exceed_the_disk_end_the_call_and_may_then_be_removed():
    backend = LandlockBackend()
    sandbox = await backend.create(SandboxSpec(disk_mib=8, accept_weaker=("all",)))
    fill = "import time\nfor n in range(40):\n    open(f'/work/{n}', 'wb').write(bytes(2**20)); time.sleep(0.1)"
    assert (await sandbox.run_python(fill)).exit_code == -9
    assert (await sandbox.exec(["sh", "-c", "rm /work/*; sleep 0.3; echo well"])).text == "well\n"
    await backend.close()


async def test_agent_code_reaches_no_guest_and_no_tracer():
    """The guest and its parent, the tracer, are of the same user."""
    backend = LandlockBackend()
    sandbox = await backend.create(WEAKER)
    code = "import os\nfor pid in (os.getppid(), -os.getppid(), -1):\n  for number in (9, 19, 15):\n"
    code += "    try: os.kill(pid, number); print('sent')\n    except PermissionError: pass\nprint('end')"
    assert (await sandbox.run_python(code)).text == "end\n"
    assert (await sandbox.run_python("print('well')")).text == "well\n"
    await backend.close()


async def test_a_folder_that_other_users_cannot_enter_is_named(tmp_path):
    """As root each sandbox has a user of its own."""
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's sandboxes are of the same user")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(SandboxUnavailable, match=f"{closed} .*TMPDIR"):
        await LandlockBackend(folder=closed).create(WEAKER)


async def test_weaker_limits_are_refused_unless_accepted():
    with pytest.raises(LimitUnenforceable, match="--accept-weaker memory,cpu,disk,inodes"):
        await LandlockBackend().create(SandboxSpec())


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"image": "/image"}, "SandboxSpec.image = '/image'"),
        ({"network": ("example.org",)}, "SandboxSpec.network"),
        ({"programs": ("npm:x@1",)}, "SandboxSpec.programs"),
    ],
)
async def test_what_needs_a_tree_or_network_of_its_own_is_refused(spec, words):
    with pytest.raises(SandboxUnavailable, match=words):
        await LandlockBackend().create(SandboxSpec(accept_weaker=("all",), **spec))


@pytest.mark.parametrize(("version", "user", "words"), [(0, 0, "no Landlock"), (4, 1000, "needs version 6")])
async def test_a_kernel_that_is_too_old_is_named(monkeypatch, version, user, words):
    monkeypatch.setattr(landlock, "version", lambda: version)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    capabilities = await LandlockBackend().probe()
    assert not capabilities.available
    assert words in capabilities.reason


def short_memory(content, address, length):
    return content


@pytest.mark.parametrize("number", architecture.numbers("utime", "utimes", "futimesat", "utimensat"))
def test_times_in_memory_that_a_program_does_not_have_are_its_own_error(number):
    """The tracer, which makes the call, must outlive it."""
    for memory in (None, b"short"):
        content = partial(short_memory, memory)
        assert metadata_calls.perform(number, [1] * 6, os.getpid(), lambda _: b"/", content) == -errno.EFAULT


async def test_another_architecture_is_named(monkeypatch):
    monkeypatch.setattr(architecture, "_PROCESSOR", "riscv64")
    assert "this machine is riscv64" in (await LandlockBackend().probe()).reason


@pytest.mark.skipif(landlock.version() < landlock.SCOPED, reason="as an ordinary user it needs Linux 6.12")
def test_an_ordinary_users_files_and_processes_are_out_of_reach():
    report = as_ordinary_user("landlock_checks.py")
    assert report["uid"] != 0
    assert report["through"] == []
    assert report["unchanged"]
    assert report["own"] == ["0o100640", 7, 9, "0o100711"], "its own files have the modes and times that it gives them"
    assert report["missing"] == ["cpu", "disk", "inodes", "memory", "processes"]
    assert report["many"] == -9
    assert set(report["missing"]) < set(LIMITS)
