"""Attacks that use up resources: processes, memory, disk, descriptors, processors, the host's time."""

from __future__ import annotations

import asyncio

from .check import Breach, check_equal, check_not, checks_of
from .testbed import Target, reported


async def fork_bomb(target: Target) -> None:
    """Forks 300 times, and runs a shell fork bomb: never more processes than the limit, and none is left."""
    report = await target.report("""
        import time
        made = 0
        for _ in range(300):
            try: pid = os.fork()
            except OSError: break
            if pid == 0:
                time.sleep(20); os._exit(0)
            made += 1
        report(made)
    """)
    check_not(report > target.spec.processes, f"{report} processes were started; the limit is {target.spec.processes}")
    result = await target.sandbox.exec(["sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 5"], timeout_s=0.7)
    check_not(result.ok, "a fork bomb in the shell came to a good end")
    await target.idle("after the fork bomb")


async def thread_bomb(target: Target) -> None:
    """Starts 300 threads: they count against the limit on processes."""
    report = await target.report("""
        import threading
        made, stop = 0, threading.Event()
        try:
            for _ in range(300):
                threading.Thread(target=stop.wait, daemon=True).start(); made += 1
        except RuntimeError: pass
        stop.set(); report(made)
    """)
    check_not(report > target.spec.processes, f"{report} threads were started; the limit is {target.spec.processes}")


async def full_process_table(target: Target) -> None:
    """A session uses up all processes: the next call reports the process limit; once the session ends, calls work."""
    code = """
        import time
        try:
            for _ in range(300):
                if os.fork() == 0: time.sleep(60)
        except OSError: report("full")
    """
    check_equal(reported(await target.python(code, session="hoarder")), {"value": "full"}, "filling the process table")
    result = await target.sandbox.run_python("print(1)")
    check_not(result.ok, "a call found room where there was none")
    check_equal(
        (result.exit_code, b"process limit" in result.stderr), (126, True), f"the next call says so ({result.stderr!r})"
    )
    await target.sandbox.run_python("import os; os._exit(0)", session="hoarder")
    check_equal((await target.sandbox.run_python("print(1)")).stdout, b"1\n", "a call after the session ended")


async def memory_bomb_in_one_process(target: Target) -> None:
    """One process allocates and touches three times the memory limit: it is stopped."""
    size = target.spec.memory_mib * 3
    result = await target.python("b = bytearray(size << 20); report('got it')", size=size)
    check_not(reported(result) is not None, f"one process got {size} MiB")


async def memory_bomb_over_many_processes(target: Target) -> None:
    """Eight processes each use a third of the memory: the limit applies to their sum."""
    each = target.spec.memory_mib // 3
    result = await target.python(
        """
        import time
        read, write = os.pipe()
        children = set()
        for _ in range(8):
            pid = os.fork()
            if pid == 0:
                b = bytearray(each << 20)
                os.write(write, os.getpid().to_bytes(4, 'big')); time.sleep(20)
            children.add(pid)
        os.set_blocking(read, False)
        took, alive, until = set(), children, time.monotonic() + 5
        while len(took | (children - alive)) < 8 and time.monotonic() < until:
            time.sleep(0.05)
            try: raw = os.read(read, 400)
            except BlockingIOError: raw = b''
            took |= {int.from_bytes(raw[at : at + 4], 'big') for at in range(0, len(raw), 4)}
            alive = {pid for pid in alive if os.waitpid(pid, os.WNOHANG)[0] == 0}
        report(len(took & alive))  # those that took theirs and were not killed for it since
        """,
        each=each,
    )
    held = (reported(result) or {"value": 0})["value"]  # if it was killed with the others, the attack is contained
    check_not(held * each > target.spec.memory_mib * 1.2, f"{held} processes held {each} MiB each at once")


