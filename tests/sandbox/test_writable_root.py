"""Sandboxes with a writable root: root by name over an image, whose changes become snapshots and further images."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys

import pytest
from rootfs import assemble
from specs import SMALL, checks_about

from agentgym.errors import SandboxError, SandboxUnavailable
from agentgym.sandbox import rootfs as rootfs_store
from agentgym.sandbox.contract import REMOVED
from agentgym.sandbox.docker.backend import DockerBackend
from agentgym.sandbox.host.trees import changes_of, merged
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend

pytestmark = pytest.mark.needs_namespaces
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


@pytest.fixture
async def create():
    """Makes sandboxes, which are closed after the test."""
    backend, built = NamespacesBackend(), []

    async def create(spec, **options):
        built.append(await backend.create(spec, **options))
        return built[-1]

    yield create
    for sandbox in built:
        await sandbox.close()
    await backend.close()


@pytest.fixture
def spec(image):
    return dataclasses.replace(SMALL, image=image, writable_root=True)


async def output_of(sandbox, command: str) -> str:
    result = await sandbox.exec(["sh", "-c", command])
    assert result.ok, result
    return result.text


async def test_the_agent_is_root_by_name_and_everything_can_be_written(create, spec):
    sandbox = await create(spec)
    assert await output_of(sandbox, "id -u; pwd; echo $HOME; cat /root/secret") == "0\n/work\n/root\nof the image\n"
    await output_of(sandbox, "mkdir -p /app /etc/x && echo a > /app/f && echo b >> /root/secret && rm /usr/bin/seq")
    await output_of(sandbox, "touch /closed && chmod 0 /closed && cat /closed && ln -s /app/f /etc/link")
    assert await sandbox.read("/etc/link") == b"a\n", "a link leads anywhere"
    await sandbox.write("/opt/new/file", b"by the host")
    assert await output_of(sandbox, "cat /opt/new/file") == "by the host"
    for path in ("/proc/self/comm", "/proc/1/status"):
        with pytest.raises(PermissionError):
            await sandbox.write(path, b"x")
    other = await create(spec)
    assert await output_of(other, "ls /usr/bin/seq; cat /root/secret; ls /app 2>&1 | wc -l") == (
        "/usr/bin/seq\nof the image\n1\n"
    )


async def test_changes_of_owner_and_user_succeed_without_effect(create, spec):
    sandbox = await create(spec)
    code = (
        "import os; os.chown('/etc/passwd', 33, 33); os.setgroups([5]); os.setresgid(7, 7, 7); os.setresuid(33, 33, 33)"
        "; print(os.getuid(), os.stat('/etc/passwd').st_uid, os.getgid())"
    )
    result = await sandbox.run_python(code)
    assert result.text == "0 0 0\n", result.stderr
    status = await output_of(sandbox, "cat /proc/self/status /proc/self/uid_map")
    held = {line.split()[0]: line.split()[1] for line in status.splitlines() if line.startswith("Cap")}
    assert {int(value, 16) for value in held.values()} == {0, 2}, "nothing but CAP_DAC_OVERRIDE"
    inside, outside, count = (int(word) for word in status.splitlines()[-1].split())
    assert (inside, count) == (0, 1)
    assert outside != 0, "not the root of the machine"


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


async def test_the_kits_checks_hold_but_for_those_that_expect_another_user(image):
    class Writable(NamespacesBackend):
        async def create(self, spec, *, snapshot=None):
            changes = {"image": image, "writable_root": True} if spec.image == "host" else {}
            return await super().create(dataclasses.replace(spec, **changes), snapshot=snapshot)

    writable = Writable()
    try:
        checks = set(checks_about("The guest", "Files", "Snapshots", "The kernel")) - ROOT_BY_NAME
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
    with pytest.raises(SandboxUnavailable, match="namespaces"):
        await DockerBackend()._create_restored(spec, None)
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
