"""The host process of a soak: uses sandboxes, kills some, and tells how each ended. Started by benchmarks/soak.py.

One JSON line on standard output for each sandbox that ended, and one at the start and the end about this process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from soak_census import processes_below

from agentgym import SandboxSpec
from agentgym.errors import AgentGymError
from agentgym.registry import load
from agentgym.sandbox import Backend, Pool, Sandbox

SPEC = SandboxSpec(memory_mib=64, disk_mib=8, inodes=500, processes=16, open_files=64, accept_weaker=("all",))
NOTICED_S = 1.0  # how long after a kill what dies of it may still be thought alive, by a pool for example
SPAWNER_SHARE = 0.15  # of the kills: the process that makes sandboxes; the others are of a sandbox's process 1


class Wrong(Exception):
    """A sandbox gave a wrong answer."""


@dataclass
class Worker:
    """Uses `count` sandboxes of one backend, `at_once` of them side by side."""

    backend: Backend
    count: int
    at_once: int
    kills: float
    random: random.Random
    killed_at: float = float("-inf")  # by time.monotonic(), so that a death can be told from one nobody caused
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Use all sandboxes; the first error that is not typed ends the run."""
        await self.settle()
        say(event="ready", descriptors=descriptors(), resident_mib=resident_mib(), spawners=spawners())
        left = iter(range(self.count))
        await asyncio.gather(*(self.one_after_another(left) for _ in range(self.at_once)))
        await asyncio.gather(*self.tasks)  # a kill that is still to come would hit what settles
        await self.settle()
        say(event="done", descriptors=descriptors(), resident_mib=resident_mib(), spawners=spawners())
        await self.backend.close()
        left_over = {pid: line for pid, line in processes_below(os.getpid()).items() if line}
        say(event="closed", processes=list(left_over.values())[:3])

    async def settle(self) -> None:
        """Return to one spawner and no sandbox, so that two counts of descriptors can be compared."""
        if isinstance(self.backend, Pool):
            await self.backend.close()  # and what it keeps ready
        sandbox = await self.backend.create(SPEC)
        await use(sandbox, "python")
        await sandbox.close()
        gc.collect()

    async def one_after_another(self, left: Any) -> None:
        for number in left:
            kill = self.random.random() < self.kills
            began, outcome = time.monotonic(), "ok"
            try:
                sandbox = await self.backend.create(SPEC)
                if kill:
                    task = asyncio.create_task(self.kill_soon())
                    self.tasks.add(task)
                    task.add_done_callback(self.tasks.discard)
                try:
                    await use(sandbox, self.random.choice(KINDS))
                finally:
                    await sandbox.close()
            except AgentGymError as error:
                outcome = type(error).__name__
                if self.killed_at < began - NOTICED_S:
                    outcome = f"unexplained {outcome}: {str(error)[:300]}"
            except Exception as error:  # noqa: BLE001  what the soak is there to find
                outcome = f"untyped {type(error).__name__}: {str(error)[:300]}"
            say(event="ended", number=number, outcome=outcome)

    async def kill_soon(self) -> None:
        """Kill the spawner or a sandbox's process 1 after a moment (SIGKILL): it may be half made, busy or closing."""
        await asyncio.sleep(self.random.uniform(0, 0.02))
        spawning = self.random.random() < SPAWNER_SHARE
        if spawners():
            victims = spawners() if spawning else guests()
        else:
            spawning, victims = False, await containers()
        if victims:
            try:
                os.kill(self.random.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                return
            self.killed_at = time.monotonic()
            say(event="killed", what="spawner" if spawning else "guest", spawners=spawners())


async def use(sandbox: Sandbox, kind: str) -> None:
    """Do something in a sandbox, and check what comes back. Raises: Wrong."""
    if kind == "session":
        await sandbox.run_python("x = 41", session="s")
        check((await sandbox.run_python("print(x + 1)", session="s")).stdout, b"42\n")
    elif kind == "exec":
        check((await sandbox.exec(["sh", "-c", "sleep 60 & echo 42"])).stdout, b"42\n")
    elif kind == "files":
        await sandbox.write("a/b", bytes(100_000))
        check(await sandbox.read("a/b"), bytes(100_000))
        check(await sandbox.list(), ["a/"])
    elif kind == "channel":
        channel = await sandbox.open_channel(["cat"])
        check(await channel.request([4, 2]), [4, 2])
    elif kind == "snapshot":
        await sandbox.write("f", b"42")
        check(len((await sandbox.snapshot()).id), 64)
    elif kind == "reset":
        await sandbox.write("f", b"42")
        await sandbox.reset()
        check(await sandbox.list(), [])
    elif kind == "timeout":
        check((await sandbox.exec(["sleep", "60"], timeout_s=0.02)).timed_out, True)
    else:
        check((await sandbox.run_python("print(6 * 7)")).stdout, b"42\n")


KINDS = ("python", "python", "python", "exec", "session", "files", "channel", "snapshot", "reset", "timeout")


def check(got: object, expected: object) -> None:
    if got != expected:
        raise Wrong(f"{got!r:.100} came back where {expected!r:.100} was expected")


def spawners() -> list[int]:
    """Processes of this one's own that make sandboxes. All that is forked from one is called the same."""
    own = processes_below(os.getpid())
    return [pid for pid, line in own.items() if "guest import spawner" in line and parent(pid) == os.getpid()]


def guests() -> list[int]:
    """Process 1 of each sandbox of ours, what is about to become one, and the templates they are forked from."""
    makers = set(spawners())
    return [pid for pid in processes_below(os.getpid()) if parent(pid) in makers]


async def containers() -> list[int]:
    """Process 1 of each container of ours, as the host sees it."""
    format_text = '{{.ID}} {{.Label "agentgym.owner"}}'
    listed = await docker("ps", "--filter", "label=agentgym.owner", "--format", format_text)
    names = [line.split()[0] for line in listed if line.split()[1:] and line.split()[1].startswith(f"{os.getpid()}:")]
    pids = await docker("inspect", "--format", "{{.State.Pid}}", *names) if names else []
    return [int(pid) for pid in pids if pid.isdecimal() and int(pid) > 0]


async def docker(*words: str) -> list[str]:
    """Lines that a command of Docker prints; none if it fails, as for a container that is gone by now."""
    process = await asyncio.create_subprocess_exec("docker", *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    stdout, _ = await process.communicate()
    return stdout.decode().splitlines()


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_mib(pid: int | str = "self") -> float:
    """Return the resident memory of a process, in MiB; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


def say(**facts: Any) -> None:
    """One line, whole: it is written at once, and shorter than a pipe's atomic limit."""
    os.write(1, json.dumps(facts).encode() + b"\n")


def main() -> None:
    """Run one worker to its end, unless it is killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="namespaces")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--kills", type=float, default=0.05)
    parser.add_argument("--pool", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    backend = load("backends", options.backend)()
    if options.pool:
        backend = Pool(backend, ready=options.pool)
    worker = Worker(backend, options.count, options.at_once, options.kills, random.Random(options.seed))
    asyncio.run(worker.run())


if __name__ == "__main__":
    main()
