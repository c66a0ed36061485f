"""What goes wrong around containers: killed guests, hosts and creations, absent daemons; and that nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import containers, daemon, inspected, meeting_folders
from counts import open_files

from agentgym import install_command
from agentgym.errors import SandboxDied, SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Layer, Snapshot
from agentgym.sandbox.docker.backend import DockerBackend
from agentgym.sandbox.owner import LABEL, PLACE_LABEL, Owner

pytestmark = pytest.mark.needs_docker

HOST = """
import asyncio, json, os
from agentgym.sandbox.docker import DockerBackend
from agentgym.sandbox.limits import SandboxSpec

async def main():
    backend = DockerBackend()
    sandbox = await backend.create(SandboxSpec(memory_mib=64, disk_mib=8, processes=16))
    mine = [one.id for one in await backend.running() if one.owner == os.getpid()]
    print(json.dumps([os.getpid(), mine]), flush=True)
    {then}

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def backend() -> Iterator[DockerBackend]:
    created = DockerBackend()
    yield created
    asyncio.run(created.close())


async def test_a_closed_backend_leaves_nothing(small):
    before = containers(), meeting_folders(), set()
    warm = DockerBackend()  # the SDK keeps what it imports
    await (await warm.create(small)).close()
    await warm.close()
    files = open_files()
    backend = DockerBackend()
    first, second, third = [await backend.create(small) for _ in range(3)]
    assert len(containers() - before[0]) == 3
    await first.run_python("x = 1", session="a")
    await first.open_channel(["cat"])
    restored = await backend.create(small, snapshot=await second.snapshot())
    await restored.reset()
    endless = asyncio.create_task(third.exec(["sh", "-c", "while :; do sleep 0.01; done"]))
    await asyncio.sleep(0.2)
    await asyncio.gather(second.close(), second.close())
    await backend.close()
    with pytest.raises(SandboxDied):
        await endless
    threads = {first.name for first in threading.enumerate() if first.name.startswith("agentgym-docker")}
    assert (containers(), meeting_folders(), threads) == before
    assert open_files() == files


async def test_while_sandboxes_live_only_the_guests_sources_lie_on_the_host(backend, small):
    sandbox = await backend.create(small)
    (directory,) = [path for path in meeting_folders() if path.startswith(Owner.this_process().folder_prefix("docker"))]
    (code,) = (Path(tempfile.gettempdir()) / directory).iterdir()
    assert [path.name for path in code.iterdir()] == ["guest"]
    await sandbox.close()


async def test_a_guest_that_is_killed_is_a_dead_sandbox_and_the_next_one_works(backend, small):
    before = containers()
    sandbox = await backend.create(small)
    running = asyncio.create_task(sandbox.run_python("import time; time.sleep(30)"))
    await asyncio.sleep(0.1)
    (name,) = containers() - before
    os.kill(inspected(name)["State"]["Pid"], signal.SIGKILL)
    with pytest.raises(SandboxDied):
        await running
    with pytest.raises(SandboxDied):
        await sandbox.read("x")
    await sandbox.close()
    assert containers() == before
    other = await backend.create(small)
    assert (await other.run_python("print(1)")).stdout == b"1\n"
    await other.close()


async def test_a_container_removed_behind_our_back_is_a_dead_sandbox(backend, small):
    before = containers()
    sandbox = await backend.create(small)
    (name,) = containers() - before
    remove(name)
    with pytest.raises(SandboxDied):
        await sandbox.run_python("pass")
    await sandbox.close()


@pytest.mark.parametrize(
    "after_s",
    [0.0, pytest.param(0.05, marks=pytest.mark.thorough), 0.15, pytest.param(0.25, marks=pytest.mark.thorough)],
)
async def test_a_cancelled_creation_leaves_nothing(small, after_s):
    before = containers(), meeting_folders()
    backend = DockerBackend()
    creating = asyncio.create_task(backend.create(small))
    await asyncio.sleep(after_s)
    creating.cancel()
    await asyncio.wait([creating])
    if not creating.cancelled():  # it was quicker
        await creating.result().close()
    await backend.close()
    assert (containers(), meeting_folders()) == before


