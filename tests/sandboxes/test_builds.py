"""Images of Dockerfiles: built step by step in sandboxes, each layer once, and named where they fail."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import asynccontextmanager
from functools import partial

import pytest
from task_folders import folder_with_dockerfile

from agentgym import SandboxSpec, SandboxUnavailable
from agentgym.errors import SandboxError, TaskError
from agentgym.sandbox import NamespacesBackend
from agentgym.sandbox.rootfs import INDEX_FOLDER, InstalledProgram
from agentgym.sandbox.rootfs.python_image import write_python_image
from agentgym.sandboxes.code.terminal import build, built_image
from agentgym.sandboxes.code.terminal.base_images import BaseImage, base_images
from agentgym.sandboxes.code.terminal.build import build_image
from agentgym.sandboxes.code.terminal.disk import disk_of_build, memory_mib
from agentgym.sandboxes.code.terminal.uv import uv_image

PROGRAMS = (
    "sh bash cat chmod chown cp env find head ln ls mkdir mv printf readlink rm sed sleep stat test touch true yes"
)
pytestmark = pytest.mark.needs_namespaces


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache with an image named `base`, and no package index of this host."""
    with pytest.MonkeyPatch.context() as patch:
        top = tmp_path_factory.mktemp("builds")
        patch.setenv("AGENTGYM_CACHE", str(top))
        patch.setenv("PIP_CONFIG_FILE", os.devnull)
        patch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        write_python_image(top / "images" / "base", sys.executable, programs=PROGRAMS, data=())
        yield top


@pytest.fixture(scope="module")
def backend():
    created = NamespacesBackend()
    yield created
    asyncio.run(created.close())


@pytest.fixture
def folder_of(cache, tmp_path):
    """Returns a function: the task folder of a Dockerfile and the files beside it."""
    return partial(folder_with_dockerfile, tmp_path)


async def test_the_image_of_uv_is_uv_of_pypi(cache, backend, folder_of, tmp_path):
    copy = "COPY --from=ghcr.io/astral-sh/uv:0.8.15 /uv /uvx /bin/\n"
    folder = folder_of(f"FROM base\n{copy}RUN uv > /said\n")
    assert [image.used for image in base_images(folder.dockerfile)] == ["base", "pypi:uv@0.8.15"]
    (tmp_path / "program/bin").mkdir(parents=True)
    for name in ("uv", "uvx"):
        (tmp_path / "program/bin" / name).write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / "program/bin" / name).chmod(0o755)
    program = InstalledProgram("pypi:uv@0.8.15", "sha256:0123", tmp_path / "program", ("uv", "uvx"))
    path = uv_image(program)
    assert uv_image(program) == path
    images = {"base": BaseImage("base", "base"), "ghcr.io/astral-sh/uv:0.8.15": BaseImage("uv", path.name)}
    image = await build_image(backend, folder, images)
    sandbox = await backend.create(SandboxSpec(image=image.digest, writable_root=True))
    try:
        assert await sandbox.read("/said") == b"uv\n"
    finally:
        await sandbox.close()


async def built(backend, folder):
    return await build_image(backend, folder, {image.requested: image for image in base_images(folder.dockerfile)})


@asynccontextmanager
async def opened(backend, image):
    sandbox = await backend.create(SandboxSpec(image=image.digest, writable_root=True))
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def output_of(backend, image, command):
    async with opened(backend, image) as sandbox:
        result = await sandbox.exec(["sh", "-c", command], cwd="/")
        return (result.stdout + result.stderr).decode()


