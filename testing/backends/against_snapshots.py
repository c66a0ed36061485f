"""Attacks by files on a snapshot, and on the other sandboxes that are made from it."""

from __future__ import annotations

from agentgym import ToolError

from .check import check_equal, check_not, checks_of
from .testbed import Target


async def files_shared_by_forks(target: Target) -> None:
    """Writes to a file of a snapshot through mappings, splices, reopened descriptors: no other fork sees it."""
    await target.sandbox.write("common", b"kept" * 4096)
    snapshot = await target.sandbox.snapshot()
    async with target.another(snapshot=snapshot) as attacker, target.another(snapshot=snapshot) as victim:
        await attacker.run_python("""
import ctypes, mmap, os
libc = ctypes.CDLL(None)
def attempt(call):
    try: call()
    except (OSError, ValueError): pass
descriptor = os.open("common", os.O_RDONLY)
def splice():
    read, write = os.pipe()
    os.write(write, bytes(65536)); os.read(read, 65536)
    os.splice(descriptor, write, 1, offset_src=0); os.write(write, b"FORGED")
def race():
    view = mmap.mmap(descriptor, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)
    memory = os.open("/proc/self/mem", os.O_RDWR)
    lines = [line for line in open("/proc/self/maps") if line.rstrip().endswith("/work/common")]
    start = int(lines[0].split("-")[0], 16)
    for _ in range(500):
        os.lseek(memory, start, 0); os.write(memory, b"FORGED"); view.madvise(mmap.MADV_DONTNEED)
attempt(splice)
attempt(race)
attempt(lambda: mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
attempt(lambda: os.write(os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY), b"FORGED"))
attempt(lambda: os.ftruncate(descriptor, 0))
attempt(lambda: libc.fallocate(descriptor, 3, 0, 4096))
with open("common", "r+b") as file: file.write(b"FORGED")
os.truncate("common", 100)
""")
        check_equal(await victim.read("common"), b"kept" * 4096, "the file in another fork")
    async with target.another(snapshot=snapshot) as later:
        check_equal(await later.read("common"), b"kept" * 4096, "the file in a later fork")


async def forged_marks_of_an_overlay(target: Target) -> None:
    """Forges whiteouts, opaque folders and redirections: a copy contains the files that the sandbox shows."""
    await target.sandbox.exec(["sh", "-c", "mkdir -p a/b; echo one > a/b/one; echo two > two; echo three > a/three"])
    async with target.another(snapshot=await target.sandbox.snapshot()) as fork:
        await fork.run_python("""
import os, stat
def attempt(call):
    try: call()
    except OSError: pass
def whiteout(): os.unlink("two"); os.mknod("two", stat.S_IFCHR | 0o666, 0)
attempt(whiteout)
attempt(lambda: os.mknod("a/new", stat.S_IFCHR | 0o666, 0))
for space in ("user.overlay", "trusted.overlay"):
    marks = (("opaque", b"y"), ("whiteout", b"y"), ("redirect", b"/tmp"), ("metacopy", b""), ("origin", b"x"))
    for mark, value in marks:
        for path in ("a", "a/b", "a/three"): attempt(lambda: os.setxattr(path, f"{space}.{mark}", value))
open(".wh.two", "w").close(); open("a/.wh..wh..opq", "w").close()
""")
        listing = "import os, json; print(json.dumps(sorted((r, sorted(f)) for r, _, f in os.walk('/work'))))"
        files = [name for name in await fork.list() if name != "two"]
        seen = (await fork.run_python(listing)).text.replace('"two"', '""')
        async with target.another(snapshot=await fork.snapshot()) as copy:
            check_equal([name for name in await copy.list() if name != "two"], files, "names in a copy")
            copied = (await copy.run_python(listing)).text.replace('"two"', '""')
            for name in ("one", "three", ".wh.two", ".wh..wh..opq"):
                check_equal(name in copied, name in seen, f"whether {name} is in the copy")


