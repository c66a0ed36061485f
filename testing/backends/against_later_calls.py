"""Attacks on later events in the same sandbox: its next calls, their limits and figures, a reset, a snapshot."""

from __future__ import annotations

import asyncio
import sys

from .check import check_equal, check_not, checks_of
from .testbed import Target, dedented

_PLANTED = ("sh", "true", "env", "python3", "python", "stat", "cat", "ls")


async def a_process_made_ahead(target: Target) -> None:
    """A session kills, stops and limits the process that waits for the next call: every call still gets a result."""
    code = """
        import resource, signal, threading, time
        def disturb():
            for _ in range(300):
                for name in os.listdir("/proc"):
                    if name.isdecimal() and int(name) not in (1, os.getpid()):
                        try:
                            for stream in (1, 2):
                                with open(f"/proc/{name}/fd/{stream}", "wb", buffering=0) as file: file.write(b"forged")
                            resource.prlimit(int(name), resource.RLIMIT_NOFILE, (0, 0))
                            os.kill(int(name), signal.SIGSTOP if int(name) % 2 else signal.SIGKILL)
                        except OSError: pass
                time.sleep(0.002)
        threading.Thread(target=disturb, daemon=True).start()
    """
    await target.sandbox.run_python("pass")
    await target.python(code, session="saboteur")
    for _ in range(4):
        await asyncio.sleep(0.08)
        result = await target.sandbox.run_python("pass", timeout_s=0.3)
        check_equal(-64 <= result.exit_code <= 255, True, "whether a call ended as calls do")
    await target.sandbox.run_python("import os; os._exit(0)", session="saboteur")
    check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "a call once the session is over")


async def modules_planted_for_the_guest(target: Target) -> None:
    """Plants a module under every name of the standard library: process 1 imports none of them."""
    trap = "import os; open('/tmp/trapped', 'a').write(f'{os.getpid()} ')"
    await target.python(
        """
        for name in names:
            for path in (f"/work/{name}.py", f"/tmp/{name}.py"):
                with open(path, "w") as file: file.write(trap)
        os.environ["PYTHONSTARTUP"] = os.environ["PYTHONPATH"] = "/work"
        """,
        names=[*sorted(sys.stdlib_module_names - {"os"})[:200], "sitecustomize", "usercustomize"],
        trap=trap,
    )
    sandbox = target.sandbox
    await sandbox.run_python("raise ValueError('\u00e4')")
    await sandbox.run_python("import time; time.sleep(9)", timeout_s=0.1)
    await sandbox.run_python("x = 1", session="a")
    await sandbox.exec(["no-such-program"])
    await sandbox.exec(["sh", "-c", "sleep 9"], timeout_s=0.1)
    channel = await sandbox.open_channel(["cat"])
    await channel.request(1)
    await channel.close()
    await sandbox.write("deep/er/file", b"x")
    await sandbox.list("deep")
    await sandbox.usage()
    await sandbox.snapshot()
    trapped = b"" if "trapped" not in await sandbox.list("/tmp") else await sandbox.read("/tmp/trapped")
    check_not(b"1" in trapped.split(), "process 1 imported a module of the agent's")


async def programs_planted_under_common_names(target: Target) -> None:
    """Plants programs under the names of those that are run next: the system's programs are run."""
    await target.python(
        """
        for folder in ("/work", "/tmp", "/dev/shm", "/work/bin", "/work/.local/bin"):
            os.makedirs(folder, exist_ok=True)
            for name in names:
                try:
                    with open(f"{folder}/{name}", "w") as file: file.write("#!/bin/sh\\necho forged\\n")
                    os.chmod(f"{folder}/{name}", 0o755)
                except OSError: pass
        """,
        names=_PLANTED,
    )
    for argv in (["sh", "-c", "echo well"], ["env", "echo", "well"], ["python3", "-c", "print('well')"]):
        check_equal((await target.sandbox.exec(argv)).stdout, b"well\n", f"what {argv[0]} prints")


async def ends_that_look_like_others(target: Target) -> None:
    """Ends as if the memory limit, the time limit or the host had killed it: the result states the real cause."""
    for code in ("os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 24)", "os._exit(137)", "os._exit(124)"):
        result = await target.python(f"import os; {code}")
        check_equal((result.oom_killed, result.timed_out), (False, False), f"memory kill and timeout after {code}")
        check_equal(result.exit_code in (-9, -24, 137, 124), True, f"the exit code after {code}")


async def processor_time_that_hides(target: Target) -> None:
    """Uses processor time in threads, short-lived children and orphans: the sandbox's usage includes all of it."""
    before = (await target.sandbox.usage()).cpu_s
    result = await target.report("""
        import resource, threading, time
        def spin(seconds):
            until = time.thread_time() + seconds
            while time.thread_time() < until: pass
        thread = threading.Thread(target=spin, args=(0.15,)); thread.start(); thread.join()
        for _ in range(15):
            pid = os.fork()
            if pid == 0:
                if os.fork() == 0: spin(0.01); os._exit(0)
                spin(0.01); os.wait(); os._exit(0)
            os.waitpid(pid, 0)
        report(True)
    """)
    check_equal(result, True, "whether it was spent")
    spent = (await target.sandbox.usage()).cpu_s - before
    check_not(spent < 0.4, f"{spent:.2f} of at least 0.45 s of processor time are counted")


