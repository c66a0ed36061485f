"""Attacks of an agent on its own episode: one that ends as the infrastructure's failure is left out of every rate."""

from __future__ import annotations

from agentgym.errors import FilesNotCaptured
from agentgym.testing.backends.check import check_equal, check_not, check_raises, checks_of
from agentgym.testing.backends.testbed import Target, dedented


async def steering_the_memory_killer(target: Target) -> None:
    """Exempts itself and its parents from memory kills, and fills memory that is nobody's: the guest lives on."""
    code = """
        import os, time
        for pid in ("self", os.getppid(), *filter(str.isdecimal, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/oom_score_adj", "w") as file: file.write("0")
                print("spared", pid, flush=True)
            except OSError: pass
        for _ in range(4):
            if os.fork() == 0: time.sleep(30)
        held = []
        while True:
            held.append(os.memfd_create("x"))
            os.write(held[-1], bytes(4 << 20))
    """
    await target.sandbox.write("fill.py", dedented(code).encode())
    for argv in (["python3", "fill.py"], None):
        result = await (target.sandbox.exec(argv, timeout_s=20) if argv else target.python(code))
        check_equal(result.stdout, b"", "processes that it spared")
        check_equal(result.oom_killed, True, "whether it was killed for its memory")
    check_equal(await target.sandbox.list(), ["fill.py"], "files of the sandbox afterwards")


async def triggers_on_memory_pressure(target: Target) -> None:
    """Asks the kernel to be woken when the whole machine runs short of memory, processors or disk, 200 times."""
    through = await target.through("""
        held = []
        def watch(kind):
            held.append(os.open(f"/proc/pressure/{kind}", os.O_RDWR))
            os.write(held[-1], b"some 150000 2000000\\0")
        for _ in range(200 // 3):
            for kind in ("memory", "cpu", "io"): attempt(kind, lambda: watch(kind))
    """)
    check_not(bool(through), f"{len(through)} triggers were set")


async def files_full_of_holes(target: Target) -> None:
    """Files that are far larger than the disk, but empty: a snapshot holds them, and makes them anew as they were."""
    size = target.spec.disk_mib << 20
    await target.python(
        """
        for number in range(2):
            with open(f"/work/{number}", "wb") as file:
                file.truncate(size); file.seek(size // 2); file.write(b"x")
        """,
        size=size,
    )
    snapshot = await target.sandbox.snapshot()
    check_not(snapshot.size_bytes > 1 << 20, f"the snapshot takes {snapshot.size_bytes} bytes")
    async with target.another(snapshot=snapshot) as copy:
        result = await copy.exec(
            ["sh", "-c", "stat -c %s 0; tail -c +$(($(stat -c %s 0) / 2 + 1)) 0 | head -c 1; cat 1 | wc -c"]
        )
        check_equal(result.text.split(), [str(size), "x" + str(size)], "sizes and content in the copy")


async def a_file_with_many_names(target: Target) -> None:
    """A file of half the disk with fifty hard links: a snapshot holds it once, and they are one file in the copy."""
    await target.python(
        """
        with open("/work/first", "wb") as file: file.write(os.urandom(size))
        for number in range(50): os.link("/work/first", f"/work/{number}")
        """,
        size=target.spec.disk_mib << 18,
    )
    snapshot = await target.sandbox.snapshot()
    async with target.another(snapshot=snapshot) as copy:
        result = await copy.exec(["sh", "-c", "stat -c %h first; cmp first 48 && cat first | cksum"])
        original = await target.sandbox.exec(["sh", "-c", "echo 51; cat first | cksum"])
        check_equal(result.stdout, original.stdout, "names of the file, and its content")


async def folders_deeper_than_a_path(target: Target) -> None:
    """Folders in folders until no path can name them: a snapshot says so as the agent's error, and all goes on."""
    await target.python("""
        for _ in range(120):
            try: os.mkdir("d" * 200); os.chdir("d" * 200)
            except OSError: break
        open("deep", "w").close()
    """)
    error = await check_raises(FilesNotCaptured, target.sandbox.snapshot(), "a snapshot of folders that are too deep")
    check_equal("bytes" in str(error), True, "whether it says how deep")
    await target.sandbox.exec(["sh", "-c", "rm -rf /work/*"])
    check_equal((await target.sandbox.snapshot()).entries.keys(), {b"tmp", b"work"}, "files once they are removed")


async def files_that_forbid_everything(target: Target) -> None:
    """Takes all rights from its files and folders, the working directory included: all of it is captured."""
    await target.python("""
        os.makedirs("/work/a/b"); open("/work/a/b/c", "w").close()
        for name in ("a/b/c", "a/b", "a", ""): os.chmod(f"/work/{name}", 0)
        os.chmod("/tmp", 0)
    """)
    names = (await target.sandbox.snapshot()).entries.keys()
    check_equal(names, {b"tmp", b"work", b"work/a", b"work/a/b", b"work/a/b/c"}, "files in the snapshot")
    result = await target.sandbox.exec(["stat", "-c", "%a", "/work"])
    check_equal(result.stdout, b"0\n", "the rights afterwards")


CHECKS = checks_of(
    "attack",
    "Its own episode",
    ("memory", steering_the_memory_killer),
    triggers_on_memory_pressure,
    ("snapshots", files_full_of_holes),
    ("snapshots", a_file_with_many_names),
    ("snapshots", folders_deeper_than_a_path),
    ("snapshots", files_that_forbid_everything),
)
