"""Attacks on kernel interfaces: those for namespaces, mounts and devices, and those known for vulnerabilities."""

from __future__ import annotations

from .check import NotApplicable, check_equal, check_not, checks_of
from .testbed import Target, dedented, reported

_CALLS = """
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    def allowed(what, result):
        if result >= 0: through.append(what)
    def call(name, *arguments, what=None):
        if CALLS[name] is not None: allowed(what or name, libc.syscall(CALLS[name], *arguments))
    def privileged(name, *arguments):  # refused for want of a privilege, before the arguments are looked at
        ctypes.set_errno(0)
        if libc.syscall(CALLS[name], *arguments) >= 0 or ctypes.get_errno() not in (1, 13, 38):
            through.append(f"{name} (error {ctypes.get_errno()})")
    empty = ctypes.create_string_buffer(256)
"""


async def _allowed(target: Target, code: str) -> None:
    through = await target.through(dedented(_CALLS) + "\n" + dedented(code))
    check_not(bool(through), f"allowed: {', '.join(through)}")


async def mounting(target: Target) -> None:
    """Tries to mount, unmount, remount and move its root, by old and new system calls: all are refused."""
    await _allowed(
        target,
        """
        allowed("mount of a tmpfs", libc.mount(b"none", b"/work", b"tmpfs", 0, None))
        allowed("mount of proc", libc.mount(b"proc", b"/tmp", b"proc", 0, None))
        allowed("bind mount", libc.mount(b"/", b"/work", None, 4096, None))
        allowed("remount to write", libc.mount(None, b"/usr", None, 32 | 4096, None))
        allowed("change of propagation", libc.mount(None, b"/", None, 1 << 20, None))
        privileged("umount2", b"/proc", 4)
        privileged("umount2", b"/tmp", 4)
        call("pivot_root", b"/work", b"/work")
        allowed("chroot", libc.chroot(b"/work"))
        call("open_tree", -100, b"/", 1)
        call("fsopen", b"tmpfs", 0)
        call("move_mount", -100, b"/work", -100, b"/tmp", 0)
        call("mount_setattr", -100, b"/usr", 0, empty, 32)
    """,
    )


async def new_namespaces(target: Target) -> None:
    """Tries to create every kind of namespace, and to enter those that it can name: all are refused."""
    await _allowed(
        target,
        """
        import os
        kinds = (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("network", 0x40000000),
                 ("ipc", 0x8000000), ("host name", 0x4000000), ("control group", 0x2000000), ("time", 0x80))
        for name, flag in kinds:
            allowed(f"unshare {name}", libc.unshare(flag))
            if flag != 0x80:
                child = libc.syscall(CALLS["clone"], flag | 17, 0, 0, 0, 0)
                if child == 0: os._exit(0)
                allowed(f"clone {name}", child)
        arguments = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)
        child = libc.syscall(CALLS["clone3"], arguments, 88)
        if child == 0: os._exit(0)
        allowed("clone3 user", child)
        for one in ("1", "self"):
            for name in ("mnt", "net", "pid", "user", "uts", "ipc"):
                try: descriptor = os.open(f"/proc/{one}/ns/{name}", os.O_RDONLY)
                except OSError: continue
                allowed(f"setns {one} {name}", libc.setns(descriptor, 0))
    """,
    )


async def privileges(target: Target) -> None:
    """Looks for a capability, a way to become root, and a kernel that would grant new privileges."""
    report = await target.report("""
        import ctypes, struct
        libc, sets = ctypes.CDLL(None), ctypes.create_string_buffer(24)
        try: fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
        except PermissionError:
            libc.syscall(CALLS["capget"], struct.pack("II", 0x20080522, 0), sets)
            effective, permitted, inherited, *_ = struct.unpack("6I", sets.raw)
            bounds = sum(1 << number for number in range(64) if libc.prctl(23, number, 0, 0, 0) == 1)
            fields = {"CapEff": f"{effective:x}", "CapPrm": f"{permitted:x}", "CapInh": f"{inherited:x}",
                      "CapBnd": f"{bounds:x}", "NoNewPrivs": str(libc.prctl(39, 0, 0, 0, 0)),
                      "Seccomp": str(libc.prctl(21, 0, 0, 0, 0))}
        held = {name: fields[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
                if name in fields and int(fields[name], 16)}
        if fields.get("NoNewPrivs", "1").strip() != "1": held["NoNewPrivs"] = "0"
        if fields.get("Seccomp", "2").strip() == "0" and "NoNewPrivs" in fields: held["Seccomp"] = "off"
        if 0 in os.getresuid() + os.getresgid() or 0 in os.getgroups(): held["user"] = "root"
        for name, call in (("setuid", lambda: os.setuid(0)), ("setgid", lambda: os.setgid(0)),
                           ("setgroups", lambda: os.setgroups([0])), ("another user", lambda: os.setuid(1))):
            try: call()
            except OSError: continue
            held[name] = "allowed"
        report(held)
    """)
    check_not(bool(report), f"it holds {report}")


