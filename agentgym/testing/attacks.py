"""What hostile code tries against its sandbox. Each attack runs inside and fails the check if it got through.

All are bounded, so that a backend that contains nothing is found out without harm to the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from agentgym.sandbox.contract import Sandbox
from agentgym.sandbox.limits import SandboxSpec

HOME = os.path.expanduser("~")
Attack = Callable[[Sandbox, SandboxSpec], Awaitable[None]]


class Breach(AssertionError):
    """A check failed: what was got, what was expected."""


async def fork_bomb(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        import os, time
        made = 0
        for _ in range(300):
            try: pid = os.fork()
            except OSError: break
            if pid == 0:
                time.sleep(20); os._exit(0)
            made += 1
        report(made)
    """
    made = await _run(sandbox, code)
    _deny(made > spec.processes, f"{made} processes were started; the limit is {spec.processes}")
    result = await sandbox.exec(["sh", "-c", "bomb() { bomb | bomb & }; bomb; sleep 5"], timeout_s=1)
    _deny(result.ok, "a fork bomb in the shell came to a good end")
    alive = (await sandbox.usage()).processes
    _deny(alive > 2, f"{alive} processes are alive after the fork bomb")


async def memory_bomb_in_one_process(sandbox: Sandbox, spec: SandboxSpec) -> None:
    result = await sandbox.run_python(f"b = bytearray({spec.memory_mib * 3} << 20); print('got it')")
    _deny(b"got it" in result.stdout, f"one process got {spec.memory_mib * 3} MiB")


async def memory_bomb_over_many_processes(sandbox: Sandbox, spec: SandboxSpec) -> None:
    each = spec.memory_mib // 3
    code = f"""
        import os, time
        read, write = os.pipe()
        for _ in range(8):
            if os.fork() == 0:
                b = bytearray({each} << 20)
                os.write(write, b'x'); time.sleep(20)
        time.sleep(1); os.set_blocking(read, False)
        report(len(os.read(read, 100)))
    """
    with contextlib.suppress(Breach):  # killed with the rest: contained
        held = await _run(sandbox, code, may_die=True)
        _deny((held or 0) * each > spec.memory_mib * 1.2, f"{held} processes held {each} MiB each at once")


