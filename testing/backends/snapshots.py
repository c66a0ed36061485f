"""Contract: snapshots, and sandboxes made from them."""

from __future__ import annotations

import asyncio

from .check import SNAPSHOTS, check_equal, checks_of
from .testbed import Target


async def snapshots_restore_every_file(target: Target) -> None:
    """A snapshot keeps names, contents, modes, links and empty directories of /work and /tmp."""
    await target.sandbox.write("a/b", b"content", mode=0o750)
    await target.sandbox.exec(["sh", "-c", "ln -s a/b link; mkdir empty; echo t > /tmp/t"])
    async with target.another(snapshot=await target.sandbox.snapshot()) as restored:
        check_equal(await restored.list(), ["a/", "empty/", "link"], "names restored")
        result = await restored.exec(["sh", "-c", "cat link /tmp/t; stat -c %a a/b"])
        check_equal(result.stdout, b"contentt\n750\n", "contents, links and modes restored")


async def equal_files_have_equal_snapshots(target: Target) -> None:
    """The id depends on the content: equal for equal files, different for different files."""
    await target.sandbox.write("a/b", b"content")
    first = await target.sandbox.snapshot()
    check_equal((await target.sandbox.snapshot()).id, first.id, "the id of a second snapshot")
    async with target.another(snapshot=first) as restored:
        check_equal((await restored.snapshot()).id, first.id, "the id of the same files elsewhere")
        await restored.write("a/b", b"Content")
        check_equal((await restored.snapshot()).id == first.id, False, "one changed letter keeps the id")
        await restored.write("a/b", b"content")
        check_equal((await restored.snapshot()).id, first.id, "the id once the letter is changed back")


async def odd_files_survive_a_snapshot(target: Target) -> None:
    """Names that are no text, files nobody may read, read-only directories, holes and dangling links."""
    await target.python(r"""
        open(b"\xff\xfe", "w").close()
        os.mkdir("shut"); open("shut/in", "w").write("x"); os.chmod("shut/in", 0); os.chmod("shut", 0o500)
        os.symlink("/nowhere", "link"); os.mkfifo("pipe")
        open("hole", "w").truncate(1 << 20)
    """)
    snapshot = await target.sandbox.snapshot()
    async with target.another(snapshot=snapshot) as restored:
        check_equal((await restored.snapshot()).id, snapshot.id, "the id of the restored files")
        result = await restored.exec(["sh", "-c", "stat -c %a shut shut/in; readlink link; stat -c %s hole"])
        check_equal(result.stdout, b"500\n0\n/nowhere\n1048576\n", "modes, link and size")


async def a_removed_file_stays_removed(target: Target) -> None:
    """What was removed, renamed or changed in kind after one snapshot is restored as a second snapshot has it."""
    await target.sandbox.exec(["sh", "-c", "mkdir d e; touch d/a d/b f; echo 1 > g"])
    async with target.another(snapshot=await target.sandbox.snapshot()) as second:
        await second.exec(["sh", "-c", "rm -r d/a f e; mkdir f; rm g; ln -s f g; mv d d2; touch e"])
        expected = b"d2/\nd2/b\ne\nf/\ng@\n"
        async with target.another(snapshot=await second.snapshot()) as third:
            result = await third.exec(["sh", "-c", "ls -dF * d2/*"])
            check_equal(sorted(result.stdout.split()), sorted(expected.split()), "names after two generations")


async def a_reset_goes_back_to_the_snapshot(target: Target) -> None:
    """A reset restores the files of the snapshot that a sandbox was made from, not an empty sandbox."""
    await target.sandbox.write("a/b", b"content")
    async with target.another(snapshot=await target.sandbox.snapshot()) as restored:
        await restored.exec(["sh", "-c", "echo other > a/b; touch new"])
        await restored.reset()
        check_equal((await restored.list(), await restored.read("a/b")), (["a/"], b"content"), "files after a reset")


async def forks_are_apart(target: Target) -> None:
    """Four sandboxes of one snapshot, and the sandbox that it was taken of, change their files independently."""
    await target.sandbox.write("f", b"common")
    snapshot = await target.sandbox.snapshot()

    async def fork(number: int) -> bytes:
        async with target.another(snapshot=snapshot) as forked:
            before = await forked.read("f")
            await forked.write("f", b"%d" % number)
            await asyncio.sleep(0.05)
            return before + await forked.read("f")

    check_equal(await asyncio.gather(*map(fork, range(4))), [b"common%d" % number for number in range(4)], "the forks")
    check_equal(await target.sandbox.read("f"), b"common", "the origin")


async def a_snapshot_disturbs_nothing(target: Target) -> None:
    """Sessions and channels continue while a snapshot of the files is taken."""
    await target.sandbox.run_python("x = 1", session="a")
    channel = await target.sandbox.open_channel(["cat"])
    await target.sandbox.snapshot()
    check_equal((await target.sandbox.run_python("print(x)", session="a")).stdout, b"1\n", "a session")
    check_equal(await channel.request(5), 5, "a channel")


async def a_restored_sandbox_keeps_its_limits(target: Target) -> None:
    """The disk limit includes the files of the snapshot."""
    half = bytes(target.spec.disk_mib * 2**20 * 5 // 8)
    await target.sandbox.write("half", half)
    async with target.another(snapshot=await target.sandbox.snapshot()) as restored:
        check_equal(
            (await restored.exec(["wc", "-c", "half"])).stdout.split()[:1], [b"%d" % len(half)], "bytes restored"
        )
        result = await restored.exec(["sh", "-c", f"head -c {target.spec.disk_mib * 3}M /dev/zero > more"])
        check_equal(result.exit_code == 0, False, "writing three times the limit works")


CHECKS = checks_of(
    "contract",
    "Snapshots",
    *(
        (SNAPSHOTS, check)
        for check in (
            snapshots_restore_every_file,
            equal_files_have_equal_snapshots,
            odd_files_survive_a_snapshot,
            a_removed_file_stays_removed,
            a_reset_goes_back_to_the_snapshot,
            forks_are_apart,
            a_snapshot_disturbs_nothing,
            a_restored_sandbox_keeps_its_limits,
        )
    ),
)
