"""Attacks on the host through its visible parts: processes, files, /proc, /sys, the environment."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path

from agentgym.sandbox import Sandbox

from .check import NotApplicable, check_equal, check_not, checks_of
from .testbed import Target

_PRIVATE = (
    os.path.expanduser("~"),
    "/home",
    "/root",
    "/root/.ssh",
    "/var/log",
    "/var/lib/docker",
    "/etc/ssh",
    "/boot",
    "/srv",
    "/opt",
    "/etc/shadow",
    "/etc/machine-id",
    "/etc/hosts",
    "/run/secrets",
    "/var/run/secrets",
)


async def secrets_in_environments_and_arguments(target: Target) -> None:
    """Looks for a secret of the host in every environment and command line that it can read: it finds none."""
    secrets = await target.report(
        """
        import glob
        found = []
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + ["/proc/self/environ"]:
            try:
                if word in open(path, errors="replace").read(): found.append(path)
            except OSError: pass
            try:
                if checkout in open(path, errors="replace").read(): found.append(f"{path} (the host's checkout)")
            except OSError: pass
        found += [key for key, value in os.environ.items() if word in value]
        report(found)
        """,
        word=target.host.word,
        checkout=str(Path(__file__).parents[2]),
    )
    check_not(bool(secrets), f"the word shows in {', '.join(secrets)}")


async def what_an_earlier_sandbox_was_told(target: Target) -> None:
    """Searches its own memory for a variable of an earlier sandbox, live or closed: it finds nothing."""
    word = secrets.token_hex(16)
    # so many variables that those of a smaller spec would not overwrite all of them in memory
    many = tuple((f"AGENTGYM_CHECK_{number}", word) for number in range(64))
    spec = replace(target.spec, environment=(*target.spec.environment, *many))
    async with target.another(spec) as earlier:
        check_not(not await _in_memory(target, earlier, word), "it does not even find its own: nothing is proved")
        async with target.another() as later:
            check_not(await _in_memory(target, later, word), "the memory of the next sandbox holds it")
    async with target.another() as later:
        check_not(
            await _in_memory(target, later, word), "once its sandbox is gone, the memory of the next one holds it"
        )


async def _in_memory(target: Target, sandbox: Sandbox, word: str) -> bool:
    """Return whether a Python call of the sandbox finds the word in its memory. The call's code does not contain it."""
    secrets = await replace(target, sandbox=sandbox).report(
        """
        import re, sys
        found = 0
        try: memory, maps = open("/proc/self/mem", "rb", 0), open("/proc/self/maps")
        except PermissionError: report(None); sys.exit()
        with memory, maps:
            for line in maps.read().splitlines():
                first, last = (int(end, 16) for end in line.split()[0].split("-"))
                if " rw-p " in line:
                    memory.seek(first)
                    found += len(re.findall(pattern.encode(), memory.read(last - first)))
        report(found)
        """,
        pattern=f"[{word[0]}]{word[1:]}",
    )
    if secrets is None:
        raise NotApplicable("a process cannot read its own memory as a file here")
    return bool(secrets)


async def files_of_the_host(target: Target) -> None:
    """Reads a file that is open to everybody on the host, and looks for the host's homes, keys, logs and passwords."""
    files = await target.report(
        """
        found = []
        for path in (file, *(f"/proc/{one}/root{file}" for one in ("1", "self", "thread-self", "2")),
                     *(f"/proc/{one}/cwd/../../../../..{file}" for one in ("1", "self")), "/.host" + file,
                     "/host" + file):
            try:
                if open(path).read(): found.append(path)
            except OSError: pass
        for path, marks in private.items():
            try: status = os.stat(path)
            except OSError: continue
            if [status.st_ino, status.st_ctime_ns] == marks: found.append(path)
        report(found)
        """,
        file=str(target.host.file),
        private={path: marks for path in _PRIVATE if (marks := _marks(path))},
    )
    check_not(bool(files), f"the host's own: {', '.join(files)}")


def _marks(path: str) -> list[int]:
    """Return marks that distinguish this file from another at the same path."""
    try:
        status = os.stat(path)
    except OSError:
        return []
    return [status.st_ino, status.st_ctime_ns]


async def tasks_and_their_truth(target: Target) -> None:
    """Imports agentgym, and looks for its packages: they hold the answers to the tasks."""
    files = await target.report("""
        import glob, sys
        found = []
        for name in ("agentgym", "agentgym.tasks"):
            try: __import__(name)
            except ImportError: continue
            found.append(name)
        for folder in [*sys.path, "/packages", "/usr/lib/python3/dist-packages", "/usr/local/lib"]:
            found += glob.glob(folder + "/agentgym*") + glob.glob(folder + "/*/site-packages/agentgym*")
        report(found)
    """)
    check_not(bool(files), f"found {', '.join(files)}")


async def processes_of_the_host(target: Target) -> None:
    """Tries to signal, trace and read processes of the host, and of every pid in a range: it reaches none."""
    through = await target.through(
        """
        import ctypes, signal
        libc = ctypes.CDLL(None, use_errno=True)
        def listed():
            try: return {int(name) for name in os.listdir("/proc") if name.isdecimal()}
            except PermissionError: return {os.getpid()}
        mine = listed()
        try: through += ["its command line"] if word in open(f"/proc/{canary}/cmdline").read() else []
        except OSError: pass
        if canary not in mine:
            attempt("a signal", lambda: os.kill(canary, 0))
            attempt("its end", lambda: os.kill(canary, signal.SIGKILL))
            attempt("a handle", lambda: os.pidfd_open(canary))
            attempt("its priority", lambda: os.setpriority(os.PRIO_PROCESS, canary, 19))
            attempt("its processors", lambda: os.sched_setaffinity(canary, {0}))
            attempt("its folder", lambda: os.listdir(f"/proc/{canary}"))
            if libc.ptrace(16, canary, 0, 0) == 0: through.append("tracing")
        others = [pid for pid in range(2, 40_000, 7) if pid not in mine and pid != os.getpid()]
        for pid in others:
            try: os.kill(pid, 0)
            except ProcessLookupError: continue
            except PermissionError: pass
            if pid not in listed(): through.append(f"pid {pid}")
        """,
        canary=target.host.canary,
        word=target.host.word,
    )
    check_not(bool(through), f"it got {', '.join(through[:5])}")


