"""The place of a check: a sandbox under test, a neighbour sandbox that must not be affected, and a watched host.

The host sets up a target for each kind of harm: a process that could be seen or killed, a word that could be read,
a file that could be changed. After each attack all targets must be unchanged, nothing of the attack may be left, and
the next sandbox must work.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agentgym import SandboxSpec
from agentgym.sandbox import Backend, ExecResult, Sandbox, Snapshot

from .check import BackendCheck, Breach, check_equal, check_not

SPEC = SandboxSpec(memory_mib=128, disk_mib=16, inodes=2000, processes=32, open_files=64, accept_weaker=("all",))
_CALL_S = 20.0
_SETTLE_S = 5.0
_SLACK = {"descriptors": 32}  # connections that a client library keeps; leaks in all checks exceed this
_PRELUDE = """
import json, os
CALLS = {  # of x86-64 and arm64; not the table of the sandbox's own filter, which an attack must not trust
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "capget": (125, 90), "clone": (56, 220),
    "clone3": (435, 435), "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsopen": (430, 430), "init_module": (175, 105), "inotify_init1": (294, 26), "io_setup": (206, 0),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30),
    "kexec_load": (246, 104), "keyctl": (250, 219), "lookup_dcookie": (212, 18), "memfd_create": (319, 279),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438), "pivot_root": (155, 41),
    "quotactl": (179, 60), "reboot": (169, 142), "request_key": (249, 218), "sched_setattr": (314, 274),
    "swapon": (167, 224), "syslog": (103, 116), "timer_create": (222, 107), "umount2": (166, 39),
    "userfaultfd": (323, 282),
}
CALLS = {name: row[os.uname().machine == "aarch64"] for name, row in CALLS.items()}
def report(value): print("FOUND " + json.dumps(value), flush=True)
through = []
def attempt(what, call):
    try: call()
    except (OSError, ValueError): return
    through.append(what)
"""


class Host:
    """The state of the host that must be the same before and after an attack.

    Attributes:
        word: a secret that no attack may read: in `file`, and in the arguments and environment of the canary.
        canary: pid of a process that no attack may see or end.
    """

    def __init__(self) -> None:
        self.word = secrets.token_hex(16)
        self.folder = Path(tempfile.mkdtemp(prefix="agentgym-check-"))
        self.folder.chmod(0o777)  # readable by all users, so that only the sandbox keeps the agent out
        self.file = self.folder / "secret"
        self.file.write_text(self.word)
        self.file.chmod(0o666)
        read, self._hold = os.pipe()
        try:
            self.canary = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", "read line", self.word],
                {"AGENTGYM_CHECK": self.word},
                file_actions=[(os.POSIX_SPAWN_DUP2, read, 0)],
            )
        finally:
            os.close(read)

    def close(self) -> None:
        """End the canary and remove the folder."""
        os.close(self._hold)  # the end of its input ends it
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.canary, 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def unharmed(self) -> None:
        """Raise Breach if an attack ended the canary, or changed the host's file or folder."""
        try:
            ended = os.waitpid(self.canary, os.WNOHANG)[0] != 0
        except ChildProcessError:
            ended = True
        check_equal(ended, False, "a process of the host was ended")
        check_equal(sorted(os.listdir(self.folder)), ["secret"], "files in a folder of the host")
        check_equal(self.file.read_text(), self.word, "content of a file of the host")


def kernel_settings() -> dict[str, str]:
    """Return settings of the whole machine that an attack would like to change."""
    names = ("core_pattern", "hostname", "domainname", "modprobe", "randomize_va_space")
    return {name: _text(f"/proc/sys/kernel/{name}") for name in names}


def mounts() -> list[str]:
    """Return the mounts of this host, without Docker's, which come and go with everybody's containers."""
    return [line for line in _text("/proc/self/mountinfo").splitlines() if "/docker/" not in line]


async def footprint(backend: Backend) -> dict[str, int]:
    """Count the things that could be left behind: sandboxes, mounts, processes, descriptors.

    A pool keeps sandboxes ready on purpose; these are subtracted.
    """
    own = sum(entry.owner == os.getpid() for entry in await backend.running())
    counts = {"sandboxes": own, "mounts": len(mounts())}
    stats = getattr(backend, "stats", None)
    if stats is not None:
        pool_stats = stats()
        return {**counts, "sandboxes": own - pool_stats.ready - pool_stats.changing}
    return {**counts, "processes": _descendants(os.getpid()), "descriptors": len(os.listdir("/proc/self/fd"))}


async def settled(backend: Backend) -> dict[str, int]:
    """Return the footprint once it is steady: a pool may still be filling, or a process may still be ending."""
    last = await footprint(backend)
    for _ in range(250):
        await asyncio.sleep(0.02)
        now = await footprint(backend)
        if now == last:
            break
        last = now
    return last


