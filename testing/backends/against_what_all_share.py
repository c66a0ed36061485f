"""Attacks on kernel resources that all sandboxes and the host share: locks, tables, caches and terminals."""

from __future__ import annotations

import time
from pathlib import Path

from .check import NotApplicable, check_equal, check_not, checks_of
from .testbed import Target, dedented

_CONTAINERS = ("docker", "kubernetes")
_JOIN = """
    import socket, struct, time
    def join(number):
        group = struct.pack("4s4s", bytes((239, os.getpid() % 256, number // 250, number % 250)), bytes((127, 0, 0, 1)))
        return 0, 35, group
    def join_ipv6(number): return 41, 20, bytes((255, 2)) + number.to_bytes(14, "big") + struct.pack("I", 1)
    def sign(number):  # a key for TCP-MD5
        peer = struct.pack("=HH4s8x", 2, 0, struct.pack(">I", 0x0A000000 + number)).ljust(128, bytes(1))
        return 6, 14, peer + struct.pack("=BBHI", 0, 0, 4, 0) + b"word".ljust(80, bytes(1))
"""


async def shared_kernel_allowances(target: Target) -> None:
    """Uses resources that the kernel counts for all sandboxes together: watches, timers, async I/O, huge pages."""
    code = """
        import ctypes, mmap
        libc = ctypes.CDLL(None, use_errno=True)
        def count(most, call):
            for number in range(most):
                try:
                    if call() < 0: return number
                except OSError: return number
            return most
        def context():
            handle = ctypes.c_ulong()
            return libc.syscall(CALLS["io_setup"], 16, ctypes.byref(handle))
        held = []
        def page():
            held.append(mmap.mmap(-1, 2 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)); return 0
        def file_page(): return libc.syscall(CALLS["memfd_create"], b"x", 4)
        timer = ctypes.create_string_buffer(8)
        def instance(): return libc.syscall(CALLS["inotify_init1"], 0)
        report({"inotify instances": count(20, instance), "contexts of AIO": count(4, context),
                "huge pages": count(1, page), "files of huge pages": count(1, file_page),
                "timers": count(20_000, lambda: libc.syscall(CALLS["timer_create"], 0, None, timer))})
    """
    counts = await target.report(code)
    timers = counts.pop("timers")
    check_not(timers > 4096, f"it has {timers} timers, and could take those of all other sandboxes")
    check_not(any(counts.values()), f"it got {counts}")


async def flushing_the_disks(target: Target) -> None:
    """Asks the kernel 3,000 times to flush the disks, by sync and by fsync of read-only files: none are flushed."""
    code = """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        program = os.open("/usr/bin/env", os.O_RDONLY)
        for _ in range(1000):
            libc.sync()
            libc.fsync(program)
            libc.syncfs(program)
        with open("/work/own", "wb") as own:
            own.write(b"x")
            own.flush()
            os.fsync(own.fileno())
        report(open("/work/own", "rb").read().decode() + str(libc.fsync(-1)))
    """
    before = _disk_flushes()
    check_equal(await target.report(code), "x-1", "its own file, and the flush of no file")
    flushes = _disk_flushes() - before
    check_not(flushes >= 1000, f"the disks of the host were flushed {flushes} times meanwhile")


def _disk_flushes() -> int:
    """Return how often this machine's disks had to flush their caches; 0 if the kernel does not count this."""
    lines = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    return sum(int(fields[18]) for fields in lines if len(fields) > 18)


async def evicting_the_cache(target: Target) -> None:
    """Tries to evict a program from the machine's page cache, with read access only: the program stays there."""
    code = """
        program = os.open("/usr/bin/env", os.O_RDONLY)
        os.pread(program, 8192, 0)
        try: os.preadv(program, [bytearray(4096)], 0, os.RWF_NOWAIT)
        except OSError as error: report(f"unknown: {error.strerror}")
        else:
            os.posix_fadvise(program, 0, 0, os.POSIX_FADV_DONTNEED)
            try: os.preadv(program, [bytearray(4096)], 0, os.RWF_NOWAIT); report("kept")
            except BlockingIOError: report("evicted")
    """
    state = await target.report(code)
    if state.startswith("unknown"):
        raise NotApplicable(f"the file system does not report what is cached ({state.partition(': ')[2]})")
    check_equal(state, "kept", "a program of the host, in the machine's cache")


async def memberships_that_take_long_to_end(target: Target) -> None:
    """Joins thousands of multicast groups and sets keys: removing them would hold a lock that all processes need."""
    code = """
        made = {}
        for name, kind, option in (("groups", 2, join), ("groups of IPv6", 2, join_ipv6), ("keys", 1, sign)):
            made[name] = 0
            for number in range(40):
                try:
                    opened = socket.socket(10 if name.endswith("6") else 2, kind)
                    for place in range(20):
                        opened.setsockopt(*option(number * 20 + place)); made[name] += 1
                except OSError: break
        report(made)
    """
    counts = await target.report(f"{dedented(_JOIN)}\n{dedented(code)}")
    check_not(any(counts.values()), f"it made {counts}")
    began = time.monotonic()
    async with target.another():
        pass
    check_not(time.monotonic() - began > 5, f"the next sandbox took {time.monotonic() - began:.1f} s")