async def setuid_programs(target: Target) -> None:
    """Makes a setuid copy of a program, gives it capabilities, and runs every setuid program of the image."""
    programs = await target.report("""
        import ctypes, glob, shutil, stat, subprocess
        libc, held = ctypes.CDLL(None, use_errno=True), []
        shutil.copy("/bin/sh", "/work/mine"); os.chmod("/work/mine", 0o6755)
        every = bytes.fromhex("0100000200000020") + bytes(12)
        if libc.setxattr(b"/work/mine", b"security.capability", every, 20, 0) == 0: held.append("file capabilities")
        if libc.chown(b"/work/mine", 0, 0) == 0: held.append("chown to root")
        def who(program): return subprocess.run([program, "-p", "-c", "id -u"], stdout=-1, stderr=-3).stdout.strip()
        if who("/work/mine") == b"0": held.append("a setuid copy")
        for name in ("su", "mount", "newuidmap", "passwd", "sudo", "pkexec", "fusermount", "ping"):
            for path in glob.glob(f"/usr/*bin/{name}") + glob.glob(f"/bin/{name}"):
                if os.stat(path).st_mode & stat.S_ISUID:
                    ran = subprocess.Popen([path], stdin=-3, stdout=-3, stderr=-3)
                    try:
                        fields = open(f"/proc/{ran.pid}/status").read().split("Uid:")[1].split("\\n")[0].split()
                        if fields[1] == "0": held.append(path)
                    except OSError: pass
                    ran.kill(); ran.wait()
        report(held)
    """)
    check_not(bool(programs), f"privileges by {', '.join(programs)}")


async def device_nodes(target: Target) -> None:
    """Makes device nodes, and opens memory, disks, kernel messages, KVM, tunnels and FUSE."""
    await _allowed(
        target,
        """
        import glob, os
        allowed("a block device", libc.mknod(b"/work/disk", 0o60660, 0xfe00))
        allowed("a character device", libc.mknod(b"/work/memory", 0o20660, 0x101))
        plain = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
        for path in glob.glob("/dev/*") + glob.glob("/dev/*/*"):
            if path.split("/")[2] in ("pts", "shm", "fd") or os.path.basename(path) in plain: continue
            if os.path.isdir(path): continue
            try: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            except OSError: continue
            if not path.startswith("/dev/std") and path not in ("/dev/core", "/dev/console"): through.append(path)
        for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "vsock", "vhost-vsock", "sda", "vda",
                     "nvme0", "loop-control", "loop0", "mapper/control", "dri/card0", "snapshot", "userfaultfd"):
            try: os.close(os.open("/dev/" + name, os.O_RDWR | os.O_NONBLOCK))
            except OSError: continue
            through.append("/dev/" + name)
    """,
    )


async def keyrings(target: Target) -> None:
    """Reads, makes and joins keyrings, which no namespace separates."""
    await _allowed(
        target,
        """
        call("keyctl", 0, -3, 1, what="keyctl: the session's keyring")
        call("keyctl", 0, -4, 1, what="keyctl: the user's keyring")
        call("keyctl", 1, b"agentgym", what="keyctl: a keyring to join")
        call("add_key", b"user", b"agentgym", b"x", 1, -3)
        call("request_key", b"user", b"agentgym", None, 0)
    """,
    )


async def io_uring(target: Target) -> None:
    """Tries to set up io_uring, whose operations bypass a system-call filter: it is refused."""
    await _allowed(target, 'call("io_uring_setup", 4, empty)')