async def disk_filler(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = f"""
        import os
        written = 0
        for folder in ("/work", "/tmp", "/dev/shm", "/var/tmp", "/run", "/", "/root", "/home"):
            try:
                with open(folder + "/filler", "wb", buffering=0) as file:
                    while written < {spec.disk_mib * 4} << 20: written += file.write(bytes(1 << 20))
            except OSError: pass
        report(written)
    """
    written = await _run(sandbox, code)
    _deny(written > (spec.disk_mib + 1) << 20, f"{written >> 20} MiB were written; the limit is {spec.disk_mib}")
    await sandbox.exec(["sh", "-c", "rm -f /work/filler /tmp/filler /dev/shm/filler"])


async def inode_filler(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = f"""
        made = 0
        for folder in ("/work", "/tmp", "/dev/shm"):
            try:
                for number in range({spec.inodes * 2}):
                    open(f"{{folder}}/{{number}}", "x").close(); made += 1
            except OSError: pass
        report(made)
    """
    made = await _run(sandbox, code)
    _deny(made > spec.inodes, f"{made} files were made; the limit is {spec.inodes}")


async def endless_output(sandbox: Sandbox, spec: SandboxSpec) -> None:
    result = await sandbox.exec(["sh", "-c", "yes | tee /dev/stderr"], timeout_s=0.7, max_output_bytes=4096)
    _deny(max(len(result.stdout), len(result.stderr)) > 4096, "more output came than was asked for")
    _deny(not (result.truncated and result.timed_out), "endless output was not cut and timed out")


async def background_writer_holds_the_pipe(sandbox: Sandbox, spec: SandboxSpec) -> None:
    async with asyncio.timeout(10):
        result = await sandbox.exec(["sh", "-c", "(while :; do echo noise; done) & echo done"], timeout_s=30)
    _deny(result.timed_out, "a child that holds the output keeps the call from ending")


async def cpu_hog(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        import os, time
        started = time.monotonic()
        for _ in range(3):
            if os.fork() == 0:
                while time.monotonic() - started < 1.5: pass
                os._exit(0)
        for _ in range(3): os.wait()
        took = os.times()
        report((took.children_user + took.children_system) / (time.monotonic() - started))
    """
    share = await _run(sandbox, code)
    _deny(share > spec.cpu_cores * 1.25, f"{share:.2f} cores were used; the limit is {spec.cpu_cores}")


async def open_files_filler(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        held = []
        try:
            while len(held) < 3000: held.append(open("/dev/null"))
        except OSError: pass
        report(len(held))
    """
    held = await _run(sandbox, code)
    _deny(held > spec.open_files, f"{held} files were open at once; the limit is {spec.open_files}")


async def network(sandbox: Sandbox, spec: SandboxSpec) -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    abstract = f"\0agentgym-{secrets.token_hex(8)}"
    local = await asyncio.start_unix_server(lambda reader, writer: writer.close(), abstract)
    port = server.sockets[0].getsockname()[1]
    code = f"""
        import socket
        through = []
        def attempt(what, call):
            try: call()
            except OSError: return
            through.append(what)
        attempt("host loopback", lambda: socket.create_connection(("127.0.0.1", {port}), 0.5))
        attempt("internet", lambda: socket.create_connection(("1.1.1.1", 53), 0.5))
        attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53)))
        attempt("names", lambda: socket.getaddrinfo("example.com", 80))
        attempt("abstract socket", lambda: socket.socket(socket.AF_UNIX).connect({abstract!r}))
        attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
        attempt("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
        attempt("kernel crypto", lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET))
        report(through)
    """
    try:
        through = await _run(sandbox, code)
    finally:
        for one in (server, local):
            one.close()
            await one.wait_closed()
    _deny(bool(through), f"reached: {', '.join(through)}")


async def secrets_of_the_host(sandbox: Sandbox, spec: SandboxSpec) -> None:
    word = secrets.token_hex(16)
    os.environ["AGENTGYM_CHECK"] = word
    with tempfile.NamedTemporaryFile(mode="w", suffix=".secret") as file:
        file.write(word)
        file.flush()
        os.chmod(file.name, 0o644)
        code = f"""
            import glob, os
            found = []
            for path in [*glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/cmdline"), {file.name!r},
                         *(f"/proc/{{n}}/root" + {file.name!r} for n in ("1", "self"))]:
                try:
                    if {word!r} in open(path, errors="replace").read(): found.append(path)
                except OSError: pass
            found += [key for key, value in os.environ.items() if value == {word!r}]
            found += [n for n in os.listdir("/proc") if n == "{os.getpid()}" and n != str(os.getpid())]
            for home in ("/home", {HOME!r}):
                try: found += [home + "/" + name for name in os.listdir(home) if name in (".bashrc", ".ssh", ".config")]
                except OSError: pass
            report(found)
        """
        try:
            found = await _run(sandbox, code)
        finally:
            del os.environ["AGENTGYM_CHECK"]
    _deny(bool(found), f"the host shows through at {', '.join(found)}")


async def writing_outside(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        import os, sys
        through = []
        for folder in ("/", "/usr", "/usr/bin", "/etc", "/dev", "/root", "/proc", os.path.dirname(os.__file__),
                       os.path.dirname(sys.executable), "/sys", "/var", "/packages"):
            try: open(folder + "/planted", "w").close()
            except OSError: continue
            through.append(folder)
        for path in (os.__file__, "/etc/passwd", "/bin/sh"):
            try: open(path, "r+").close()
            except OSError: continue
            through.append(path)
        report(through)
    """
    through = await _run(sandbox, code)
    _deny(bool(through), f"could write {', '.join(through)}")


async def kernel_interfaces(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        through = []
        def attempt(what, result):
            if result >= 0: through.append(what)
        attempt("new user namespace", libc.unshare(0x10000000))
        attempt("new mount namespace", libc.unshare(0x20000))
        attempt("clone with a namespace", libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0))
        attempt("mount", libc.mount(b"none", b"/work", b"tmpfs", 0, None))
        attempt("umount", libc.umount2(b"/proc", 2))
        attempt("chroot", libc.chroot(b"/work"))
        attempt("mknod", libc.mknod(b"/work/disk", 0o60660, 0xfe00))
        attempt("setuid", libc.setuid(0))
        attempt("bpf", libc.syscall(321, 0, 0, 0))
        attempt("io_uring", libc.syscall(425, 1, ctypes.create_string_buffer(200)))
        attempt("keyring", libc.syscall(250, 0, -3, 1))
        attempt("userfaultfd", libc.syscall(323, 0))
        attempt("perf", libc.syscall(298, ctypes.create_string_buffer(200), 0, -1, -1, 0))
        attempt("open by handle", libc.syscall(304, -100, ctypes.create_string_buffer(200), 0))
        report(through)
    """
    through = await _run(sandbox, code)
    _deny(bool(through), f"allowed: {', '.join(through)}")


async def sysctl_writes(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        import os
        through = []
        for folder, _, names in os.walk("/proc/sys"):
            for name in names:
                path = os.path.join(folder, name)
                try: descriptor = os.open(path, os.O_WRONLY)
                except OSError: continue
                os.close(descriptor); through.append(path)
        for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/1/oom_score_adj"):
            try: os.close(os.open(path, os.O_RDWR))
            except OSError: continue
            through.append(path)
        report(through[:5])
    """
    through = await _run(sandbox, code)
    _deny(bool(through), f"can be opened to write: {', '.join(through)}")


async def taking_over_the_guest(sandbox: Sandbox, spec: SandboxSpec) -> None:
    code = """
        import ctypes, os, signal
        libc = ctypes.CDLL(None, use_errno=True)
        through = []
        for number in range(1, 65):
            try: os.kill(1, number)
            except OSError: pass
        if libc.ptrace(16, 1, 0, 0) == 0: through.append("ptrace")
        for name in ("mem", "environ", "maps", "auxv", "syscall", "fd/3", "fd/5", "map_files", "cwd/x", "root/x"):
            try: open(f"/proc/1/{name}", "rb").read(10)
            except OSError: continue
            through.append(f"/proc/1/{name}")
        try: through += os.listdir("/proc/1/fd")
        except OSError: pass
        try:
            handle = os.pidfd_open(1)
            if libc.syscall(438, handle, 3, 0) >= 0: through.append("pidfd_getfd")
        except OSError: pass
        local = ctypes.create_string_buffer(16)
        class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
        ours, theirs = Vector(ctypes.addressof(local), 16), Vector(0x400000, 16)
        if libc.process_vm_readv(1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) > 0: through.append("vm_readv")
        report(through)
    """
    own_guest = "import os; report(os.getpid() != 1 and os.path.exists('/proc/1'))"
    if await _run(sandbox, own_guest):
        through = await _run(sandbox, code)
        _deny(bool(through), f"got into process 1: {', '.join(through)}")


async def forged_replies(sandbox: Sandbox, spec: SandboxSpec) -> None:
    forging = """
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
    await sandbox.run_python(_dedented(forging), timeout_s=5)
    await sandbox.run_python(_dedented(forging), session="forger", timeout_s=5)
    await sandbox.write("forge.py", _dedented(forging).encode())
    await sandbox.exec(["python3", "forge.py"], timeout_s=5)
    for number in range(10):
        result = await sandbox.run_python(f"print({number})")
        _deny(result.stdout != b"%d\n" % number, f"a call was answered with {result.stdout!r:.50}")


async def orphans_and_daemons(sandbox: Sandbox, spec: SandboxSpec) -> None:
    script = "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep 50' &) ; (sleep 50 &) ; nohup sleep 50 & true"
    await sandbox.exec(["sh", "-c", script])
    await sandbox.run_python(
        "import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  import time; time.sleep(50)"
    )
    for _ in range(50):
        alive = (await sandbox.usage()).processes
        if not alive:
            return
        await asyncio.sleep(0.02)
    raise Breach(f"{alive} processes outlived their call")


async def links_and_pipes_for_the_host(sandbox: Sandbox, spec: SandboxSpec) -> None:
    """Paths the host reads and writes, laid out as traps: the agent's links must lead nowhere, its pipes not hang."""
    await sandbox.exec(
        ["sh", "-c", "ln -s /etc/passwd l; ln -s / d; ln -s /proc/1/environ e; ln -s /proc/self/fd/3 f; mkfifo p;"
         " mkdir sub; ln -s ../../etc/passwd sub/up; ln -s loop loop; ln -s /proc/self/mem m"]
    )  # fmt: skip
    async with asyncio.timeout(20):
        for path in ("l", "d/etc/passwd", "e", "f", "p", "sub/up", "../etc/passwd", "loop", "m", "/proc/1/environ",
                     "/proc/self/environ", "d/proc/self/maps"):  # fmt: skip
            try:
                got = await sandbox.read(path)
            except (OSError, ValueError):
                continue
            raise Breach(f"read({path!r}) gave {got!r:.60}")
        for path in ("l", "d/work/x", "p", "sub/up", "../../x", "loop", "m", "f", "/proc/self/mem", "/proc/1/comm"):
            try:
                await sandbox.write(path, b"x")
            except (OSError, ValueError):
                continue
            raise Breach(f"write({path!r}) went through")


ATTACKS: dict[str, tuple[str, Attack]] = {
    attack.__name__: (needs, attack)
    for needs, attack in (
        ("processes", fork_bomb), ("", memory_bomb_in_one_process), ("memory", memory_bomb_over_many_processes),
        ("disk", disk_filler), ("inodes", inode_filler), ("output", endless_output),
        ("", background_writer_holds_the_pipe), ("cpu", cpu_hog), ("open_files", open_files_filler),
        ("network", network), ("", secrets_of_the_host), ("", writing_outside), ("", kernel_interfaces),
        ("", sysctl_writes), ("", taking_over_the_guest), ("", forged_replies), ("", orphans_and_daemons),
        ("", links_and_pipes_for_the_host),
    )
}  # fmt: skip


async def _run(sandbox: Sandbox, code: str, *, may_die: bool = False) -> Any:
    """Run attack code that hands its finding to `report`. Returns: the finding; None if it may die, and did."""
    prelude = "import json\ndef report(value): print('FOUND ' + json.dumps(value), flush=True)\n"
    result = await sandbox.run_python(prelude + _dedented(code), timeout_s=15)
    for line in result.text.splitlines():
        if line.startswith("FOUND "):
            return json.loads(line[6:])
    if may_die:
        return None
    raise Breach(f"the attack itself failed, nothing is proved: {result.exit_code} {result.stderr[-500:]!r}")


def _dedented(code: str) -> str:
    lines = code.strip("\n").splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines)


def _deny(breached: bool, what: str) -> None:
    if breached:
        raise Breach(what)
