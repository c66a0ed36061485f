"""Contract: files that the host reads, writes and lists."""

from __future__ import annotations

from .check import check_equal, check_raises, checks_of
from .testbed import Target


async def content_written_is_content_read(target: Target) -> None:
    """Two megabytes with every byte value come back unchanged, in directories that the write creates."""
    content = bytes(range(256)) * 8000
    await target.sandbox.write("deep/er/file.bin", content)
    check_equal(await target.sandbox.read("/work/deep/er/file.bin") == content, True, "what was written is read")
    check_equal(
        (await target.sandbox.exec(["wc", "-c", "deep/er/file.bin"])).stdout.split()[:1], [b"2048000"], "its size"
    )


async def a_file_is_replaced_whole_and_has_its_mode(target: Target) -> None:
    """Shorter content replaces all of the longer content, and `mode` also applies to an existing file."""
    await target.sandbox.write("file", b"a longer content")
    await target.sandbox.write("file", b"short", mode=0o755)
    check_equal(await target.sandbox.read("file"), b"short", "content")
    check_equal((await target.sandbox.exec(["stat", "-c", "%a", "file"])).stdout, b"755\n", "mode")


async def written_files_belong_to_the_agent(target: Target) -> None:
    """The agent may run, change and remove what the host wrote."""
    await target.sandbox.write("tools/run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
    result = await target.sandbox.exec(["sh", "-c", "tools/run.sh && echo more >> tools/run.sh && rm -r tools"])
    check_equal((result.exit_code, result.stdout), (0, b"ran\n"), "what the agent did")
    check_equal(await target.sandbox.list(), [], "names left")


async def names_are_sorted_and_directories_end_with_a_slash(target: Target) -> None:
    """A listing is sorted and tells directories from files; links count as files."""
    await target.sandbox.exec(["sh", "-c", "mkdir b c; touch a d c/x; ln -s b e"])
    check_equal(await target.sandbox.list(), ["a", "b/", "c/", "d", "e"], "names in /work")
    check_equal(await target.sandbox.list("c"), ["x"], "names in a directory")
    check_equal(await target.sandbox.list("/work/b"), [], "names in an empty directory")


async def odd_names_are_kept(target: Target) -> None:
    """Spaces, line breaks, dashes, umlauts and 255 bytes are names like any other."""
    names = sorted(["a b", "-rf", "new\nline", "ümläut", "*", "n" * 255, "\\"])
    for name in names:
        await target.sandbox.write(name, name.encode())
    check_equal(await target.sandbox.list(), sorted(names, key=lambda name: name.encode()), "names")
    for name in names:
        check_equal(await target.sandbox.read(name), name.encode(), f"content of {name!r:.20}")
    await check_raises(OSError, target.sandbox.write("n" * 256, b""), "a name that is too long")


async def a_file_that_is_missing_or_none_raises_pythons_own_error(target: Target) -> None:
    """FileNotFoundError, IsADirectoryError and NotADirectoryError, each with the path."""
    await target.sandbox.write("deep/file", b"")
    sandbox = target.sandbox
    for path, kind in (("none", FileNotFoundError), ("deep", IsADirectoryError), ("deep/file/x", NotADirectoryError)):
        error = await check_raises(kind, sandbox.read(path), f"read({path!r})")
        check_equal(path in str(error), True, f"the error names the path ({error})")
    await check_raises(NotADirectoryError, sandbox.list("deep/file"), "list of a file")
    await check_raises(OSError, sandbox.read("a\0b"), "a path with a null character")


async def a_file_larger_than_asked_for_is_refused(target: Target) -> None:
    """A file larger than `max_bytes` raises ValueError, which says how large the file is."""
    await target.sandbox.write("file", b"x" * 5000)
    error = await check_raises(ValueError, target.sandbox.read("file", max_bytes=4999), "read of a larger file")
    check_equal("5000" in str(error), True, f"the size is said ({error})")
    check_equal(len(await target.sandbox.read("file", max_bytes=5000)), 5000, "bytes of a file of just that size")


async def a_full_disk_is_an_error_and_not_the_end(target: Target) -> None:
    """Writing more than the disk limit raises OSError; the sandbox stays usable, and accepts small files again."""
    too_much = bytes((target.spec.disk_mib + 1) * 2**20)
    for _ in range(2):
        await check_raises(OSError, target.sandbox.write("big", too_much), "write of more than there is room for")
    await target.sandbox.exec(["rm", "-f", "big"])
    await target.sandbox.write("small", b"x")
    check_equal(await target.sandbox.read("small"), b"x", "a small file afterwards")


async def files_are_written_only_where_the_agent_could(target: Target) -> None:
    """Programs and settings of the sandbox cannot be replaced, by the host's calls either; /tmp can be written."""
    for path in ("/usr/x", "/etc/passwd", "/x", "/proc/self/comm"):
        await check_raises(OSError, target.sandbox.write(path, b"x"), f"write({path!r})")
    await target.sandbox.write("/tmp/x", b"x")
    check_equal(await target.sandbox.read("/tmp/x"), b"x", "a file in /tmp")
    check_equal(len(await target.sandbox.read("/etc/passwd")) > 0, True, "a file of the system can be read")


CHECKS = checks_of(
    "contract",
    "Files",
    content_written_is_content_read,
    a_file_is_replaced_whole_and_has_its_mode,
    written_files_belong_to_the_agent,
    names_are_sorted_and_directories_end_with_a_slash,
    odd_names_are_kept,
    a_file_that_is_missing_or_none_raises_pythons_own_error,
    a_file_larger_than_asked_for_is_refused,
    a_full_disk_is_an_error_and_not_the_end,
    files_are_written_only_where_the_agent_could,
)