async def test_creations_beyond_what_the_daemon_can_take_wait_their_turn(backend, small):
    sandboxes = await asyncio.gather(*(backend.create(small) for _ in range(12)))
    results = await asyncio.gather(*(sandbox.run_python(f"print({n})") for n, sandbox in enumerate(sandboxes)))
    assert [result.text for result in results] == [f"{n}\n" for n in range(12)]
    await asyncio.gather(*(sandbox.close() for sandbox in sandboxes))


def test_a_host_killed_outright_leaves_a_folder_at_most_and_that_is_cleaned():
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.format(then="await asyncio.sleep(60)")], stdout=subprocess.PIPE, text=True
    )
    assert host.stdout is not None
    pid, names = json.loads(host.stdout.readline())
    assert len(set(names) & containers(of_everybody=True)) == 1
    host.kill()
    host.wait()
    host.stdout.close()
    _eventually(lambda: not set(names) & containers(of_everybody=True))
    assert len(meeting_folders(pid)) <= 1, "0 if another backend came by and cleaned"
    asyncio.run(_clean())
    assert meeting_folders(pid) == set()


def test_a_process_that_never_closes_its_backend_leaves_nothing():
    host = subprocess.run([sys.executable, "-c", HOST.format(then="pass")], capture_output=True, text=True, timeout=60)
    assert (host.returncode, host.stderr) == (0, "")
    pid, names = json.loads(host.stdout)
    _eventually(lambda: not set(names) & containers(of_everybody=True))
    assert meeting_folders(pid) == set()


async def test_containers_of_dead_owners_are_removed_and_others_left_alone(backend):
    """A host killed between create and start leaves a container that no guest can end."""
    here = Owner.this_process()
    dead = Owner(2**22, 1, here.namespace)  # past the highest number there can be
    recycled = Owner(here.pid, here.started - 1, here.namespace)  # our number, but another process's start
    names = {
        "dead": _created(dead.labels),
        "recycled": _created(recycled.labels),
        "ours": _created(here.labels),
        "elsewhere": _created({**dead.labels, PLACE_LABEL: "another machine"}),
        "odd": _created({LABEL: "x"}),
    }
    try:
        listed = {entry.id: entry for entry in await backend.running()}
        present = {word: listed[name] for word, name in names.items() if name in listed}  # others may clean, too
        assert all(entry.orphaned == (word in ("dead", "recycled")) for word, entry in present.items())
        assert {word for word, entry in present.items() if entry.owner} == {"ours"}
        report = " ".join(await backend.clean())
        spared = {names[word] for word in ("ours", "elsewhere", "odd")}
        assert not [name for name in spared if name in report]
        assert set(names.values()) & containers(of_everybody=True) == spared
    finally:
        for name in set(names.values()) & containers(of_everybody=True):
            remove(name)


async def test_what_runs_is_listed_with_its_owner_and_its_load(backend, small):
    sandbox = await backend.create(small)
    (entry,) = [entry for entry in await backend.running() if entry.owner == os.getpid()]
    assert (entry.backend, entry.image, entry.orphaned, entry.processes) == ("docker", "host", False, 1)
    assert entry.memory_mib > 1
    assert 0 <= entry.age_s < 60
    await sandbox.close()
    assert [entry for entry in await backend.running() if entry.owner == os.getpid()] == []


