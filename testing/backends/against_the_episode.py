"""Attacks by which an agent would make its own episode an infrastructure failure, which no success rate counts."""

from __future__ import annotations

import asyncio

from agentgym import FilesNotCaptured

from .check import check_equal, check_not, check_raises, checks_of
from .testbed import Target, dedented, reported


async def steering_the_memory_killer(target: Target) -> None:
    """Exempts itself and its parents from memory kills, and fills memory outside any process: the guest survives."""
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
    """Registers 200 triggers that report pressure on memory, processors or disk: the kernel refuses them."""
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
    """Files with holes, far larger than the disk: a snapshot captures and restores them as they were."""
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
    """A file of half the disk with fifty hard links: a snapshot stores it once, and the copy has one file."""
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
    """Nests folders until no path can name them: a snapshot reports the agent's error, and all else works."""
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
    """Removes all rights from its files and folders, even the working directory: all are captured."""
    await target.python("""
        os.makedirs("/work/a/b"); open("/work/a/b/c", "w").close()
        for name in ("a/b/c", "a/b", "a", ""): os.chmod(f"/work/{name}", 0)
        os.chmod("/tmp", 0)
    """)
    names = (await target.sandbox.snapshot()).entries.keys()
    check_equal(names, {b"tmp", b"work", b"work/a", b"work/a/b", b"work/a/b/c"}, "files in the snapshot")
    result = await target.sandbox.exec(["stat", "-c", "%a", "/work"])
    check_equal(result.stdout, b"0\n", "the rights afterwards")


async def leases_on_its_files(target: Target) -> None:
    """Takes leases on its files, so that opening one waits for the holder: a snapshot and a command do not wait."""
    code = """
        import fcntl
        held = []
        for name in ("tool", "data"):
            with open(name, "w") as file: file.write("#!/bin/sh\\necho well\\n")
            os.chmod(name, 0o755)
            held.append(os.open(name, os.O_RDONLY))
            attempt(name, lambda: fcntl.fcntl(held[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK))
        report(through)
    """
    report = reported(await target.python(code, session="holder"))
    async with asyncio.timeout(15):
        check_equal("work/tool" in str((await target.sandbox.snapshot()).entries.keys()), True, "a file in a snapshot")
        result = await target.sandbox.exec(["/work/tool"])
        check_equal(result.stdout, b"well\n", "what a program with a lease prints")
        await target.sandbox.write("data", b"new")
    check_equal(report, {"value": []}, "leases that it got")


async def descriptors_on_their_way(target: Target) -> None:
    """Leaves as many descriptors unreceived as it may: calls that send a descriptor still end, with one answer each."""
    code = """
        import socket
        ends = socket.socketpair()
        try: socket.send_fds(ends[0], [b"x"], [0] * 250)
        except OSError: pass
    """
    await target.python(code, session="hoarder")
    for session in ("hoarder", "other"):
        long = f"print('well') #{'x' * 100_000}"
        result = await target.sandbox.run_python(long, session=session, timeout_s=2)
        check_equal(result.exit_code in (0, -9), True, "whether a call ended as calls do")
    await asyncio.sleep(2)  # the time limit of the calls above: a second answer to one of them would come by then
    check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "a later call")


async def a_working_directory_that_is_shut(target: Target) -> None:
    """Removes its own access to /work: a command elsewhere still runs and answers, within its time limit."""
    await target.sandbox.exec(["chmod", "000", "/work"])
    for _ in range(2):
        result = await target.sandbox.exec(["sh", "-c", "pwd; (sleep 60 &)"], cwd="/tmp")
        check_equal((result.exit_code, result.stdout), (0, b"/tmp\n"), "a command in another directory")
    result = await target.sandbox.exec(["pwd"])
    check_equal(result.exit_code in (0, 126) and result.stdout in (b"", b"/work\n"), True, "whether a command says why")
    await target.idle("after commands in another directory")
    await target.sandbox.exec(["chmod", "755", "/work"], cwd="/tmp")
    check_equal((await target.sandbox.exec(["pwd"])).stdout, b"/work\n", "the working directory once it is open again")


CHECKS = checks_of(
    "attack",
    "Its own episode",
    ("memory", steering_the_memory_killer),
    triggers_on_memory_pressure,
    ("snapshots", files_full_of_holes),
    ("snapshots", a_file_with_many_names),
    ("snapshots", folders_deeper_than_a_path),
    ("snapshots", files_that_forbid_everything),
    ("snapshots", leases_on_its_files),
    descriptors_on_their_way,
    a_working_directory_that_is_shut,
)