async def signals_to_everybody(target: Target) -> None:
    """Sends every signal to every process: it ends at most itself, and the host is unaffected."""
    seen = await target.report("report(os.path.exists(f'/proc/{canary}'))", canary=target.host.canary)
    check_not(seen, "processes of the host are in sight; it is not tried")
    for group in (-1, 0):
        for number in (15, 9):
            code = (
                f"import os\nfor one in range(1, 65):\n try: os.kill({group}, one) if one not in (9, 19, 20) else 0\n"
            )
            await target.sandbox.run_python(code + f" except OSError: pass\nos.kill({group}, {number})", timeout_s=2)
    check_equal((await target.sandbox.exec(["echo", "on"])).stdout, b"on\n", "the next call")


async def kernel_memory_and_addresses(target: Target) -> None:
    """Reads kernel memory, symbols with their addresses, keys, timers and firmware in /proc and /sys."""
    through = await target.through("""
        def content(path, useful=lambda text: bool(text.strip(b"\\0 \\n"))):
            with open(path, "rb") as file: text = file.read(1 << 16)
            if not useful(text): raise OSError
        def addresses(text): return any(line.split()[0].strip(b"0") for line in text.splitlines()[:200] if line)
        for path in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/timer_list", "/proc/sched_debug",
                     "/proc/latency_stats", "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup",
                     "/sys/kernel/debug/tracing/trace", "/sys/kernel/tracing/trace", "/sys/kernel/debug/sched/debug",
                     "/sys/fs/pstore/dmesg", "/proc/vmallocinfo", "/proc/slabinfo",
                     "/sys/firmware/dmi/entries/0-0/raw", "/sys/kernel/security/lockdown", "/proc/acpi/wakeup"):
            attempt(path, lambda: content(path))
        attempt("kernel addresses", lambda: content("/proc/kallsyms", addresses))
        attempt("module addresses", lambda: content("/proc/modules", lambda text: any(
            line.split()[-1] not in (b"0x0000000000000000",) and line.split()[-1].strip(b"0x")
            for line in text.splitlines() if b"0x" in line)))
    """)
    check_not(bool(through), f"could read {', '.join(through)}")


async def writing_settings_of_the_machine(target: Target) -> None:
    """Opens all of /proc/sys and /sys for writing, such as the crash handler's name: nothing can be written."""
    through = await target.through("""
        for top in ("/proc/sys", "/proc/pressure", "/sys"):
            for folder, folders, names in os.walk(top):
                if folder.count("/") > 6: folders.clear()
                for name in names:
                    path = os.path.join(folder, name)
                    attempt(path, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
        for path in ("/proc/sysrq-trigger", "/proc/kcore", "/proc/1/oom_score_adj", "/proc/irq/default_smp_affinity",
                     "/proc/scsi/scsi", "/proc/mtrr", "/proc/acpi/wakeup", "/proc/bus/pci/devices"):
            attempt(path, lambda: os.close(os.open(path, os.O_RDWR)))
    """)
    check_not(bool(through), f"can be opened to write: {', '.join(through[:5])}")


async def control_groups(target: Target) -> None:
    """Looks for its own control groups, to lift its limits or to run a program on their release."""
    through = await target.through("""
        import glob
        for name in ("memory.max", "memory.limit_in_bytes", "pids.max", "cgroup.procs", "release_agent", "cpu.max"):
            for path in glob.glob(f"/sys/fs/cgroup/{name}") + glob.glob(f"/sys/fs/cgroup/*/{name}"):
                attempt(path, lambda: os.close(os.open(path, os.O_WRONLY)))
        attempt("a group of its own", lambda: os.mkdir("/sys/fs/cgroup/mine"))
    """)
    check_not(bool(through), f"it got {', '.join(through[:5])}")


async def writing_outside(target: Target) -> None:
    """Plants files in every system folder, and opens the interpreter, the shell and their libraries to write."""
    through = await target.through(
        """
        import sys
        folders = {"/", "/usr", "/usr/bin", "/usr/local", "/etc", "/dev", "/root", "/home", "/proc", "/sys", "/var",
                   "/packages", "/opt", "/run", "/mnt", "/lib", os.path.dirname(os.__file__), host,
                   os.path.dirname(os.path.realpath(sys.executable)), *(one for one in sys.path if one != "/work")}
        for folder in sorted(folders):
            attempt(folder, lambda: open(folder + "/planted", "w").close())
        for path in (os.__file__, "/etc/passwd", "/etc/ld.so.cache", "/bin/sh", os.path.realpath(sys.executable)):
            attempt(path, lambda: open(path, "r+").close())
            attempt(path, lambda: os.chmod(path, os.stat(path).st_mode & 0o7777))
        """,
        host=str(target.host.folder),
    )
    check_not(bool(through), f"could write {', '.join(through)}")


CHECKS = checks_of(
    "attack",
    "The host",
    secrets_in_environments_and_arguments,
    what_an_earlier_sandbox_was_told,
    files_of_the_host,
    tasks_and_their_truth,
    processes_of_the_host,
    signals_to_everybody,
    kernel_memory_and_addresses,
    writing_settings_of_the_machine,
    control_groups,
    writing_outside,
)