def test_one_backend_serves_one_event_loop_after_another_and_two_at_once(small):
    backend = DockerBackend()

    async def use() -> str:
        sandbox = await backend.create(small)
        try:
            return (await sandbox.run_python("print(6 * 7)")).text
        finally:
            await sandbox.close()

    outputs = [asyncio.run(use())]
    threads = [threading.Thread(target=lambda: outputs.append(asyncio.run(use()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(backend.close())
    assert outputs == ["42\n"] * 3


def test_after_a_fork_parent_and_child_each_have_their_own_sandboxes():
    code = """
import asyncio, os, sys
from agentgym.errors import SandboxDied
from agentgym.sandbox.docker import DockerBackend
from agentgym.sandbox.limits import SandboxSpec
spec = SandboxSpec(memory_mib=64, disk_mib=8, processes=16)
backend = DockerBackend()

async def use(old):
    if old is not None:
        try: await old.run_python("pass")
        except SandboxDied: pass
        else: sys.exit(3)
        await old.close()
    new = await backend.create(spec)
    assert (await new.run_python("print(1)")).text == "1\\n"
    await new.close()
    await backend.close()

first = asyncio.run(backend.create(spec))
pid = os.fork()
if pid == 0:
    asyncio.run(use(first))
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert asyncio.run(first.run_python("print(2)")).text == "2\\n"
asyncio.run(first.close())
asyncio.run(use(None))
"""
    before = containers(), meeting_folders()
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (containers(), meeting_folders()) == before


async def test_what_cannot_be_had_is_refused_with_a_reason(backend, small):
    before = containers()
    broken = Snapshot("0" * 64, "docker", (Layer("0" * 64, b"no archive"),), {})
    with pytest.raises(SandboxUnavailable, match="cannot be restored"):
        await backend.create(small, snapshot=broken)
    assert containers() == before
    other = DockerBackend(runtime="no-such-runtime")
    with pytest.raises(SandboxUnavailable, match=r"no runtime 'no-such-runtime'.*add-runtime"):
        await other.create(small)
    await other.close()


async def test_the_folder_for_sockets_can_be_chosen_and_is_left_empty(small, tmp_path):
    deep = tmp_path / ("long" * 40)  # a socket's address holds 107 bytes
    deep.mkdir()
    backend = DockerBackend(folder=deep)
    sandbox = await backend.create(small)
    assert (await sandbox.run_python("print(1)")).text == "1\n"
    await sandbox.close()
    await backend.close()
    assert list(deep.iterdir()) == []


async def test_an_absent_daemon_is_told_with_a_remedy(monkeypatch, tmp_path):
    shut = tmp_path / "socket"
    shut.touch()
    for address, words in (
        ("unix:///nowhere/docker.sock", "No such file.*apt-get install docker.io"),
        (f"unix://{shut}", "refused"),
        ("tcp://192.0.2.1:2375", "daemon of this machine"),
        ("ssh://somewhere", "daemon of this machine"),
    ):
        monkeypatch.setenv("DOCKER_HOST", address)
        backend = DockerBackend()
        capabilities = await backend.probe()
        await backend.close()
        assert not capabilities.available
        assert re.search(words, capabilities.reason), capabilities.reason


def test_an_absent_sdk_is_told_with_the_command_to_install_it(tmp_path):
    code = """
import asyncio, sys
sys.modules["docker"] = None
from agentgym.sandbox.docker import DockerBackend
print(asyncio.run(DockerBackend().probe()).reason)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert install_command("docker") in done.stdout, done.stderr


def remove(name: str) -> None:
    subprocess.run(["docker", "rm", "--force", name], check=True, capture_output=True)


async def _clean() -> None:
    backend = DockerBackend()
    await backend.clean()
    await backend.close()


def _created(labels: dict[str, str]) -> str:
    """A container that was created and never started."""
    client = daemon()
    try:
        return client.containers.create("agentgym/base", ["true"], labels=labels).name
    finally:
        client.close()


def _eventually(true) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "it did not come about in 30 s"
        time.sleep(0.05)


class Relay:
    """A second address of the daemon. While `serves` is false, it hangs up."""

    def __init__(self, path: Path) -> None:
        self.serves = True
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.serves:
                    threading.Thread(target=_relay, args=(client,), daemon=True).start()
                else:
                    client.close()


def _relay(client: socket.socket) -> None:
    with client, socket.socket(socket.AF_UNIX) as upstream:
        upstream.connect("/var/run/docker.sock")
        answers = threading.Thread(target=_pump, args=(upstream, client), daemon=True)
        answers.start()
        _pump(client, upstream)
        answers.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.mark.skipif(not Path("/var/run/docker.sock").exists(), reason="the daemon is reached in another way")
async def test_a_removal_that_failed_in_an_outage_of_the_daemon_is_tried_again(small, monkeypatch, tmp_path):
    relay, folders = Relay(tmp_path / "docker.sock"), meeting_folders()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    backend = DockerBackend()
    first, second = [await backend.create(small) for _ in range(2)]
    relay.serves = False
    with pytest.raises(SandboxError, match="cannot remove"):
        await first.close()
    with pytest.raises(SandboxError, match="cannot remove"):
        await second.reset()
    relay.serves = True
    await first.close()
    await second.reset()
    assert (await second.exec(["echo", "well"])).stdout == b"well\n"
    relay.serves = False
    with pytest.raises(SandboxError, match="cannot remove"):
        await backend.close()
    assert meeting_folders() == folders
    relay.close()