def packed(**files: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue()


async def test_an_image_has_what_its_dockerfile_says(backend, folder_of):
    folder = folder_of(
        """\
        ARG BASE=base
        FROM ${BASE} AS tools
        RUN mkdir -p /out/deep && printf one > /out/one && ln -s one /out/link && printf two > /out/deep/two
        FROM base
        ENV PLACE=/srv/place
        WORKDIR $PLACE/below
        COPY a.txt data /tmp/copied/
        COPY a.txt /etc
        COPY --chmod=700 a.txt /usr/bin/a
        COPY --from=tools /out /got
        COPY --from=tools /out/on? /
        ADD packed.tar.gz .
        RUN <<EOF
        printf "$PLACE $PWD $HOME" > /where
        EOF
        RUN chown 5:5 /where && touch /tmp/kept && printf 'ada:x:7:7::/home/ada:/bin/sh\\n' >> /etc/passwd
        USER ada
        RUN printf " $HOME" >> /where
        CMD ["true"]
        """,
        {"a.txt": b"A", "data/b.txt": b"B", "packed.tar.gz": packed(inside=b"I")},
    )
    image = await built(backend, folder)
    assert image.config.workdir == "/srv/place/below"
    assert await output_of(backend, image, "cat /where /srv/place/below/inside") == (
        "/srv/place /srv/place/below /root /home/adaI"
    )
    words = (
        await output_of(backend, image, "cd /; find tmp got one etc/a.txt; readlink got/link; cat got/deep/two")
    ).split()
    copied = ["tmp", "tmp/copied", "tmp/copied/a.txt", "tmp/copied/b.txt", "tmp/kept", "etc/a.txt"]
    from_stage = ["got", "got/deep", "got/deep/two", "got/link", "got/one", "one"]
    assert sorted(words) == sorted([*copied, *from_stage, "one", "two"])
    assert await output_of(backend, image, "stat -c %a /usr/bin/a") == "700\n"
    assert not await output_of(backend, image, f"ls {INDEX_FOLDER} 2> /dev/null")


async def test_steps_that_dockerfiles_share_are_built_once_even_at_the_same_time(backend, folder_of, tmp_path, capfd):
    shared = "FROM base\nCOPY a.txt /a\nRUN sleep 0.5; printf x > /x\n"
    first = folder_of(shared + "RUN printf 1 > /n\n", {"a.txt": b"A"})
    second = folder_of(shared + "RUN printf 2 > /n\n", {"a.txt": b"A", "unused.txt": b""})
    other = folder_of(shared, {"a.txt": b"B"})
    images = await asyncio.gather(built(backend, first), built(backend, second), built(NamespacesBackend(), first))
    assert capfd.readouterr().err.count("RUN sleep") == 1
    assert [await output_of(backend, image, "cat /a /x /n") for image in images] == ["Ax1", "Ax2", "Ax1"]
    assert images[0] == images[2] != images[1]
    await built(backend, second)
    assert capfd.readouterr().err == ""
    assert (await built(backend, other)).digest != images[0].digest
    assert "step 2 of 2: RUN sleep 0.5; printf x > /x" in capfd.readouterr().err


async def test_an_image_that_was_removed_from_the_cache_is_built_again(backend, folder_of, cache):
    folder = folder_of("FROM base\nRUN printf again > /again\n")
    image = await built(backend, folder)
    shutil.rmtree(next(cache.glob(f"roots/*/{image.digest.replace(':', '-')}")))
    assert await output_of(NamespacesBackend(), await built(NamespacesBackend(), folder), "cat /again") == "again"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "RUN true\nRUN printf 'so and\\nso' >&2; exit 3",
            r"greeting: step 2 of 2 of its Dockerfile, line 3, .*, ended with 3: so and\nso$",
        ),
        ("RUN sleep 60", "did not end in 1 s"),
        (
            "RUN yes | head -c 100000000 > /full",
            "ended with 1: .*No space left on device.* 32 MiB here; .* allows more",
        ),
        ("USER nobody-here\nRUN no-such-program", "ended with 127"),
        ("RUN printf x > /proc/sys/kernel/hostname", "ended with [12]: .*/proc/sys/kernel/hostname"),
        ("ADD http://files.test/a.txt /a", r"failed: .* The network refused files.test. Allow .*AGENTGYM_BUILD_ALLOW"),
    ],
)
async def test_a_step_that_fails_is_named_with_its_last_lines(backend, folder_of, monkeypatch, steps, message):
    monkeypatch.setenv("AGENTGYM_BUILD_DISK_MIB", "32")
    folder = folder_of(f"FROM base\n{steps}\n", settings="[environment]\nbuild_timeout_sec = 1\n")
    for _ in range(2):
        with pytest.raises(TaskError, match=message):
            await built(backend, folder)