async def memory_in_files_without_a_name(target: Target) -> None:
    """Fills memory files, which are in no directory and under no disk limit: they count as memory."""
    size = target.spec.memory_mib * 3
    code = """
        held, written = [], 0
        try:
            while written < size:
                held.append(os.memfd_create("x"))
                for _ in range(8): written += os.write(held[-1], bytes(1 << 20)) >> 20
        except (OSError, AttributeError): pass
        report(written)
    """
    report = reported(await target.python(code, size=size))
    check_not(report is not None and report["value"] > target.spec.memory_mib * 1.2, f"memory files held {report} MiB")


async def memory_in_the_buffers_of_sockets(target: Target) -> None:
    """Four processes send themselves data and never read it: it counts as memory, though in no process or file."""
    code = """
        import socket, time
        read, write = os.pipe()
        for _ in range(4):
            if os.fork() == 0:
                server, held, sent = socket.create_server(("127.0.0.1", 0)), [], 0
                try:
                    for _ in range(60):
                        held.append(socket.create_connection(server.getsockname(), 1))
                        held.append(server.accept()[0]); held[-2].setblocking(False)
                        try:
                            while True: sent += held[-2].send(bytes(1 << 20))
                        except BlockingIOError: pass
                except OSError: pass
                os.write(write, sent.to_bytes(8, "big")); time.sleep(20)
        report(sum(int.from_bytes(os.read(read, 8), "big") for _ in range(4)) >> 20)
    """
    held = await target.report(code)
    check_not(held > target.spec.memory_mib * 1.5, f"the buffers of its sockets hold {held} MiB")