async def times_out_of_range(target: Target) -> None:
    """Files with times before the epoch and at the end of time: a snapshot captures and restores them."""
    await target.python("""
        for number, when in enumerate((-1, -2**62, 2**62, 2**63 - 1, -2**63, 0)):
            open(f"/work/{number}", "w").close()
            attempt(number, lambda: os.utime(f"/work/{number}", ns=(when, when)))
        os.mkdir("/work/folder"); attempt("folder", lambda: os.utime("/work/folder", ns=(2**63 - 1, -2**63)))
    """)
    snapshot = await target.sandbox.snapshot()
    async with target.another(snapshot=snapshot) as copy:
        check_equal(await copy.list(), await target.sandbox.list(), "files in a copy")
        check_equal((await copy.snapshot()).id, snapshot.id, "the id of a snapshot of the copy")


async def files_that_resist(target: Target) -> None:
    """Makes files immutable, append-only and sealed if it can: they are captured, replaced or refused."""
    await target.python("""
        import fcntl, struct
        for number, flags in enumerate((0x10, 0x20, 0x30, 0x40, 0x80, 0xffffffff)):
            path = f"/work/{number}"
            with open(path, "w") as file:
                file.write("x")
                attempt(path, lambda: fcntl.ioctl(file, 0x40086602, struct.pack("L", flags)))
        os.mkdir("/work/folder")
        descriptor = os.open("/work/folder", os.O_RDONLY)
        attempt("folder", lambda: fcntl.ioctl(descriptor, 0x40086602, struct.pack("L", 0x30)))
    """)
    for name in ("0", "1", "folder/new"):
        try:
            await target.sandbox.write(name, b"new")
        except OSError:
            continue
        check_equal(await target.sandbox.read(name), b"new", f"the content of {name}")
    names = (await target.sandbox.snapshot()).entries
    check_equal(all(f"work/{number}".encode() in names for number in range(6)), True, "whether all are captured")


async def memory_in_attributes_of_files(target: Target) -> None:
    """Fills extended attributes, which no file's size includes: they count as memory, and a snapshot stays small."""
    result = await target.python(
        """
        taken = 0
        for number in range(1000):
            path = f"/work/{number}"
            open(path, "w").close()
            for name in range(8):
                try: os.setxattr(path, f"user.{name}", bytes(60_000)); taken += 60_000
                except OSError: break
        report(taken >> 20)
        """
    )
    limit = target.spec.memory_mib
    lines = [line for line in result.text.splitlines() if line.startswith("FOUND ")]
    check_not(bool(lines) and int(lines[0][6:]) > limit, f"{lines} MiB of attributes, with {limit} MiB of memory")
    check_equal(bool(lines) or result.oom_killed or result.exit_code != 0, True, "whether it ended as calls do")
    try:
        snapshot = await target.sandbox.snapshot()
        check_not(snapshot.size_bytes > 4 << 20, f"the snapshot takes {snapshot.size_bytes} bytes")
    except ToolError:
        pass  # the sandbox has filled its own memory, and says so


async def descriptors_that_a_fork_sends(target: Target) -> None:
    """Leaves descriptors unreceived in a socket, which the kernel counts per user: sessions of a fork still work."""
    snapshot = await target.sandbox.snapshot()
    async with target.another(snapshot=snapshot) as attacker, target.another(snapshot=snapshot) as victim:
        await victim.run_python("kept = 6 * 7", session="a")
        holding = """
import os, socket
pairs = [socket.socketpair() for _ in range(20)]
for ours, _ in pairs:
    try: socket.send_fds(ours, [b"x"], [0] * 200)
    except OSError: pass
print("held")
"""
        check_equal((await attacker.run_python(holding, session="b")).stdout, b"held\n", "the sender's answer")
        long = await victim.run_python("#" * 200_000 + "\nprint(kept)", session="a")
        check_equal((long.exit_code, long.stdout), (0, b"42\n"), f"a session of another fork ({long.stderr!r:.200})")


CHECKS = checks_of(
    "attack",
    "Snapshots and their forks",
    ("snapshots", files_shared_by_forks),
    ("snapshots", forged_marks_of_an_overlay),
    ("snapshots", times_out_of_range),
    ("snapshots", files_that_resist),
    ("memory", memory_in_attributes_of_files),
    ("snapshots", descriptors_that_a_fork_sends),
)