def test_a_build_gets_the_disk_that_its_folder_asks_for_unless_the_machine_has_too_little(monkeypatch):
    assert disk_of_build(10) == 4096
    assert disk_of_build(10**9) == max(4096, memory_mib() // 2)
    monkeypatch.setenv("AGENTGYM_BUILD_DISK_MIB", "20000")
    assert disk_of_build(10) == 20000
    monkeypatch.setenv("AGENTGYM_BUILD_DISK_MIB", "20G")
    with pytest.raises(SandboxError, match="AGENTGYM_BUILD_DISK_MIB must be a number of MiB"):
        disk_of_build(10)


async def test_a_step_that_has_failed_is_not_tried_again_at_once_unless_something_changed(
    backend, folder_of, monkeypatch, capfd
):
    folder = folder_of("FROM base\nRUN touch /a && exit 7\n")
    for _ in range(3):
        with pytest.raises(TaskError, match=r"step 1 of 1 of its Dockerfile, line 2, .* ended with 7"):
            await built(backend, folder)
    assert capfd.readouterr().err.count("RUN touch") == 1
    monkeypatch.setenv("AGENTGYM_BUILD_ALLOW", "files.test")
    with pytest.raises(TaskError, match="ended with 7"):
        await built(backend, folder)
    monkeypatch.setattr(built_image, "FAILED_S", 0.0)
    with pytest.raises(TaskError, match="ended with 7"):
        await built(backend, folder)
    assert capfd.readouterr().err.count("RUN touch") == 2


async def test_a_host_that_does_not_answer_is_no_fault_of_the_task(backend, folder_of, monkeypatch):
    """The name is on the allow list, and has no address."""
    monkeypatch.setenv("AGENTGYM_BUILD_ALLOW", "files.invalid")
    folder = folder_of("FROM base\nADD http://files.invalid/a.txt /a\n")
    with pytest.raises(SandboxUnavailable, match=r"needs files.invalid, and this host's network does not reach it"):
        await built(backend, folder)


async def test_a_dockerfile_cannot_widen_what_its_build_may_reach(backend, folder_of):
    code = (
        "import urllib.request as u; "
        "print(u.build_opener(u.ProxyHandler({'http': 'http://127.0.0.1:8000'})).open('http://a.test'))"
    )
    folder = folder_of(
        f"""\
        FROM base
        ENV AGENTGYM_BUILD_ALLOW=* no_proxy=* PIP_INDEX_URL=http://a.test
        RUN python3 -c "{code}"
        """
    )
    with pytest.raises(TaskError, match="ended with 1"):
        await built(backend, folder)


BUILDER = """
import asyncio, sys
from agentgym.sandbox import NamespacesBackend
from agentgym.sandboxes.code.terminal.base_images import base_images
from agentgym.sandboxes.code.terminal.build import build_image
from agentgym.sandboxes.code.terminal.folder import TerminalFolder

async def main():
    folder = TerminalFolder.read(sys.argv[1])
    await build_image(NamespacesBackend(), folder, {i.requested: i for i in base_images(folder.dockerfile)})

asyncio.run(main())
"""


def kill_while_it_builds(folder) -> None:
    process = subprocess.Popen([sys.executable, "-c", BUILDER, str(folder)], stderr=subprocess.PIPE, text=True)
    try:
        assert "RUN printf half" in process.stderr.readline()
        time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


async def test_a_build_that_is_killed_leaves_nothing_that_is_taken_for_whole(backend, folder_of, tmp_path):
    folder = folder_of("FROM base\nRUN printf half > /half && sleep 2 && printf whole > /whole\n")
    kill_while_it_builds(tmp_path / "greeting")
    assert await output_of(backend, await built(backend, folder), "cat /half /whole") == "halfwhole"


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("RUN sh -c 'f() { f | f & }; f; sleep 60'", "did not end in 3 s|ended with|used up"),
        ("""RUN python3 -c "x = [bytearray(2**24) for _ in range(2**12)]" """, "ended with|used up the memory"),
        ("RUN yes", "did not end in 3 s"),
        ("RUN kill -9 -1; exit 5", "ended with"),
        ("RUN mkdir -p /gone && rm -rf / ; exit 4", "ended with 4|ended with 127"),
        ("""RUN python3 -c "import socket; socket.create_connection(('127.0.0.1', 22), 1)" """, "ended with 1"),
        ("""RUN python3 -c "import socket; socket.create_connection(('169.254.169.254', 80), 1)" """, "ended with 1"),
        ("RUN cat /proc/1/root/etc/hostname /proc/self/root/etc/shadow", "ended with 1"),
    ],
    ids=["forks", "memory", "output", "kills all", "removes all", "host", "metadata", "other roots"],
)
async def test_a_hostile_step_ends_within_its_bounds_and_is_named(backend, folder_of, monkeypatch, steps, message):
    monkeypatch.setenv("AGENTGYM_BUILD_DISK_MIB", "64")
    monkeypatch.setattr(build, "MEMORY_MIB", 256)
    settings = "[environment]\nbuild_timeout_sec = 3\nmemory_mb = 256\n"
    folder = folder_of(f"FROM base\n{steps}\n", settings=settings)
    with pytest.raises(TaskError, match=f"step 1 of 1 of its Dockerfile, line 2, .*({message})"):
        await built(backend, folder)
    assert (
        await output_of(backend, await built(backend, folder_of("FROM base\nRUN printf ok > /ok\n")), "cat /ok") == "ok"
    )


