"""Attacks on the host through files that the host reads and writes on the agent's behalf."""

from __future__ import annotations

import asyncio
import contextlib
import resource

from agentgym import FilesNotCaptured, SandboxError

from .check import SNAPSHOTS, check_equal, check_not, check_raises, checks_of
from .testbed import Target

_REFUSED = (OSError, ValueError)


async def symbolic_links(target: Target) -> None:
    """Links to the system, to /proc and to each other, as a file and as part of a path: the host follows none."""
    await target.sandbox.exec(
        [
            "sh",
            "-c",
            "ln -s /etc/passwd l; ln -s / d; ln -s /proc/1/environ e; ln -s /proc/self/fd/3 f; mkdir sub;"
            " ln -s ../../etc/passwd sub/up; ln -s loop loop; ln -s /proc/self/mem m; ln -s /dev/zero z; ln -s /proc p",
        ]
    )
    async with asyncio.timeout(20):
        for path in (
            "l",
            "d/etc/passwd",
            "e",
            "f",
            "sub/up",
            "loop",
            "m",
            "z",
            "p/1/environ",
            "d/proc/self/maps",
            "p/self/environ",
        ):
            await check_raises(_REFUSED, target.sandbox.read(path), f"read({path!r})")
        for path in ("l", "d/work/x", "d/tmp/x", "sub/up", "loop", "m", "f", "z", "p/self/comm"):
            await check_raises(_REFUSED, target.sandbox.write(path, b"x"), f"write({path!r})")
        for path in ("d", "d/etc", "p", "loop"):
            await check_raises(_REFUSED, target.sandbox.list(path), f"list({path!r})")


async def paths_that_climb(target: Target) -> None:
    """Paths with `..`, doubled slashes, and through /proc, given to the host's own calls."""
    await target.sandbox.exec(["mkdir", "-p", "a/b"])
    async with asyncio.timeout(20):
        for path in (
            "../etc/passwd",
            "a/../../etc/passwd",
            "/work/../etc/passwd",
            "/tmp/../proc/1/environ",
            "/proc/1/environ",
            "/proc/self/environ",
            "//proc/1/mem",
            "/proc/self/root/etc/passwd",
        ):
            await check_raises(_REFUSED, target.sandbox.read(path), f"read({path!r})")
        for path in ("../../x", "a/../../x", "/work/../x", "../usr/x", "/proc/self/mem", "/proc/1/comm", "/proc/sys/x"):
            await check_raises(_REFUSED, target.sandbox.write(path, b"x"), f"write({path!r})")
        check_equal(await target.sandbox.list("a/.."), ["a/"], "a path that stays inside")


async def hard_links(target: Target) -> None:
    """Hard links to programs and settings, which would give them another name and other rights."""
    through = await target.through("""
        import sys
        python = os.path.realpath(sys.executable)
        for path in ("/etc/passwd", "/bin/sh", os.__file__, "/dev/null", "/proc/version", python):
            for folder in ("/work", "/tmp", "/dev/shm"):
                attempt(path, lambda: os.link(path, folder + "/linked"))
    """)
    check_not(bool(through), f"linked {', '.join(through)}")
    await target.sandbox.exec(["sh", "-c", "echo 1 > one; ln one two"])
    await target.sandbox.write("two", b"2")
    check_equal(await target.sandbox.read("one"), b"2", "two names of one file of the agent's own")


async def special_files(target: Target) -> None:
    """Pipes, sockets, terminals and devices where the host expects files: refused, without waiting."""
    await target.python("""
        import socket
        os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("socket"); os.mkdir("folder")
    """)
    async with asyncio.timeout(20):
        for path in (
            "pipe",
            "socket",
            "folder",
            "/dev/zero",
            "/dev/null",
            "/dev/random",
            "/dev/ptmx",
            "/dev/tty",
            "/dev/stdin",
        ):
            await check_raises(_REFUSED, target.sandbox.read(path, max_bytes=100), f"read({path!r})")
        for path in ("pipe", "socket", "folder", "/dev/full", "/dev/ptmx"):
            await check_raises(_REFUSED, target.sandbox.write(path, b"x"), f"write({path!r})")
        for path in ("pipe", "socket", "/dev/null"):
            await check_raises(_REFUSED, target.sandbox.list(path), f"list({path!r})")


async def sparse_files(target: Target) -> None:
    """Sparse files of up to a terabyte, which the host reads and puts into a snapshot: it uses little memory."""
    claimed = await target.report("""
        size = 0
        for power in (40, 34, 30, 26, 24, 20):
            try: os.truncate(os.open("hole", os.O_CREAT | os.O_WRONLY), 1 << power)
            except OSError: continue
            size = 1 << power; break
        report(size)
    """)
    check_not(claimed == 0, "no file could be made: nothing is proved")
    await check_raises(
        ValueError, target.sandbox.read("hole", max_bytes=claimed - 1), "read of a file that claims more"
    )
    before = _peak_mib()
    with contextlib.suppress(ValueError, OSError):
        check_equal(len(await target.sandbox.read("hole")) <= 16 * 2**20, True, "bytes of a hole")
    check_not(_peak_mib() - before > 256, f"the host took {_peak_mib() - before} MiB to read it")


async def a_file_that_grows_while_it_is_read(target: Target) -> None:
    """Rewrites, cuts and grows a file while the host reads it: the host gets at most what it asked for, and ends."""
    writer = """
        import time
        until = time.monotonic() + 20
        while time.monotonic() < until:
            with open("f", "wb", buffering=0) as file:
                for _ in range(5): file.write(b"x" * 200_000)
    """
    writing = asyncio.create_task(target.python(writer, timeout_s=30))
    try:
        async with asyncio.timeout(20):
            for _ in range(60):
                with contextlib.suppress(OSError, ValueError):
                    check_equal(len(await target.sandbox.read("f", max_bytes=600_000)) <= 600_000, True, "bytes read")
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