async def code_in_the_path_of_packets(target: Target) -> None:
    """Attaches filters and protocols to sockets, and enables options that slow every packet of the machine."""
    through = await target.report("""
        import socket, struct, sys
        try: datagram, stream = socket.socket(2, 2), socket.socket(2, 1)
        except OSError: report(None); sys.exit()
        server = socket.create_server(("127.0.0.1", 0))
        stream.connect(server.getsockname())
        import ctypes
        instructions = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFF))
        program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(instructions))
        on = bytes((1, 0, 0, 0))
        label = struct.pack("=16sIBBHHHI", bytes(15) + bytes((1,)), 0, 0, 1, 1, 6, 0, 0)
        for name, where, level, option, value in (
            ("a packet filter", datagram, 1, 26, program), ("a filter of a shared port", datagram, 1, 51, program),
            ("BPF", datagram, 1, 50, struct.pack("i", 0)), ("TLS in the kernel", stream, 6, 31, b"tls"),
            ("UDP encapsulation", datagram, 17, 100, struct.pack("i", 2)), ("UDP GRO", datagram, 17, 104, on),
            ("timestamps", datagram, 1, 35, on), ("a delay", stream, 6, 37, struct.pack("i", 1000)),
            ("flow labels", socket.socket(10, 2), 41, 32, label),
        ):
            attempt(name, lambda: where.setsockopt(level, option, value))
        report(through)
    """)
    if through is None:
        raise NotApplicable("a sandbox has no sockets that send packets here")
    check_not(bool(through), f"it set {', '.join(through)}")


async def watching_what_others_open(target: Target) -> None:
    """Asks the kernel to report when others open a file of /usr: by inotify, dnotify, fanotify, a lease."""
    through = await target.through("""
        import ctypes, fcntl
        libc = ctypes.CDLL(None, use_errno=True)
        def call(name, *arguments):
            if libc.syscall(CALLS[name], *arguments) < 0: raise OSError
        folder, program = os.open("/usr/bin", os.O_RDONLY), os.open("/usr/bin/env", os.O_RDONLY)
        attempt("dnotify", lambda: fcntl.fcntl(folder, 1026, 0x80000001))
        attempt("a lease", lambda: fcntl.fcntl(program, 1024, fcntl.F_RDLCK))
        attempt("inotify", lambda: call("inotify_init1", 0))
        attempt("fanotify", lambda: call("fanotify_init", 0x200, 0))
    """)
    check_not(bool(through), f"it watches by {', '.join(through)}")


async def drivers_of_terminals(target: Target) -> None:
    """Sets line disciplines on its own terminal, each of which the kernel would load as a module."""
    disciplines = await target.report("""
        import fcntl, pty, struct, sys
        try: leader, follower = pty.openpty()
        except OSError: report(None); sys.exit()
        got = []
        for number in range(1, 32):
            try: fcntl.ioctl(follower, 0x5423, struct.pack("i", number)); got.append(number)
            except OSError: pass
        report(got)
    """)
    if disciplines is None:
        raise NotApplicable("a sandbox has no terminals here")
    check_not(bool(disciplines), f"it has the line disciplines {disciplines}")


async def terminals_of_all(target: Target) -> None:
    """Opens terminals in all its processes: all containers together share only 3,072."""
    terminals = await target.report("""
        import select
        read, write = os.pipe()
        for _ in range(24):
            try: pid = os.fork()
            except OSError: break
            if pid == 0:
                import time
                try:
                    while True: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY); os.write(write, b".")
                except OSError: pass
                time.sleep(20); os._exit(0)
        made = 0
        while select.select([read], [], [], 1)[0]: made += len(os.read(read, 4096))
        try: options = [line for line in open("/proc/self/mountinfo") if " - devpts " in line]
        except OSError: options = []
        report([made, options[0].rpartition(" ")[2].split(",") if options else []])
    """)
    opened, options = terminals
    if target.backend.name in _CONTAINERS and not any(option.startswith("max=") for option in options):
        raise NotApplicable("the container runtime mounts the terminals, so only open_files bounds them")
    check_not(opened > 64, f"it has {opened} terminals")


async def core_scheduling(target: Target) -> None:
    """Asks for separate cores, for which the kernel changes the scheduler of the whole machine."""
    through = await target.through("""
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        def must(result):
            if result != 0: raise OSError
        attempt("a core cookie", lambda: must(libc.prctl(62, 1, 0, 0, 0)))
    """)
    check_not(bool(through), f"it got {', '.join(through)}")


CHECKS = checks_of(
    "attack",
    "What all share",
    shared_kernel_allowances,
    flushing_the_disks,
    evicting_the_cache,
    memberships_that_take_long_to_end,
    code_in_the_path_of_packets,
    watching_what_others_open,
    drivers_of_terminals,
    terminals_of_all,
    core_scheduling,
)