def archive_of(*members: tuple[str, bytes, str]) -> bytes:
    """An archive of names, kinds and targets of links; its files are another user's, and run as root."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode, info.uid = kind, target, 0o6755, 1234
            info.size = 3 if kind == tarfile.REGTYPE else 0
            info.devmajor, info.devminor = 1, 3
            archive.addfile(info, io.BytesIO(b"bad"))
    return raw.getvalue()


UP = "../" * 12
OUTSIDE = "tmp/agentgym-hostile"
LEADING_OUT = {
    "by its name": [(f"{UP}{OUTSIDE}", tarfile.REGTYPE, "")],
    "through a link": [("out", tarfile.SYMTYPE, f"{UP}tmp"), ("out/agentgym-hostile", tarfile.REGTYPE, "")],
    "absolutely": [(f"/{OUTSIDE}", tarfile.REGTYPE, "")],
    "by a hard link": [("hard", tarfile.LNKTYPE, f"{UP}etc/passwd")],
    "by devices": [(kind.decode(), kind, "") for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)],
}


@pytest.fixture
def outside():
    """Check that a test has left no file where hostile archives lead."""
    yield
    assert not os.path.lexists(f"/{OUTSIDE}")


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("members", LEADING_OUT.values(), ids=LEADING_OUT)
async def test_an_archive_that_leads_out_changes_nothing_outside(backend, folder_of, members):
    """It is refused, or unpacked within the image, and without devices."""
    try:
        folder = folder_of("FROM base\nADD evil.tar /in/\n", {"evil.tar": archive_of(*members)})
        image = await built(backend, folder)
    except TaskError as error:
        message = str(error)
        assert any(repr(name) in message for name, _, _ in members), message
    else:
        listed = await output_of(backend, image, "find / -xdev -type b; find /in -type c; cat /in/hard")
        assert "root:" not in listed
        assert not [line for line in listed.splitlines() if line.startswith("/")]


async def test_an_archive_that_unpacks_to_more_than_a_build_may_have_is_refused(backend, folder_of, monkeypatch):
    monkeypatch.setenv("AGENTGYM_BUILD_DISK_MIB", "32")
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as archive:
        info = tarfile.TarInfo("zeros")
        info.size = 2**28
        archive.addfile(info, Zeros())
    assert len(raw.getvalue()) < 2**20
    with pytest.raises(TaskError):
        await built(backend, folder_of("FROM base\nADD bomb.tar.gz /in/\n", {"bomb.tar.gz": raw.getvalue()}))


class Zeros:
    def read(self, size: int) -> bytes:
        return bytes(size)