async def objects_that_outlive_their_process(target: Target) -> None:
    """Creates System V and POSIX objects that outlive their process: no other sandbox and no later call finds them."""
    code = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        key = 0x41474e54
        if create:
            libc.shmget(key, 1 << 20, 0o1666); libc.semget(key, 1, 0o1666); libc.msgget(key, 0o1666)
            libc.syscall(CALLS["mq_open"], b"agentgym", 0o102, 0o666, None)
        found = [name for name, number in (
            ("segment", libc.shmget(key, 0, 0)), ("semaphore", libc.semget(key, 0, 0)), ("queue", libc.msgget(key, 0)),
            ("POSIX queue", -1 if create else libc.syscall(CALLS["mq_open"], b"agentgym", 0, 0, None)),
        ) if number >= 0]
        report(found)
    """
    await target.report(code, create=True)
    other = target.beside()
    check_not(bool(remains := await other.report(code, create=False)), f"another sandbox finds {remains}")
    check_not(bool(remains := await target.report(code, create=False)), f"a later call finds {remains}")


async def disk_filler(target: Target) -> None:
    """Writes four times the disk limit to every writable folder: no more than the limit is stored."""
    written = await target.report(
        """
        written = 0
        for folder in ("/work", "/tmp", "/dev/shm", "/var/tmp", "/run", "/run/lock", "/", "/root", "/home", "/mnt"):
            try:
                with open(folder + "/filler", "wb", buffering=0) as file:
                    while written < most << 20: written += file.write(bytes(1 << 20))
            except OSError: pass
        report(written)
        """,
        most=target.spec.disk_mib * 4,
    )
    limit = target.spec.disk_mib
    check_not(written > (limit + 1) << 20, f"{written >> 20} MiB were written; the limit is {limit}")
    result = await target.sandbox.exec(["sh", "-c", "rm -f /work/filler /tmp/filler /dev/shm/filler; echo room"])
    check_equal(result.stdout, b"room\n", "a command after the files were removed")


async def inode_filler(target: Target) -> None:
    """Creates twice the allowed number of empty files in every writable folder: the limit holds."""
    report = await target.report(
        """
        made = 0
        for folder in ("/work", "/tmp", "/dev/shm"):
            try:
                for number in range(most):
                    os.close(os.open(f"{folder}/{number}", os.O_CREAT)); made += 1
            except OSError: pass
        report(made)
        """,
        most=target.spec.inodes * 2,
    )
    check_not(report > target.spec.inodes, f"{report} files were made; the limit is {target.spec.inodes}")


async def open_files_filler(target: Target) -> None:
    """Opens 3,000 files in one process: no more than the limit are ever open."""
    held = await target.report("""
        held = []
        try:
            while len(held) < 3000: held.append(open("/dev/null"))
        except OSError: pass
        report(len(held))
    """)
    check_not(held > target.spec.open_files, f"{held} files were open at once; the limit is {target.spec.open_files}")


async def raising_its_own_limits(target: Target) -> None:
    """Tries to raise its resource limits, priority, scheduling class and locked memory: none can be raised."""
    through = await target.through("""
        import ctypes, resource
        libc = ctypes.CDLL(None, use_errno=True)
        def must(result):
            if result != 0: raise OSError
        def shield(path): os.write(os.open(path, os.O_WRONLY), b"-900")
        for name in ("NOFILE", "NPROC", "FSIZE", "MEMLOCK"):
            kind = getattr(resource, "RLIMIT_" + name)
            most = resource.getrlimit(kind)[1]
            if most != resource.RLIM_INFINITY:
                attempt("a higher limit on " + name, lambda: resource.setrlimit(kind, (most + 1, most + 1)))
        attempt("a priority above the host's", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
        attempt("real-time scheduling", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
        attempt("locked memory", lambda: must(libc.mlockall(3)) or bytearray(48 << 20))
        attempt("immunity from memory kills", lambda: shield("/proc/self/oom_score_adj"))
    """)
    check_not(bool(through), f"it got {', '.join(through)}")


async def cpu_hog(target: Target) -> None:
    """Three processes compute without end: together they get no more cores than the spec allows."""
    share = await target.report("""
        import time
        started = time.monotonic()
        for _ in range(3):
            if os.fork() == 0:
                while time.monotonic() - started < 1.2: pass
                os._exit(0)
        for _ in range(3): os.wait()
        took = os.times()
        report((took.children_user + took.children_system) / (time.monotonic() - started))
    """)
    check_not(share > target.spec.cpu_cores * 1.3, f"{share:.2f} cores were used; the limit is {target.spec.cpu_cores}")


async def endless_output(target: Target) -> None:
    """Writes to both streams without end: the output is cut at its limit, and the call ends at the timeout."""
    result = await target.sandbox.exec(["sh", "-c", "yes | tee /dev/stderr"], timeout_s=0.5, max_output_bytes=4096)
    check_not(max(len(result.stdout), len(result.stderr)) > 4096, "more output came than was asked for")
    check_not(not (result.truncated and result.timed_out), "endless output was not cut and timed out")


async def output_without_a_line_break(target: Target) -> None:
    """Writes one endless line, and a line of megabytes: the output is cut without waiting for a line break."""
    result = await target.sandbox.exec(["sh", "-c", "cat /dev/zero"], timeout_s=0.4, max_output_bytes=5000)
    check_equal((len(result.stdout), result.truncated, result.timed_out), (5000, True, True), "an endless line")
    result = await target.sandbox.run_python("import sys; sys.stdout.write('x' * 2_000_000)", max_output_bytes=100)
    check_equal((result.stdout, result.truncated), (b"x" * 100, True), "a long line")


async def control_characters_in_output(target: Target) -> None:
    """Terminal escapes, nulls and bytes that look like the guest's own frames are plain output."""
    nasty = (
        b"\x1b]0;title\x07\x1b[2J\x00\x04\x1a\r\x08\x9b\xff\xfe"
        + b"\x00\x00\x00\x10\x00\x00\x00\x00"
        + b'{"id":1,"exit":0}'
    )
    await target.sandbox.write("nasty", nasty)
    result = await target.sandbox.exec(["sh", "-c", "cat nasty; cat nasty >&2"])
    check_equal((result.stdout, result.stderr), (nasty, nasty), "control characters")
    check_equal(isinstance(result.text, str), True, "they can be decoded")


async def background_writer_holds_the_pipe(target: Target) -> None:
    """A remaining child keeps the output open and continues writing: the call ends nevertheless."""
    async with asyncio.timeout(15):
        result = await target.sandbox.exec(["sh", "-c", "(while :; do echo noise; done) & echo done"], timeout_s=30)
    check_not(result.timed_out, "a child that holds the output keeps the call from ending")
    await target.idle("after their call")


async def signals_ignored(target: Target) -> None:
    """A tree of processes ignores all signals that it can: the timeout ends all of them."""
    code = """
        import signal, time
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        for _ in range(3): os.fork()
        while True: time.sleep(1)
    """
    async with asyncio.timeout(15):
        result = await target.python(code, timeout_s=0.4)
    check_equal(
        (result.timed_out, result.exit_code < 0), (True, True), f"a tree that ignores signals (exit {result.exit_code})"
    )
    await target.idle("after a timeout")


async def standing_still(target: Target) -> None:
    """Stops itself and its children with SIGSTOP: the timeout ends stopped processes too."""
    code = """
        import signal
        for _ in range(2): os.fork()
        os.kill(os.getpid(), signal.SIGSTOP)
    """
    async with asyncio.timeout(15):
        result = await target.python(code, timeout_s=0.4)
    check_equal(result.timed_out, True, "a process that stopped itself times out")
    await target.idle("after a timeout")


async def daemons_and_orphans(target: Target) -> None:
    """Forks twice, starts new sessions, ignores hang-ups: no process outlives the call."""
    script = "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep 50' &) ; (sleep 50 &) ; nohup sleep 50 & true"
    await target.sandbox.exec(["sh", "-c", script])
    await target.python("if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  import time; time.sleep(50)")
    await target.idle("after the call that started them")


async def a_storm_of_orphans_and_zombies(target: Target) -> None:
    """Leaves hundreds of children that it never waits for, and hundreds without a parent: all are reaped."""
    code = """
        made = 0
        for _ in range(150):
            try: pid = os.fork()
            except OSError: continue
            if pid == 0:
                try:
                    if os.fork() == 0: os._exit(0)
                except OSError: pass
                os._exit(0)
            made += 1
            if made % 10 == 0:
                try:
                    while made % 20 and os.waitpid(-1, os.WNOHANG)[0]: pass
                except OSError: pass
        report(made)
    """
    for _ in range(3):
        check_not(not await target.report(code), "no child was made at all")
    await target.idle("after the storm")


async def breeding_faster_than_it_is_killed(target: Target) -> None:
    """Each process forks another and ends, so that none can be found: the timeout still ends all of them."""
    code = """
        import time
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if os.fork(): os._exit(0)
            except OSError: pass
    """
    await target.sandbox.run_python("x = 5", session="bystander")
    await target.python(code, timeout_s=0.4)
    await target.idle("after the line of processes was ended", most=1)
    result = await target.sandbox.run_python("print('well')", session="bystander")
    if result.stdout != b"well\n":
        raise Breach(
            f"a session returned {result.stdout!r:.60} in place of 'well', with the error {result.stderr!r:.200}"
        )


CHECKS = checks_of(
    "attack",
    "Using up what there is",
    ("processes", fork_bomb),
    ("processes", thread_bomb),
    ("processes", full_process_table),
    memory_bomb_in_one_process,
    ("memory", memory_bomb_over_many_processes),
    ("memory", memory_in_files_without_a_name),
    ("memory", memory_in_the_buffers_of_sockets),
    objects_that_outlive_their_process,
    ("disk", disk_filler),
    ("inodes", inode_filler),
    ("open_files", open_files_filler),
    raising_its_own_limits,
    ("cpu", cpu_hog),
    ("output", endless_output),
    ("output", output_without_a_line_break),
    control_characters_in_output,
    background_writer_holds_the_pipe,
    signals_ignored,
    standing_still,
    daemons_and_orphans,
    ("processes", a_storm_of_orphans_and_zombies),
    breeding_faster_than_it_is_killed,
)
