"""Attacks on the guest: the one process in the sandbox that speaks for it to the host."""

from __future__ import annotations

import asyncio

from agentgym import SandboxDied

from .check import NotApplicable, check_equal, check_not, check_raises, checks_of
from .testbed import Target, dedented

_FORGING = """
    import os, struct
    header = (b'{"id":%d,"exit":0,"out":6,"truncated":false,"timed_out":false,"oom":false,'
              b'"wall":0,"cpu":0,"peak":0,"disk":0}')
    for number in range(40):
        text = header % number
        frame = struct.pack(">II", len(text), 6) + text + b"forged"
        for descriptor in range(3, 64):
            try: os.write(descriptor, frame); os.write(descriptor, text + b"\\n")
            except OSError: pass
"""


async def _check_guest_is_visible(target: Target) -> None:
    if not await target.report("report(os.getpid() != 1 and os.path.exists('/proc/1'))"):
        raise NotApplicable("process 1 of the sandbox is not visible from inside")


async def signals_to_the_guest(target: Target) -> None:
    """Sends process 1 every signal, directly and through its group, and stops it: it still answers."""
    await _check_guest_is_visible(target)
    await target.python("""
        for number in range(1, 65):
            for send in (os.kill, os.killpg):
                try: send(1, number)
                except OSError: pass
        import signal
        try: signal.pidfd_send_signal(os.pidfd_open(1), 9)
        except OSError: pass
    """)
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the next call")


async def tracing_the_guest(target: Target) -> None:
    """Attaches to process 1, reads and writes its memory, looks into its folder in /proc."""
    await _check_guest_is_visible(target)
    through = await target.through("""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for request in (16, 0x4206):
            if libc.ptrace(request, 1, 0, 0) == 0: through.append("ptrace")
        for name in ("mem", "environ", "maps", "auxv", "syscall", "stack", "pagemap", "map_files", "cwd/x", "root/x",
                     "task/1/mem", "clear_refs", "io", "personality"):
            def look():
                with open(f"/proc/1/{name}", "rb") as file: file.read(10)
            attempt(f"/proc/1/{name}", look)
        for name in ("mem", "oom_score_adj", "comm", "clear_refs", "coredump_filter", "setgroups", "uid_map"):
            attempt(f"/proc/1/{name} to write", lambda: os.close(os.open(f"/proc/1/{name}", os.O_WRONLY)))
        local = ctypes.create_string_buffer(16)
        class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        ours, theirs = Vector(ctypes.addressof(local), 16), Vector(0x400000, 16)
        for what in ("process_vm_readv", "process_vm_writev"):
            if getattr(libc, what)(1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) > 0: through.append(what)
    """)
    check_not(bool(through), f"got into process 1: {', '.join(through)}")


async def starving_the_guest_by_its_limits(target: Target) -> None:
    """Tries to lower the limits, priority and scheduling class of process 1 or of everybody: all are refused."""
    await _check_guest_is_visible(target)
    through = await target.through("""
        import ctypes, resource
        libc = ctypes.CDLL(None, use_errno=True)
        attempt("its limit on files", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)))
        attempt("its limit on memory", lambda: resource.prlimit(1, resource.RLIMIT_AS, (1 << 20, 1 << 20)))
        attempt("its priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
        before = os.getpriority(os.PRIO_PROCESS, 1)
        try: os.setpriority(os.PRIO_USER, 0, 19)
        except OSError: pass
        if os.getpriority(os.PRIO_PROCESS, 1) != before: through.append("everybody's priority")
        attempt("its scheduling class", lambda: os.sched_setscheduler(1, 5, os.sched_param(0)))
        attempt("its processors", lambda: os.sched_setaffinity(1, {0}))
        if libc.syscall(CALLS["ioprio_set"], 1, 1, 3 << 13) == 0: through.append("its disk priority")
        attributes = (ctypes.c_uint32 * 14)(48, 5)
        if libc.syscall(CALLS["sched_setattr"], 1, attributes, 0) == 0: through.append("its scheduling attributes")
    """)
    check_not(bool(through), f"it changed {', '.join(through)}")
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the next call")


async def descriptors_of_the_guest(target: Target) -> None:
    """Tries to list, open and copy the descriptors of process 1, and looks for inherited descriptors."""
    await _check_guest_is_visible(target)
    through = await target.through("""
        import ctypes, stat
        libc = ctypes.CDLL(None, use_errno=True)
        attempt("the list of its descriptors", lambda: os.listdir("/proc/1/fd"))
        for number in range(64):
            for kind in ("fd", "fdinfo"):
                attempt(f"/proc/1/{kind}/{number}", lambda: open(f"/proc/1/{kind}/{number}", "rb").close())
        try:
            handle = os.pidfd_open(1)
            for number in range(10):
                if libc.syscall(CALLS["pidfd_getfd"], handle, number, 0) >= 0:
                    through.append(f"descriptor {number} of process 1")
            os.close(handle)
        except OSError: pass
        for number in range(3, 256):
            try: kind = os.fstat(number).st_mode
            except OSError: continue
            if stat.S_ISSOCK(kind) or stat.S_ISFIFO(kind) or stat.S_ISDIR(kind): through.append(f"inherited {number}")
    """)
    check_not(bool(through), f"got {', '.join(through)}")


