"""Sandboxes with a writable root: root by name over an image, whose changes become snapshots and further images."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import tarfile
from contextlib import nullcontext

import pytest
from by_day import some_by_day
from containers import daemon
from rootfs import assemble
from specs import SMALL, checks_about

from agentgym.errors import SandboxError, SandboxUnavailable
from agentgym.sandbox import rootfs as rootfs_store
from agentgym.sandbox.contract import REMOVED
from agentgym.sandbox.docker import backend as docker_backend
from agentgym.sandbox.docker.backend import DockerBackend
from agentgym.sandbox.host.trees import changes_of, merged
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend

pytestmark = pytest.mark.needs_namespaces
BACKENDS = {"namespaces": NamespacesBackend, "docker": DockerBackend}
on_both = pytest.mark.parametrize(
    "backend_name", ["namespaces", pytest.param("docker", marks=pytest.mark.needs_docker)], indirect=True
)
ROOT_BY_NAME = {
    "a_new_sandbox_is_empty",  # its user is called root
    "files_are_written_only_where_the_agent_could",
    "writing_outside",
    "privileges",
    "setuid_programs",
    "hard_links",  # all files are its own
    "symbolic_links",  # these lead anywhere in the sandbox
    "paths_that_climb",
    "races_between_check_and_use",
    "files_that_forbid_everything",  # a folder made anew has a second entry in a snapshot
}
"""Checks of the kit that expect an agent which is not called root, or a root that is read-only and not its own."""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The path of an image; the cache is a folder of this test's own."""
    folder = tmp_path_factory.mktemp("writable")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(folder / "cache"))
        interpreter = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
        root = assemble(folder / "rootfs", interpreter)
        (root / "root").mkdir(mode=0o700)
        (root / "root" / "secret").write_text("of the image\n")
        (root / "root" / "secret").chmod(0o400)
        yield str(root)


@pytest.fixture(scope="module")
def image_of_docker(image, tmp_path_factory):
    """The name of the same image in the daemon."""
    path = tmp_path_factory.mktemp("docker") / "rootfs.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(image, arcname=".")
    client, name = daemon(), f"agentgym-test/writable:{os.getpid()}"
    repository, _, tag = name.partition(":")
    client.api.import_image(src=str(path), repository=repository, tag=tag)
    yield name
    client.api.remove_image(name)
    client.close()


@pytest.fixture(params=["namespaces"])
def backend_name(request):
    return request.param


@pytest.fixture
async def create(backend_name):
    """Makes sandboxes, which are closed after the test."""
    backend, built = BACKENDS[backend_name](), []

    async def create(spec, **options):
        built.append(await backend.create(spec, **options))
        return built[-1]

    yield create
    for sandbox in built:
        await sandbox.close()
    await backend.close()


@pytest.fixture
def spec(image, backend_name, request):
    name = image if backend_name == "namespaces" else request.getfixturevalue("image_of_docker")
    return dataclasses.replace(SMALL, image=name, writable_root=True)


async def output_of(sandbox, command: str) -> str:
    result = await sandbox.exec(["sh", "-c", command])
    assert result.ok, result
    return result.text


@on_both
async def test_the_agent_is_root_by_name_and_everything_can_be_written(create, spec):
    sandbox = await create(spec)
    assert await output_of(sandbox, "id -u; pwd; echo $HOME; cat /root/secret") == "0\n/work\n/root\nof the image\n"
    await output_of(sandbox, "mkdir -p /app /etc/x && echo a > /app/f && echo b >> /root/secret && rm /usr/bin/seq")
    await output_of(sandbox, "touch /closed && chmod 0 /closed && cat /closed && ln -s /app/f /etc/link")
    assert await sandbox.read("/etc/link") == b"a\n", "a link leads anywhere"
    await sandbox.write("/opt/new/file", b"by the host")
    assert await output_of(sandbox, "cat /opt/new/file") == "by the host"
    for path in ("/proc/self/comm", "/proc/1/status"):
        with pytest.raises(OSError, match=r"guest's own|Permission denied|Read-only"):
            await sandbox.write(path, b"x")
    other = await create(spec)
    assert await output_of(other, "ls /usr/bin/seq; cat /root/secret; ls /app 2>&1 | wc -l") == (
        "/usr/bin/seq\nof the image\n1\n"
    )


