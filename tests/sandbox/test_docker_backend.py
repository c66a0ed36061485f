"""The docker backend, beyond what the contract promises of every backend: its walls and its images."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
import tarfile
from collections.abc import Iterator

import pytest
from containers import containers, daemon, inspected

from agentgym.errors import SandboxUnavailable
from agentgym.sandbox.docker.backend import DockerBackend
from agentgym.sandbox.limits import SandboxSpec

pytestmark = pytest.mark.needs_docker


@pytest.fixture(scope="module")
def backend() -> Iterator[DockerBackend]:
    created = DockerBackend()
    yield created
    asyncio.run(created.close())


@pytest.fixture
async def sandbox(backend, small):
    created = await backend.create(small)
    yield created
    await created.close()


def only(names: set[str]) -> str:
    (name,) = names
    return name


async def test_the_agent_is_user_1000_without_any_capability_and_filtered(sandbox):
    for result in (
        await sandbox.run_python("print(open('/proc/self/status').read())"),
        await sandbox.run_python("print(open('/proc/self/status').read())", session="a"),
        await sandbox.exec(["cat", "/proc/self/status"]),
    ):
        fields = dict(line.split(":\t") for line in result.text.splitlines() if ":\t" in line)
        assert fields["Uid"].split() == fields["Gid"].split() == ["1000"] * 4
        assert fields["Groups"].strip() == ""
        assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


async def test_the_guest_is_root_with_three_capabilities_that_it_cannot_pass_on(sandbox):
    fields = "^(Uid|CapEff|CapBnd|Seccomp|NoNewPrivs):"  # looked at once the guest, done with starting this, is at rest
    result = await sandbox.exec(["sh", "-c", f"sleep 0.3; grep -E '{fields}' /proc/1/status"])
    kill_and_change_user = f"{1 << 5 | 1 << 6 | 1 << 7:016x}"
    assert result.text.split() == [
        "Uid:",
        "0",
        "0",
        "0",
        "0",
        "CapEff:",
        kill_and_change_user,
        "CapBnd:",
        "0" * 16,
        "NoNewPrivs:",
        "1",
        "Seccomp:",
        "2",
    ]


async def test_the_daemon_is_asked_for_every_wall(backend, small):
    before = containers()
    sandbox = await backend.create(dataclasses.replace(small, cpu_cores=0.5))
    container = inspected(only(containers() - before))
    host = container["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert sorted(host["CapAdd"]) == ["KILL", "SETGID", "SETPCAP", "SETUID"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["ReadonlyRootfs"], host["Privileged"], host["Init"], host["AutoRemove"]) == (
        True,
        False,
        False,
        True,
    )
    assert (host["NetworkMode"], host["IpcMode"], host["LogConfig"]["Type"]) == ("none", "none", "none")
    assert host["Memory"] == host["MemorySwap"] == small.memory_mib << 20
    assert (host["PidsLimit"], host["NanoCpus"]) == (small.processes + 1, 500_000_000)
    assert host["OomScoreAdj"] == 500  # killed before a host process, and after agent code
    assert host["Tmpfs"].pop("/sys/kernel") == "ro,size=4k"
    assert set(host["Tmpfs"]) == {"/work", "/tmp", "/dev/shm"}
    sizes = [dict(option.partition("=")[::2] for option in options.split(",")) for options in host["Tmpfs"].values()]
    assert sum(int(size["size"]) for size in sizes) <= small.disk_mib << 20
    assert sum(int(size["nr_inodes"]) - 1 for size in sizes) <= small.inodes
    assert [mount["RW"] for mount in container["Mounts"]] == [False, False]
    assert not host["Binds"]
    assert not host["Devices"]
    await sandbox.close()


async def test_nothing_of_the_hosts_environment_comes_along(sandbox):
    result = await sandbox.exec(["env"])
    names = {line.partition("=")[0] for line in result.text.splitlines()}
    threads = {name for name in names if name.endswith("_NUM_THREADS")}
    assert names - threads - {"PWD", "SHLVL", "_"} == {
        "PATH",
        "HOME",
        "TMPDIR",
        "USER",
        "LANG",
        "PYTHONHASHSEED",
        "PYTHONDONTWRITEBYTECODE",
    }
    assert (await sandbox.exec(["cat", "/etc/resolv.conf"])).text == "nameserver 127.0.0.1\n"


async def test_standard_streams_can_be_opened_again(sandbox):
    result = await sandbox.exec(["sh", "-c", "echo a > /dev/stdout; echo b > /dev/stderr"])
    assert (result.stdout, result.stderr) == (b"a\n", b"b\n")


async def test_files_the_host_writes_are_the_agents(sandbox):
    await sandbox.write("deep/file", b"x", mode=0o640)
    assert (
        await sandbox.exec(["stat", "-c", "%u:%g %a", "deep", "deep/file"])
    ).text == "1000:1000 755\n1000:1000 640\n"
    await sandbox.run_python("import os; os.mkdir('shut'); open('shut/f', 'w'); os.chmod('shut', 0)")
    with pytest.raises(PermissionError):
        await sandbox.write("shut/f", b"x")


async def test_disk_use_is_the_sum_of_all_writable_places(sandbox):
    await sandbox.exec(["sh", "-c", "for d in work tmp dev/shm; do head -c 100000 /dev/zero > /$d/f; done"])
    assert 300_000 <= (await sandbox.usage()).disk_bytes < 400_000


async def test_a_memory_kill_is_told_from_other_kills(backend):
    sandbox = await backend.create(SandboxSpec(memory_mib=64, disk_mib=8))
    for session in (None, "a"):
        result = await sandbox.run_python("b = bytearray(200 << 20)", session=session)
        assert (result.exit_code, result.oom_killed, result.timed_out) == (-9, True, False)
    result = await sandbox.exec(["sh", "-c", "kill -9 $$"])
    assert (result.exit_code, result.oom_killed) == (-9, False)
    await sandbox.close()


async def test_no_message_queue_can_be_made(sandbox):
    code = "try: open('/dev/mqueue/q', 'w')\nexcept OSError: print('refused')"
    assert (await sandbox.run_python(code)).text == "refused\n"


async def test_the_digest_is_that_of_the_image_that_runs(backend, small):
    before = containers()
    sandbox = await backend.create(small)
    assert sandbox.image_digest == inspected(only(containers() - before))["Image"]
    assert sandbox.image_digest.startswith("sha256:")
    await sandbox.close()


async def test_an_image_that_is_not_there_is_not_fetched_but_named(backend, small):
    with pytest.raises(SandboxUnavailable, match=r"no image 'no/such:image'.*never pulls"):
        await backend.create(dataclasses.replace(small, image="no/such:image"))


async def test_an_image_without_python_is_refused_with_the_reason(backend, small, image_of):
    before = containers()
    with pytest.raises(SandboxUnavailable, match=r"Python 3\.9"):
        await backend.create(dataclasses.replace(small, image=image_of({"etc/x": b"x"})))
    assert containers() == before


async def test_a_python_that_does_not_work_is_refused_with_the_reason(backend, small, built):
    image = built("RUN printf '#!/bin/sh\\nexit 3\\n' > /usr/local/bin/python3 && chmod +x /usr/local/bin/python3")
    before = containers()
    with pytest.raises(SandboxUnavailable, match=r"older than 3\.9 or broken"):
        await backend.create(dataclasses.replace(small, image=image))
    assert containers() == before


async def test_a_module_to_preload_that_the_image_has_not_is_named(backend, small):
    before = containers()
    with pytest.raises(SandboxUnavailable, match="No module named 'nothing_like_it'"):
        await backend.create(dataclasses.replace(small, preload=("nothing_like_it",)))
    assert containers() == before


async def test_a_volume_that_an_image_declares_is_no_disk_without_bounds(backend, small, built):
    image = built("RUN mkdir /data && chmod 777 /data\nVOLUME /data\nENV FROM_IMAGE=yes")
    sandbox = await backend.create(dataclasses.replace(small, image=image))
    assert (await sandbox.exec(["sh", "-c", "echo $FROM_IMAGE; echo x > /data/x"])).text == "yes\n"
    assert (await sandbox.exec(["ls", "/data"])).text == ""
    await sandbox.close()


async def test_a_snapshot_of_namespaces_is_restored_with_the_same_hash(backend, small):
    from agentgym.sandbox.namespaces.backend import NamespacesBackend

    other = NamespacesBackend()
    if not (await other.probe()).available:
        pytest.skip("no namespaces here")
    source = await other.create(small)
    await source.exec(["sh", "-c", "mkdir -p a/b; echo x > a/b/c; ln -s a/b/c l; chmod 700 a; echo t > /tmp/t"])
    snapshot = await source.snapshot()
    restored = await backend.create(small, snapshot=snapshot)
    assert (await restored.exec(["sh", "-c", "cat l /tmp/t; stat -c %a a"])).text == "x\nt\n700\n"
    assert (await restored.snapshot()).id == snapshot.id
    await restored.close()
    await source.close()
    await other.close()


@pytest.fixture
def image_of():
    """Makes an image of a few files, and removes it afterwards."""
    client, images = daemon(), []

    def make(files: dict[str, bytes]) -> str:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        images.append(f"agentgym-test/{os.getpid()}:{len(images)}")
        client.api.import_image_from_data(
            data.getvalue(), repository=images[-1].split(":")[0], tag=images[-1].split(":")[1]
        )
        return images[-1]

    yield make
    for name in images:
        client.images.remove(name, force=True)
    client.close()


@pytest.fixture
def built():
    """Builds an image on top of the standard one, and removes it afterwards."""
    client, images = daemon(), []

    def make(lines: str) -> str:
        images.append(f"agentgym-test/built-{os.getpid()}:{len(images)}")
        client.images.build(fileobj=io.BytesIO(f"FROM agentgym/base\n{lines}\n".encode()), tag=images[-1], rm=True)
        return images[-1]

    yield make
    for name in images:
        client.images.remove(name, force=True)
    client.close()