async def forged_replies(target: Target) -> None:
    """From Python, a session and a command, writes forged replies to all of its descriptors: none is believed."""
    await target.python(_FORGING, timeout_s=5)
    await target.python(_FORGING, session="forger", timeout_s=5)
    await target.sandbox.write("forge.py", dedented(_FORGING).encode())
    await target.sandbox.exec(["python3", "forge.py"], timeout_s=5)
    for number in range(10):
        result = await target.sandbox.run_python(f"print({number})")
        check_equal(result.stdout, b"%d\n" % number, "the answer to a call")


async def a_session_that_answers_for_itself(target: Target) -> None:
    """Floods the socket that brings a session's code, removes the code, and answers future calls in advance."""
    await target.python(
        """
        import socket, struct
        for number in range(3, 10):
            try: one = socket.socket(fileno=os.dup(number))
            except OSError: continue
            one.setblocking(False)
            for call in range(3000):
                try: one.send(struct.pack(">Ii", call, 77)); one.send(b"x" * (call % 100))
                except OSError: break
            try: one.recv(65536)
            except OSError: pass
            one.detach()
    """,
        session="forger",
        timeout_s=5,
    )
    await target.sandbox.run_python("print('mine')", session="forger", timeout_s=1)
    check_equal(
        (await target.sandbox.run_python("print('well')", session="honest")).stdout, b"well\n", "another session"
    )
    check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "a plain call")


async def a_name_that_breaks_proc(target: Target) -> None:
    """Gives a daemon a name that misleads careless readers of /proc about its parent: the daemon is still found."""
    await target.python("""
        import ctypes, time
        libc = ctypes.CDLL(None)
        for name in (b") S 1 1 1 1", b"a) Z 1\\n2 (b", b"((((", b"\\xff\\xfe) R 0"):
            if os.fork() == 0:
                libc.prctl(15, name, 0, 0, 0); os.setsid()
                if os.fork() == 0: libc.prctl(15, name, 0, 0, 0); time.sleep(50)
                time.sleep(50)
        time.sleep(0.05); report("made"); os._exit(0)
    """)
    await target.idle("though their names mislead")


async def starving_the_guest(target: Target) -> None:
    """All processes spin, the memory is full, the disk is full: the guest still answers a file and a call."""
    limit = target.spec.memory_mib
    spinning = asyncio.create_task(
        target.python(
            """
        held = []
        for _ in range(300):
            try:
                if os.fork() == 0:
                    while True: pass
            except OSError: break
        try:
            with open("/tmp/full", "wb", buffering=0) as file:
                while True: file.write(bytes(1 << 20))
        except OSError: pass
        try:
            while len(held) < most: held.append(bytearray(1 << 20))
        except MemoryError: pass
        while True: pass
    """,
            timeout_s=1.2,
            most=limit // 2,
        )
    )
    await asyncio.sleep(0.5)
    async with asyncio.timeout(30):
        check_equal(await target.sandbox.list("/work"), [], "names in a directory, asked for meanwhile")
        await spinning
    await target.idle("after a timeout")
    await target.sandbox.exec(["rm", "-f", "/tmp/full"])
    check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "the call after it")


async def a_channel_that_floods(target: Target) -> None:
    """A channel's process answers without a request, without end, and with deeply nested JSON."""
    endless = "while :; do printf xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"
    nested = "head -c 20000 /dev/zero | tr '\\0' '['; echo"
    for script in (endless, nested, "cat /dev/zero", "printf '\\377\\376\\n'"):
        channel = await target.sandbox.open_channel(["sh", "-c", f"read line; {script}"])
        await check_raises((SandboxDied, TimeoutError), channel.request(1, timeout_s=0.7), f"an answer of {script!r}")
        await channel.close()
    await target.idle("after their channel was closed")


CHECKS = checks_of(
    "attack",
    "The guest",
    signals_to_the_guest,
    tracing_the_guest,
    descriptors_of_the_guest,
    starving_the_guest_by_its_limits,
    forged_replies,
    a_session_that_answers_for_itself,
    a_name_that_breaks_proc,
    starving_the_guest,
    a_channel_that_floods,
)