async def calls_that_never_return(target: Target) -> None:
    """Waits where only SIGKILL works: in vfork, for a stopped child, on a full pipe, in a lock. The timeout holds."""
    for code in (
        "import ctypes; libc = ctypes.CDLL(None); libc.vfork() or libc.pause()",
        "import os, signal; pid = os.fork() or os.kill(os.getpid(), signal.SIGSTOP); os.waitpid(pid, 0)",
        "import os; _, end = os.pipe()\nwhile True: os.write(end, bytes(4096))",
        "import fcntl, os\nheld = open('/work/lock', 'w'); fcntl.flock(held, 2)\n"
        "if os.fork() == 0: fcntl.flock(open('/work/lock', 'w'), 2)\nos.wait()",
        "import signal, threading\nsignal.pthread_sigmask(0, range(1, 65))\n"
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    ):
        async with asyncio.timeout(15):
            result = await target.sandbox.run_python(code, timeout_s=0.2)
        check_equal(result.timed_out, True, f"whether the time limit ended {code!r:.60}")
    await target.idle("after their time limits")


async def calls_that_are_cancelled(target: Target) -> None:
    """Forks without end while its call is cancelled: no process remains, and the next call is answered."""
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    for session in (None, "bomber"):
        running = asyncio.create_task(target.sandbox.run_python(bomb, session=session, timeout_s=30))
        await asyncio.sleep(0.2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "the next call")
        await target.idle("after a call that was cancelled")


async def a_reset_under_fire(target: Target) -> None:
    """Uses up processes, memory and disk, and forks during a reset: nothing of this is left after the reset."""
    code = """
        import signal, threading, time
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        def fill():
            try:
                with open("/work/full", "wb", buffering=0) as file:
                    while True: file.write(bytes(1 << 20))
            except OSError: pass
        threading.Thread(target=fill).start()
        while True:
            try: os.fork()
            except OSError: time.sleep(0.001)
    """
    async with target.another() as sandbox:
        running = asyncio.create_task(sandbox.run_python("import os\n" + dedented(code), timeout_s=30))
        await asyncio.sleep(0.2)
        async with asyncio.timeout(20):
            await sandbox.reset()
        await asyncio.gather(running, return_exceptions=True)
        check_equal(await sandbox.list(), [], "files after a reset")
        check_equal((await sandbox.usage()).processes, 0, "processes after a reset")
        check_equal((await sandbox.run_python("print('well')")).stdout, b"well\n", "a call after a reset")


async def sessions_without_end(target: Target) -> None:
    """Opens more sessions than the guest has descriptors and processes: every call still gets its result."""
    for number in range(3 * target.spec.processes):
        result = await target.sandbox.run_python("print('well')", session=f"s{number}", timeout_s=5)
        well = result.stdout == b"well\n" or (result.exit_code == 126 and bool(result.stderr))
        check_equal(well, True, f"whether session {number} was answered or said why not ({result!r:.200})")
    check_equal((await target.sandbox.usage()).processes <= target.spec.processes, True, "the limit on processes")
    for number in range(3 * target.spec.processes):
        await target.sandbox.run_python("import os; os._exit(0)", session=f"s{number}", timeout_s=5)
    check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "a call once they have ended")


async def working_directories_that_lead_astray(target: Target) -> None:
    """Runs commands in folders that are links to what process 1 has open, pipes, loops, or names of 5,000 letters."""
    await target.python("""
        os.symlink("/proc/1/cwd", "/work/one"); os.symlink("/proc/1/root", "/work/root"); os.mkfifo("/work/pipe")
        os.symlink("loop", "/work/loop"); os.mkdir("/work/well")
    """)
    for folder in ("one", "root", "pipe", "loop", "gone", "x" * 5000):
        async with asyncio.timeout(10):
            result = await target.sandbox.exec(["pwd", "-P"], cwd=f"/work/{folder}")
        check_equal(result.stdout in (b"", b"/work\n"), True, f"where {folder:.40} leads ({result.stdout!r})")
    async with target.another(snapshot=await target.sandbox.snapshot()) as fork:
        for number in range(3, 24):  # in a fork, process 1 has the overlay's upper directory open
            await fork.exec(["ln", "-sfn", f"/proc/1/fd/{number}", "/work/up"])
            result = await fork.exec(["sh", "-c", "touch forged && pwd -P"], cwd="/work/up")
            check_equal(result.stdout, b"", f"where descriptor {number} of process 1 leads")
    check_equal((await target.sandbox.exec(["pwd"], cwd="/work/well")).stdout, b"/work/well\n", "a plain folder")
    check_equal((await target.sandbox.exec(["pwd"])).stdout, b"/work\n", "the working directory of the next call")


CHECKS = checks_of(
    "attack",
    "What comes later",
    a_process_made_ahead,
    modules_planted_for_the_guest,
    programs_planted_under_common_names,
    ends_that_look_like_others,
    processor_time_that_hides,
    calls_that_never_return,
    calls_that_are_cancelled,
    a_reset_under_fire,
    sessions_without_end,
    working_directories_that_lead_astray,
)