@on_both
async def test_changes_of_owner_and_user_succeed_without_effect(create, spec, backend_name):
    sandbox = await create(spec)
    code = (
        "import os; os.chown('/etc/passwd', 33, 33); os.setgroups([5]); os.setresgid(7, 7, 7); os.setresuid(33, 33, 33)"
        "; print(os.getuid(), os.stat('/etc/passwd').st_uid, os.getgid())"
    )
    result = await sandbox.run_python(code)
    assert result.text == "0 0 0\n", result.stderr
    status = await output_of(sandbox, "cat /proc/self/status /proc/self/uid_map")
    held = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.startswith("Cap")}
    override, owner = 1 << 1, 1 << 3  # in a container the image's files have owners of their own
    expected = {"namespaces": override, "docker": override | owner}[backend_name]
    assert {int(value, 16) for value in held.values()} == {0, expected}
    if backend_name == "docker":
        return
    inside, outside, count = (int(word) for word in status.splitlines()[-1].split())
    assert (inside, count) == (0, 1)
    assert outside != 0, "not the root of the machine"


@pytest.mark.needs_docker
@pytest.mark.parametrize("backend_name", ["docker"], indirect=True)
@pytest.mark.parametrize("user", ["root", "ordinary"])
async def test_root_of_a_container_reaches_nothing_of_the_guest_and_writes_only_to_the_bounded_overlay(
    create, spec, user, monkeypatch
):
    if user == "ordinary":  # whose process cannot open the guest's oom_score_adj, so that the guest does
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(docker_backend, "oom_score_of_peer", lambda connection: nullcontext([]))
    sandbox = await create(spec)
    for what in ("fd/3", "environ", "maps", "mem", "root/etc/passwd", "io"):
        result = await sandbox.exec(["cat", f"/proc/1/{what}"])
        assert b"Permission denied" in result.stderr
    assert await output_of(sandbox, "cat /proc/slabinfo /proc/vmallocinfo /proc/kpageflags") == ""
    find = "find / -xdev -type d -writable | head -1; cat /proc/mounts"
    mounts = (await output_of(sandbox, find)).splitlines()[1:]
    writable = {line.split()[1] for line in mounts if "rw" in line.split()[3].split(",")}
    assert writable == {"/", "/dev/pts", "/dev/shm"}
    hidden = await output_of(
        sandbox, "ls -A /.agentgym/own/lib/python*/*-packages /.agentgym/files 2> /dev/null || true"
    )
    assert not [line for line in hidden.splitlines() if line and not line.endswith(":")]
    await output_of(sandbox, "head -c 20000000 /dev/zero > /full 2> /dev/null || rm /full")
    assert (await sandbox.usage()).disk_bytes <= spec.disk_mib * 2**20


@on_both
async def test_a_fork_has_the_changes_and_a_removed_file_stays_removed(create, spec):
    first = await create(spec)
    await output_of(first, "mkdir -p /app/d && touch /app/d/x /app/d/y && rm /usr/bin/seq && mkdir mine")
    snapshot = await first.snapshot()
    assert snapshot.entries[b"usr/bin/seq"] == REMOVED
    assert {b"app/d/x", b"work/mine"} <= snapshot.entries.keys()
    assert not any(path.startswith((b"proc", b"dev", b".agentgym")) for path in snapshot.entries)
    second = await create(spec, snapshot=snapshot)
    assert await output_of(second, "ls /app/d; ls /usr/bin/seq 2>/dev/null || echo gone") == "x\ny\ngone\n"
    await output_of(second, "rm /app/d/x; rm -r mine")
    later = await second.snapshot()
    assert later.id != snapshot.id
    third = await create(spec, snapshot=later)
    assert (
        await output_of(third, "ls /app/d /work; ls /usr/bin/seq 2>/dev/null || echo gone")
        == "/app/d:\ny\n\n/work:\ngone\n"
    )
    await third.reset()
    assert await output_of(third, "ls /app/d") == "y\n"