@dataclass
class Target:
    """The sandboxes on which a check is made.

    Attributes:
        sandbox: a fresh sandbox of `spec`, closed afterwards. `neighbour`: another sandbox of the same backend.
    """

    backend: Backend
    sandbox: Sandbox
    neighbour: Sandbox
    host: Host
    spec: SandboxSpec

    async def python(
        self, code: str, *, session: str | None = None, timeout_s: float = _CALL_S, **values: Any
    ) -> ExecResult:
        """Run Python in the sandbox, with `values` as variables."""
        given = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        return await self.sandbox.run_python(_PRELUDE + given + dedented(code), session=session, timeout_s=timeout_s)

    async def report(self, code: str, **values: Any) -> Any:
        """Run Python that calls `report(value)`, and return the value. Raises: Breach if the code never calls it."""
        result = await self.python(code, **values)
        report = reported(result)
        if report is None:
            raise Breach(
                f"the check's own code failed, so nothing was tested: {result.exit_code} {result.stderr[-500:]!r}"
            )
        return report["value"]

    async def through(self, code: str, **values: Any) -> list[str]:
        """Run Python that tries things by `attempt(what, call)`. Returns: `what` of each attempt that succeeded."""
        return list(await self.report(dedented(code) + "\nreport(through)", **values))

    async def idle(self, what: str, most: int = 0) -> None:
        """Raise Breach if more than `most` processes are still alive in the sandbox after two seconds."""
        count = most
        for _ in range(100):
            count = (await self.sandbox.usage()).processes
            if count <= most:
                return
            await asyncio.sleep(0.02)
        raise Breach(f"{count} processes are alive {what}, but at most {most} are allowed")

    def beside(self) -> Target:
        """Return the neighbour as the target."""
        return Target(self.backend, self.neighbour, self.neighbour, self.host, self.spec)

    @contextlib.asynccontextmanager
    async def another(
        self, spec: SandboxSpec | None = None, snapshot: Snapshot | None = None
    ) -> AsyncIterator[Sandbox]:
        """Yield one more sandbox, which is closed after the block."""
        sandbox = await self.backend.create(spec or self.spec, snapshot=snapshot)
        try:
            yield sandbox
        finally:
            await sandbox.close()


@dataclass
class TestBed:
    """A backend under test. `async with TestBed(backend) as testbed: await testbed.make(check)`.

    The sandbox created after an attack, to show that new sandboxes still work, is also the sandbox of the next check,
    because a container takes a second to make.
    """

    __test__: ClassVar[bool] = False  # pytest must not collect it by its name

    backend: Backend
    spec: SandboxSpec = SPEC
    host: Host = field(default_factory=Host)
    neighbour: Sandbox | None = None
    _fresh: Sandbox | None = field(default=None, init=False)
    _settings: dict[str, str] = field(default_factory=dict, init=False)
    _before: dict[str, int] = field(default_factory=dict, init=False)

    async def __aenter__(self) -> TestBed:
        try:
            self.neighbour = await self.backend.create(self.spec)
            await self.neighbour.write("mine", b"kept")
            await self._ask_neighbour()
            self._settings, self._before = kernel_settings(), await settled(self.backend)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.host.close()
        for sandbox in (self.neighbour, self._fresh):
            if sandbox is not None:
                await sandbox.close()

    async def make(self, check: BackendCheck) -> None:
        """Make one check on a separate sandbox. Raises: Breach, NotApplicable; any error of the backend."""
        assert self.neighbour is not None
        sandbox, self._fresh = self._fresh or await self.backend.create(self.spec), None
        try:
            await check.run(Target(self.backend, sandbox, self.neighbour, self.host, self.spec))
        finally:
            await sandbox.close()
        if check.kind == "attack":
            await self.unharmed()

    async def unharmed(self) -> None:
        """Raise Breach if the host, the neighbour or the next sandbox was harmed, or something was left behind."""
        assert self.neighbour is not None
        self.host.unharmed()
        check_equal(kernel_settings(), self._settings, "settings of the host's kernel")
        check_equal(await self.neighbour.list(), ["mine"], "files of another sandbox")
        check_equal(await self.neighbour.read("mine"), b"kept", "content of a file of another sandbox")
        check_equal(await self._ask_neighbour(), b"42\n", "an answer of another sandbox")
        await self._nothing_left()
        following = await self.backend.create(self.spec)
        try:
            check_equal(await following.list(), [], "files in the next sandbox")
            result = await following.exec(["sh", "-c", "echo well"])
            check_equal((result.exit_code, result.stdout), (0, b"well\n"), "an answer of the next sandbox")
        except BaseException:
            await following.close()
            raise
        self._fresh = following

    async def _ask_neighbour(self) -> bytes:
        """Return what code prints in a session of the neighbour.

        After two calls in a session no process waits for a next call; a waiting one would be counted as left behind.
        """
        assert self.neighbour is not None
        await self.neighbour.run_python("pass", session="asked")
        return (await self.neighbour.run_python("print(6 * 7)", session="asked")).stdout

    async def _nothing_left(self) -> None:
        left = await growth(self.backend, self._before)
        check_not(
            bool(left), f"left behind on the host: {', '.join(f'{count} {name}' for name, count in left.items())}"
        )


async def growth(backend: Backend, before: dict[str, int]) -> dict[str, int]:
    """Return how much a footprint has grown permanently, after waiting for processes that are still ending."""
    left: dict[str, int] = {}
    for pause in (0.0, 0.01, 0.05, 0.2, 0.7, 2.0, _SETTLE_S):
        await asyncio.sleep(pause)
        now = await footprint(backend)
        left = {name: now[name] - most for name, most in before.items() if now[name] > most + _SLACK.get(name, 0)}
        if not left:
            break
    return left


def reported(result: ExecResult) -> dict[str, Any] | None:
    """Return the value that the code of a check passed to `report`; None if there is none."""
    for line in result.text.splitlines():
        if line.startswith("FOUND "):
            with contextlib.suppress(ValueError):
                return {"value": json.loads(line[6:])}
    return None


def dedented(code: str) -> str:
    """Return code without its common indentation."""
    lines = code.strip("\n").splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _descendants(pid: int) -> int:
    """Return the number of live descendants of a process, without spare processes that wait to become a sandbox: they
    have no user ids yet.
    """
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            state, _, rest = _text(f"/proc/{name}/stat").rpartition(") ")[2].partition(" ")
            if rest and state not in "ZX" and _text(f"/proc/{name}/uid_map"):
                children.setdefault(int(rest.split(" ", 1)[0]), []).append(int(name))
    total, front = 0, children.get(pid, [])
    while front:
        total += len(front)
        front = [below for parent in front for below in children.get(parent, ())]
    return total