async def bpf_and_performance_counters(target: Target) -> None:
    """Loads a BPF program, opens performance counters and user-space page faults, and watches the file system."""
    await _allowed(
        target,
        """
        attribute = (ctypes.c_uint32 * 32)(2, 4, 4, 1)
        call("bpf", 0, attribute, 72, what="a BPF map")
        counter = (ctypes.c_uint32 * 32)(1, 128)
        call("perf_event_open", counter, 0, -1, -1, 0, what="a performance counter")
        call("userfaultfd", 0)
        call("fanotify_init", 0, 0, what="fanotify")
        call("open_by_handle_at", -100, empty, 0, what="open by handle")
        call("lookup_dcookie", 0, empty, 1)
    """,
    )


async def administering_the_machine(target: Target) -> None:
    """Loads modules and kernels, reboots, swaps, sets clocks and names, reads the kernel's log, starts accounting."""
    await _allowed(
        target,
        """
        privileged("init_module", empty, 1, b"")
        privileged("finit_module", -1, b"", 0)
        privileged("delete_module", b"x", 0)
        privileged("kexec_load", 0, 0, None, 99)
        privileged("reboot", 0xfee1dead, 672274793, 99, None)
        privileged("swapon", b"/nowhere", 0)
        privileged("acct", b"/nowhere")
        privileged("quotactl", 0x80000100, b"/nowhere", 0, None)
        import os, time
        now = (ctypes.c_long * 2)(int(time.time()), 0)  # whoever may set the clock sets it to what it was
        allowed("clock_settime", libc.clock_settime(0, now))
        allowed("settimeofday", libc.settimeofday(now, None))
        name = os.uname().nodename.encode()
        allowed("sethostname", libc.sethostname(name, len(name)))
        call("syslog", 3, empty, 100)
        call("iopl", 3)
        call("ioperm", 0, 1, 1)
    """,
    )


async def another_architectures_calls(target: Target) -> None:
    """Makes 32-bit and x32 calls, whose numbers mean other calls in a 64-bit filter: they are refused."""
    code = """
        import ctypes, mmap, os, platform
        def run(machine_code):
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
                page.write(machine_code)
                start = ctypes.addressof(ctypes.c_char.from_buffer(page))
                result = ctypes.CFUNCTYPE(ctypes.c_int)(start)()
                os.write(write, str(result).encode()); os._exit(0)
            os.close(write); os.waitpid(pid, 0)
            return os.read(read, 20)
        found = []
        if platform.machine() == "x86_64":
            new_user = bytes.fromhex("53b836010000bb00000010cd805bc3")  # eax=310 unshare, ebx=CLONE_NEWUSER, int 0x80
            x32 = bytes.fromhex("b810010040bf000000100f05c3")  # eax=x32|272 unshare, edi=CLONE_NEWUSER, syscall
            found = [name for name, one in (("32-bit unshare", new_user), ("x32 unshare", x32)) if run(one) == b"0"]
        report(found)
    """
    report = await target.report(code)
    check_not(bool(report), f"allowed: {', '.join(report)}")


async def typing_into_a_terminal(target: Target) -> None:
    """Pushes characters into its controlling terminal's input, as if somebody had typed them."""
    report = await target.report("""
        import fcntl, os, pty, sys, termios
        try: pid, leader = pty.fork()
        except OSError: report(None); sys.exit()
        if pid == 0:
            done = 7
            for request in (0x5412, termios.TIOCSTI):
                try: fcntl.ioctl(0, request, b"x"); done = 8
                except OSError: pass
            os._exit(done)
        report(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    if report is None:
        raise NotApplicable("a sandbox has no terminals here")
    check_equal(report, 7, "exit code of the typist (8: it could type)")


async def crash_files(target: Target) -> None:
    """Crashes after raising the limit on core files: no core file, and the host's crash handler is not started."""
    result = await target.python("""
        import resource
        try: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (ValueError, OSError): pass
        report(resource.getrlimit(resource.RLIMIT_CORE)[1])
        os.abort()
    """)
    check_equal(result.exit_code, -6, "exit code of a crash")
    check_equal(
        reported(result) in ({"value": 0}, {"value": 1}), True, f"the limit on core files is none ({result.text!r})"
    )
    check_equal(await target.sandbox.list(), [], "files after a crash")


CHECKS = checks_of(
    "attack",
    "The kernel",
    mounting,
    new_namespaces,
    privileges,
    setuid_programs,
    device_nodes,
    keyrings,
    io_uring,
    bpf_and_performance_counters,
    administering_the_machine,
    another_architectures_calls,
    typing_into_a_terminal,
    crash_files,
)