@on_both
async def test_a_snapshots_id_says_what_differs_from_the_image_and_no_more(create, spec):
    """Equal files have equal ids, also after a fork; a folder made anew in place of the image's is another one."""

    async def id_after(*commands: str) -> str:
        snapshot = None
        for command in commands:  # each in a fork of the one before
            sandbox = await create(spec, snapshot=snapshot)
            await output_of(sandbox, command)
            snapshot = await sandbox.snapshot()
        return snapshot.id

    mode = "chmod 755 /usr/lib /app /app/d"
    expected = await id_after(f"mkdir -p /app/d; {mode}")
    assert await id_after("mkdir /app; touch /app/x", "rm /app/x; mkdir /app/d", mode) == expected
    assert await id_after("mkdir -p /app/d/e/f", "rm -r /app/d/e", mode) == expected
    assert await id_after("mkdir -p /app/d; rm -r /usr/lib", f"mkdir /usr/lib; {mode}") != expected
    assert await id_after(f"mkdir -p /app/d; rm -r /usr/lib; mkdir /usr/lib; {mode}") != expected


async def test_changes_become_an_image_that_shares_the_files_below(create, spec, image):
    sandbox = await create(spec)
    await output_of(sandbox, "mkdir /app && touch /app/x && rm /usr/bin/seq && echo v > /etc/version")
    fork = await create(spec, snapshot=await sandbox.snapshot())
    await output_of(fork, "rm /app/x && mkdir /app/y")
    base = rootfs_store.prepare_rootfs(image, as_root=True)
    built = rootfs_store.add_layer(base, await fork.snapshot(), {**dict(base.environment), "GREETING": "hello"})
    assert rootfs_store.add_layer(base, await fork.snapshot(), dict(built.environment)) == built
    assert built.below == base.layers
    assert not (built.root / "usr/bin/ls").exists(), "only what changed is kept"
    upper = await create(dataclasses.replace(spec, image=built.digest))
    assert await output_of(
        upper, "ls /app; cat /etc/version; echo $GREETING; ls /usr/bin/seq 2>/dev/null || echo gone"
    ) == ("y\nv\nhello\ngone\n")
    assert upper.image_digest == built.digest
    await output_of(upper, "rm -r /app")
    top = rootfs_store.add_layer(built, await upper.snapshot(), dict(built.environment))
    highest = await create(dataclasses.replace(spec, image=top.digest))
    assert await output_of(highest, "ls -d /app 2>/dev/null || cat /etc/version") == "v\n"


@on_both
async def test_the_kits_checks_hold_but_for_those_that_expect_another_user(backend_name, spec):
    name = spec.image

    class Writable(BACKENDS[backend_name]):  # type: ignore[misc]  # the backend is the test's parameter
        async def create(self, spec, *, snapshot=None):
            changes = {"image": name, "writable_root": True} if spec.image == "host" else {}
            return await super().create(dataclasses.replace(spec, **changes), snapshot=snapshot)

    writable = Writable()
    try:
        checks = set(checks_about("The guest", "Files", "Snapshots", "The kernel")) - ROOT_BY_NAME
        if backend_name == "docker":  # root there may list the numbers of the guest's descriptors, but open none
            checks.remove("descriptors_of_the_guest")
            checks = set(some_by_day(sorted(checks), len(checks) // 8))
        await check_backend(writable, only=checks)
    finally:
        await writable.close()


async def test_an_ordinary_sandbox_sees_no_images(create, spec):
    await create(spec)
    plain = await create(SMALL)
    result = await plain.exec(["sh", "-c", "id -u; ls -d /.agentgym"])
    assert (result.text, result.exit_code) == ("1000\n", 2)


async def test_what_cannot_be_is_refused(create, spec, image):
    with pytest.raises(SandboxError, match="needs an image"):
        SandboxSpec(writable_root=True)
    with pytest.raises(SandboxUnavailable, match="Build it again"):
        await create(dataclasses.replace(spec, image=f"sha256:{'0' * 64}"))
    plain = await create(SMALL)
    with pytest.raises(ValueError, match="writable root"):
        rootfs_store.add_layer(rootfs_store.prepare_rootfs(image, as_root=True), await plain.snapshot(), {})


def test_a_whiteout_below_a_new_folder_is_not_kept():
    """An overlay shows the name of a whiteout in a folder that only one layer has."""

    def record(path: str, kind: str, **fields: object) -> bytes:
        about = {} if kind == "w" else {"m": 0o755, "u": 0}
        return json.dumps({"p": path, "t": kind, **about, **fields}).encode() + b"\n"

    lower = record("app", "d", o=1) + record("app/x", "f", n=0) + record("etc", "d")
    upper = record("app", "d") + record("app/x", "w") + record("etc", "d") + record("etc/passwd", "w")
    paths = [change.path for change in changes_of(merged([lower, upper], lowest=False))]
    assert paths == [b"app", b"etc", b"etc/passwd"]