async def races_between_check_and_use(target: Target) -> None:
    """A file, and a directory on the way to it, turn into links and back while the host reads and writes there."""
    swapper = """
        import time
        os.makedirs("d", exist_ok=True); os.makedirs("real", exist_ok=True)
        for name in ("f", "d/f"): open(name, "w").write("own")
        os.symlink("/etc", "away"); os.symlink("/etc/passwd", "trap"); os.symlink("/proc/1", "process")
        print("ready", flush=True)
        def swap(one, other):
            try: os.rename(one, "hold"); os.rename(other, one); os.rename("hold", other)
            except OSError: pass
        until = time.monotonic() + 20
        while time.monotonic() < until:
            for one, other in (("f", "trap"), ("d", "away"), ("d", "process")):
                for _ in range(2): swap(one, other)
    """
    swapping = asyncio.create_task(target.python(swapper, timeout_s=30))
    try:
        async with asyncio.timeout(25):
            read = 0
            for round_ in range(150):
                for path in ("f", "d/f", "d/passwd", "d/environ"):
                    with contextlib.suppress(OSError, ValueError):
                        got = await target.sandbox.read(path)
                        read += 1
                        check_equal(set(got) <= set(b"ownhost"), True, f"read({path!r}) gave {got!r:.60}: content")
                if round_ % 3 == 0:
                    for path in ("f", "d/f"):
                        with contextlib.suppress(OSError, ValueError):
                            await target.sandbox.write(path, b"host")
            check_not(not read, "no read ever hit the file: nothing is proved")
    finally:
        swapping.cancel()
        await asyncio.gather(swapping, return_exceptions=True)
    result = await target.sandbox.exec(["sh", "-c", "head -c 5 /etc/passwd; ls /etc/f /usr/f 2>/dev/null"])
    check_equal(result.stdout, b"root:", "the system's files afterwards")


async def hostile_names(target: Target) -> None:
    """Ten thousand names, with line breaks, terminal escapes and invalid text: the host handles all of them."""
    report = await target.report("""
        made = 0
        for name in (b"\\n", b"\\x1b]0;x\\x07", b"\\xff\\xfe", b"a\\tb", b" ", b"-", b"%s%n", b"'\\"`$(x)",
                     b"\\xe2\\x80\\xae"):
            os.close(os.open(b"/work/" + name, os.O_CREAT)); made += 1
        try:
            os.mkdir("/tmp/many")
            for number in range(10_000): os.close(os.open(f"/tmp/many/{number:0200d}", os.O_CREAT))
        except OSError: pass
        report(made)
    """)
    names = await target.sandbox.list()
    check_equal((len(names), all(isinstance(name, str) for name in names)), (report, True), "names listed")
    many = await target.sandbox.list("/tmp/many")
    check_equal(len(many) > 100 and many == sorted(many), True, "many long names listed in order")


async def deep_directories(target: Target) -> None:
    """A thousand nested directories: they can be listed, captured in a snapshot, and removed."""
    depth = await target.report("""
        depth = 0
        try:
            for _ in range(1000): os.mkdir("d"); os.chdir("d"); depth += 1
        except OSError: pass
        report(depth)
    """)
    check_not(depth < 100, f"the tree is {depth} deep: nothing is proved")
    check_equal(await target.sandbox.list("d/" * 100), ["d/"], "names far down")
    async with asyncio.timeout(60):
        with contextlib.suppress(SandboxError, OSError):
            await target.sandbox.snapshot()
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the next call")


async def a_snapshot_of_traps(target: Target) -> None:
    """Pipes, sockets, holes, unreadable folders and links outward in a snapshot: it ends, bounded, and restores."""
    await target.python("""
        import socket
        os.mkfifo("pipe"); socket.socket(socket.AF_UNIX).bind("socket"); os.symlink("/etc/passwd", "away")
        os.symlink("/dev/zero", "endless"); os.mkdir("shut"); open("shut/f", "w").close(); os.chmod("shut", 0)
        for number in range(40):
            for power in (40, 30, 24, 20):
                try: os.truncate(os.open(f"hole{number}", os.O_CREAT | os.O_WRONLY), 1 << power)
                except OSError: continue
                break
    """)
    before = _peak_mib()
    async with asyncio.timeout(60):
        try:
            snapshot = await target.sandbox.snapshot()
        except FilesNotCaptured:
            snapshot = None  # refusing a snapshot that is too large is allowed
    check_not(_peak_mib() - before > 512, f"the host took {_peak_mib() - before} MiB to keep it")
    if snapshot is not None:
        with contextlib.suppress(SandboxError):
            async with target.another(snapshot=snapshot) as restored:
                result = await restored.exec(
                    ["sh", "-c", "readlink away; test -p pipe && echo pipe; test -S socket; true"]
                )
                check_equal(result.stdout.split()[:1], [b"/etc/passwd"], "the link restored")
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the next call")


def _peak_mib() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


CHECKS = checks_of(
    "attack",
    "Files as traps",
    symbolic_links,
    paths_that_climb,
    hard_links,
    special_files,
    sparse_files,
    a_file_that_grows_while_it_is_read,
    races_between_check_and_use,
    ("inodes", hostile_names),
    (SNAPSHOTS, deep_directories),
    (SNAPSHOTS, a_snapshot_of_traps),
)
