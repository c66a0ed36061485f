"""Sandboxes on images: whatever form one comes in, its own Python runs there, as contained as on the host's files."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest
from counts import groups, processes_below, working_below
from rootfs import assemble
from specs import checks_about

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox import rootfs as rootfs_store
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.namespaces.backend import NamespacesBackend
from agentgym.testing import check_backend
from agentgym.testing.backends.testbed import mounts

pytestmark = pytest.mark.needs_namespaces
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory) -> Path:
    return assemble(tmp_path_factory.mktemp("rootfs"), SYSTEM_PYTHON)


@pytest.fixture(scope="module")
def cache_folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache_folder, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(cache_folder))


def packed(folder: Path, target: Path, mode: str = "w") -> Path:
    options = {"compresslevel": 1} if mode.endswith("gz") else {}
    with tarfile.open(target, mode, **options) as archive:
        archive.add(folder, arcname=".")
    return target


def layout(folder: Path, layers: list[Path], environment: list[str]) -> Path:
    """An OCI image layout of these layers."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def put(data: bytes) -> dict[str, object]:
        name = hashlib.sha256(data).hexdigest()
        (blobs / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    config = put(json.dumps({"config": {"Env": environment}}).encode())
    manifest = put(json.dumps({"config": config, "layers": [put(layer.read_bytes()) for layer in layers]}).encode())
    foreign = {**put(b"{}"), "platform": {"architecture": "s390x", "os": "linux"}}
    index = {"schemaVersion": 2, "manifests": [foreign, {**manifest, "platform": {"architecture": "amd64"}}]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def saved(folder: Path, layer: Path, environment: list[str]) -> Path:
    """What `docker save` writes, as a folder."""
    folder.mkdir()
    shutil.copy(layer, folder / "layer.tar")
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    config = {"config": {"Env": environment}, "rootfs": {"diff_ids": [f"sha256:{digest}"]}}
    (folder / "c.json").write_text(json.dumps(config))
    (folder / "manifest.json").write_text(json.dumps([{"Config": "c.json", "Layers": ["layer.tar"]}]))
    return folder


@pytest.fixture(scope="module")
def forms(rootfs, tmp_path_factory) -> dict[str, Path]:
    """One and the same root file system in every form that is read."""
    folder = tmp_path_factory.mktemp("forms")
    tar = packed(rootfs, folder / "plain.tar")
    gz = packed(rootfs, folder / "packed.tar.gz", "w:gz")
    words = ["WORD=from the image", "PATH=/usr/bin:/bin", "not a variable"]
    oci = layout(folder / "oci", [gz], words)
    save = saved(folder / "save", tar, words)
    return {
        "folder": rootfs,
        "tar": tar,
        "tar.gz": gz,
        "oci": oci,
        "oci.tar": packed(oci, folder / "oci.tar"),
        "save": save,
        "save.tar": packed(save, folder / "save.tar"),
    }


async def test_every_form_of_an_image_runs_its_own_python(forms):
    backend = NamespacesBackend()
    digests = {}
    try:
        for form, path in forms.items():
            sandbox = await backend.create(SandboxSpec(image=str(path), accept_weaker=("all",)))
            code = "import sys, os; print(sys.executable, open('/etc/os-release').read()[:22], os.getenv('WORD'))"
            result = await sandbox.run_python(code)
            word = "from the image" if form.startswith(("oci", "save")) else "None"
            assert (result.text, result.stderr) == (f'/usr/bin/python3 NAME="Small test image {word}\n', b""), form
            assert (await sandbox.exec(["sh", "-c", "id -un; echo x > f; cat f"])).text == "agent\nx\n"
            digests[form] = sandbox.image_digest
            await sandbox.close()
    finally:
        await backend.close()
    assert digests["oci"] == digests["oci.tar"]
    assert digests["save"] == digests["save.tar"]
    assert digests["tar"] == f"sha256:{hashlib.sha256(forms['tar'].read_bytes()).hexdigest()}"
    assert len(set(digests.values())) == 5


async def test_an_image_keeps_what_another_root_could_break(rootfs):
    """Its Python runs the guest, and its files stand where those of the host could be seen."""

    class OfImage(NamespacesBackend):
        async def create(self, spec, *, snapshot=None):
            image = str(rootfs) if spec.image == "host" else spec.image
            return await super().create(dataclasses.replace(spec, image=image), snapshot=snapshot)

    backend = OfImage()
    try:
        await check_backend(backend, only=checks_about("Python", "The host"))
    finally:
        await backend.close()


async def test_snapshots_of_an_image_are_as_small_and_as_quick_as_the_hosts(rootfs, small):
    """Layers are kept by the image's own spawner; a snapshot holds what was written, and nothing of the image."""
    backend = NamespacesBackend()
    spec = dataclasses.replace(small, image=str(rootfs))
    try:
        sandbox = await backend.create(spec)
        await sandbox.write("f", b"x")
        snapshot = await sandbox.snapshot()
        fork = await backend.create(spec, snapshot=snapshot)
        guest = fork._guest
        await fork.exec(["sh", "-c", "rm f; echo y > g"])
        await fork.reset()
        on_host = await backend.create(small, snapshot=snapshot)
        assert guest.base_snapshot is fork._guest.base_snapshot is snapshot
        assert await fork.list() == await on_host.list() == ["f"]
        running = [entry.image for entry in await backend.running() if entry.owner == os.getpid()]
        assert sorted(running) == ["host", sandbox.image_digest[:19], sandbox.image_digest[:19]]
    finally:
        await backend.close()


async def test_the_host_has_no_image_digest(backend, small):
    sandbox = await backend.create(small)
    assert sandbox.image_digest == ""
    await sandbox.close()


async def test_the_images_python_has_no_rights_outside(rootfs, small):
    """What runs before any sandbox is confined is the image's too: it must be nobody, with no network."""
    hostile = rootfs.parent / "hostile-site"
    shutil.copytree(rootfs, hostile, symlinks=True)
    (library,) = (hostile / "usr/lib").glob("python3.*")
    code = f"""
        import os, socket
        report = [os.path.exists(path) for path in ("/proc/1/environ", "/proc/{os.getpid()}/status")]
        try: os.mkdir("/sys/fs"); report.append("made a folder")
        except OSError: report.append("read-only")
        try: os.kill({os.getpid()}, 0); report.append("may kill")
        except OSError: report.append("no signals")
        report.append([name for _, name in socket.if_nameindex()])
    """
    (library / "planted.py").write_text(textwrap.dedent(code))
    backend = NamespacesBackend()
    try:
        spec = dataclasses.replace(small, image=str(hostile), preload=("planted",))
        sandbox = await backend.create(spec)
        report = json.loads((await sandbox.run_python("import planted, json; print(json.dumps(planted.report))")).text)
    finally:
        await backend.close()
    assert report[2:] == ["read-only", "no signals", ["lo"]]
    if os.geteuid() == 0:
        assert report[:2] == [False, False], "processes of the host are not even seen"


async def test_modules_are_preloaded_from_the_image(rootfs, small):
    backend = NamespacesBackend()
    try:
        sandbox = await backend.create(dataclasses.replace(small, image=str(rootfs), preload=("decimal",)))
        assert (await sandbox.run_python("import sys; print('decimal' in sys.modules)")).text == "True\n"
        with pytest.raises(SandboxUnavailable, match="cannot preload no_such"):
            await backend.create(dataclasses.replace(small, image=str(rootfs), preload=("no_such",)))
    finally:
        await backend.close()


async def test_an_image_without_a_fitting_python_is_refused_with_the_reason(rootfs, small, tmp_path):
    backend = NamespacesBackend()
    try:
        for name, program, reason in (
            ("none", None, r"no Python 3\.9 or newer that runs on this machine \(none in /usr"),
            ("old", "#!/bin/sh\nexit 41\n", "/usr/bin/python3 is older"),
            ("broken", "#!/bin/sh\nexit 1\n", "lacks a part of its standard library"),
            ("foreign", "\x7fELF no program of this machine", "cannot be run: Exec format error"),
        ):
            folder = tmp_path / name
            (folder / "usr").mkdir(parents=True)
            shutil.copytree(rootfs, folder, symlinks=True, dirs_exist_ok=True)
            for path in (folder / "usr/bin").glob("python*"):
                path.unlink()
            if program is not None:
                (folder / "usr/bin/python3").write_text(program)
                (folder / "usr/bin/python3").chmod(0o755)
            with pytest.raises(SandboxUnavailable, match=reason):
                await backend.create(dataclasses.replace(small, image=str(folder)))
        for path, reason in (
            ("/no/such/file", "this file or folder does not exist"),
            (str(tmp_path), "not a root file system"),
            ("swe", "no image has this name. Choose one of host"),
        ):
            with pytest.raises(SandboxUnavailable, match=reason):
                await backend.create(dataclasses.replace(small, image=path))
    finally:
        await backend.close()


async def test_nothing_is_left_when_the_backend_closes_or_its_spawner_is_killed(rootfs, small):
    before = working_below(os.getpid()), mounts()
    spec = dataclasses.replace(small, image=str(rootfs))
    left = 0
    for killed in (None, "keeper", "spawner"):
        backend = NamespacesBackend()
        sandbox = await backend.create(spec)
        await sandbox.exec(["true"])
        below = processes_below(os.getpid()) - before[0]
        (keeper,) = [pid for pid in below if parent(pid) == os.getpid()]
        children = [pid for pid in below if parent(pid) == keeper]
        if killed:
            os.kill(keeper if killed == "keeper" else children[0], signal.SIGKILL)
            with pytest.raises(SandboxDied):  # which may take a while, and until then another can still be made
                await sandbox.exec(["sleep", "30"])
            second = await until_made(backend, spec)
            assert (await second.run_python("print(1)")).text == "1\n"
        await backend.close()
        for _ in range(500):
            if working_below(os.getpid()) == before[0] and (killed == "keeper" or not groups(keeper)):
                break
            await asyncio.sleep(0.01)
        assert (working_below(os.getpid()), mounts()) == before
        if killed == "keeper":
            left = keeper
        else:
            assert not groups(keeper)
    backend = NamespacesBackend()
    await (await backend.create(spec)).close()
    assert not groups(left), "the next one sweeps"
    await backend.close()


async def until_made(backend, spec):
    for _ in range(100):
        try:
            return await backend.create(spec)
        except SandboxUnavailable:
            await asyncio.sleep(0.05)
    raise AssertionError("no sandbox came up again")


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_an_image_by_name_is_found_in_the_cache(forms, cache_folder):
    (cache_folder / "images").mkdir(exist_ok=True)
    (cache_folder / "images/small.tar").symlink_to(forms["tar"])
    (cache_folder / "images/other").symlink_to(forms["folder"])
    assert rootfs_store.names() == ["other", "small"]
    assert rootfs_store.prepare_rootfs("small").digest == rootfs_store.prepare_rootfs(str(forms["tar"])).digest
    with pytest.raises(SandboxUnavailable, match="Choose one of host, other, small"):
        rootfs_store.prepare_rootfs("smal")
    shutil.rmtree(cache_folder / "images")


def test_an_image_that_changes_is_another_image(rootfs, tmp_path):
    folder = tmp_path / "image"
    shutil.copytree(rootfs / "etc", folder / "etc")
    (folder / "bin").mkdir()
    first = rootfs_store.prepare_rootfs(str(folder))
    assert rootfs_store.prepare_rootfs(str(folder)) == first
    (folder / "etc/new").write_text("x")
    second = rootfs_store.prepare_rootfs(str(folder))
    assert second.digest != first.digest
    assert not (first.root / "etc/new").exists(), "what was unpacked stays as it was"


UNDER_NICE = """
import asyncio, sys
from agentgym.sandbox import NamespacesBackend, SandboxSpec

async def main():
    backend = NamespacesBackend()
    sandbox = await backend.create(SandboxSpec(image=sys.argv[1]))
    print((await sandbox.exec(["python3", "-c", "print(6 * 7)"])).text, (await sandbox.run_python("print(6)")).text)
    await sandbox.close()
    await backend.close()

asyncio.run(main())
"""


def test_everything_runs_where_agentgym_was_started_by_nice(rootfs):
    """A process whose niceness is above that of agent code may not lower it."""
    command = ["nice", "-n", "19", sys.executable, "-c", UNDER_NICE, str(rootfs)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["42", "6"]


UNPACK = "import sys; from agentgym.sandbox import rootfs; print(rootfs.prepare_rootfs(sys.argv[1]).digest)"


def test_processes_that_unpack_the_same_image_at_once_share_it(forms, tmp_path):
    environment = {**os.environ, "AGENTGYM_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", UNPACK, str(forms["tar"])]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    digests = {process.communicate(timeout=60)[0] for process in running}
    assert len(digests) == 1
    (shared,) = [path for path in (tmp_path / "roots/1").iterdir() if path.name.startswith("sha256-")]
    assert (shared / "root/usr/bin/sh").exists()
    assert not list((tmp_path / "roots/1").glob(".unpacking*"))
    assert (tmp_path / "roots/1").stat().st_mode & 0o077 == 0


def test_what_a_killed_process_was_unpacking_is_never_used(forms, cache_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    digest = f"sha256-{hashlib.sha256(forms['tar'].read_bytes()).hexdigest()}"
    (tmp_path / f"roots/1/.unpacking-{digest}/root/left").mkdir(parents=True)
    image = rootfs_store.prepare_rootfs(str(forms["tar"]))
    assert image.root.parent.name == digest
    assert not (image.root / "left").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_another_user_is_not_trusted(forms, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path))
    (tmp_path / "roots/1").mkdir(parents=True)
    os.chown(tmp_path / "roots/1", 65534, 65534)
    with pytest.raises(SandboxUnavailable, match="belongs to another user"):
        rootfs_store.prepare_rootfs(str(forms["tar"]))


def test_a_damaged_layer_is_refused_and_nothing_of_it_kept(forms, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    broken = tmp_path / "broken"
    shutil.copytree(forms["oci"], broken)
    largest = max((broken / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    with pytest.raises(SandboxUnavailable, match="damaged"):
        rootfs_store.prepare_rootfs(str(broken))
    assert not [path for path in (tmp_path / "cache/roots/1").iterdir() if "sha256-" in path.name and path.is_dir()]
