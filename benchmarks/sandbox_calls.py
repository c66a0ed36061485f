"""The cost of one sandbox and one call, each compared with the bare operation that it uses."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from sandbox_measuring import SPEC, Row, Work, in_turn, processor_ms, timing

import agentgym.sandbox
from agentgym.sandbox import Backend, ExecResult, NamespacesBackend, Pool, Sandbox
from agentgym.sandbox.guest.frames import LINKED

PYTHON = str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())
TRUE = "/bin/true"
PAUSE_S = 1.5  # between two calls, while a model thinks
COLD = ["-S", "-c", "pass"]  # without the packages of the host, which no sandbox sees
# The guest's own interpreter, forked for each byte: what a warm call can never be cheaper than.
_BARE_FORK = """
import gc, os, sys, time
from guest import python, spawner, zygote
python.prepare()
gc.collect(); gc.freeze(); gc.disable()
while sys.stdin.buffer.read(1):
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        python.run_once(b"pass")
    os.waitpid(child, 0)
    os.write(1, b"%.6f\\n" % (1000 * (time.perf_counter() - began)))
"""


class BareFork:
    """The same warm interpreter as in a sandbox, outside of any: forks, runs nothing, waits for its child."""

    def __init__(self) -> None:
        folder = Path(agentgym.sandbox.__file__).parent
        code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{_BARE_FORK}"
        flags = ["-P", "-s", "-S", "-B", "-X", "utf8"]  # as the spawner's
        self.process = subprocess.Popen(
            [PYTHON, *flags, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **LINKED},
        )

    def once(self) -> float:
        """Fork once. Returns: milliseconds of the fork, by the forking process's clock."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b".")
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


async def lives(rounds: int) -> list[Row]:
    """Measure creation, one Python call and close, beside a bare `python -c pass`; and the same from a pool."""
    backend, pool = NamespacesBackend(), Pool(NamespacesBackend(), ready=8)
    try:
        times = await in_turn({"life": lambda: live(backend), "python": lambda: plain([PYTHON, *COLD])}, rounds)
        times |= await in_turn({"empty": lambda: live(backend, call=False)}, rounds)
        spent = await processor_ms(lambda: live(backend), rounds)
        checkout, first_call = await checkouts(pool, rounds)
    finally:
        await backend.close()
        await pool.close()
    return [
        timing("create + first run_python + close", times["life"], 8.0, "python -S -c pass", times["python"]),
        Row("  over that bare Python", median(times["life"]) / median(times["python"]), "x", 0.7),
        Row("  of which processor time, all processes", spent, "CPU-ms"),
        timing("create + close", times["empty"]),
        timing("out of a warm pool: create", checkout),
        timing("out of a warm pool: its first run_python", first_call),
    ]


async def live(backend: Backend, *, call: bool = True) -> None:
    """Use one sandbox from its creation to its end."""
    sandbox = await backend.create(SPEC)
    if call:
        done(await sandbox.run_python("pass"))
    await sandbox.close()


async def checkouts(pool: Pool, rounds: int) -> tuple[list[float], list[float]]:
    """Return milliseconds until a pool with ready sandboxes hands one out, and those of the first call to it."""
    for _ in range(3):  # a spec is kept ready once it is asked for again and again
        await live(pool)
    out, first = [], []
    for _ in range(rounds):
        while not pool.stats().ready:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.02)  # what is made in the background takes the processor meanwhile
        began = time.perf_counter()
        sandbox = await pool.create(SPEC)
        taken = time.perf_counter()
        done(await sandbox.run_python("pass"))
        first.append(1000 * (time.perf_counter() - taken))
        out.append(1000 * (taken - began))
        await sandbox.close()
    return out, first


async def calls(rounds: int) -> list[Row]:
    """Measure calls to a live sandbox: Python beside a bare fork, a program beside subprocess.run."""
    backend, bare, forks = NamespacesBackend(), BareFork(), []
    try:
        sandbox = await backend.create(SPEC)

        async def python() -> None:
            done(await sandbox.run_python("pass"))

        async def session() -> None:
            done(await sandbox.run_python("pass", session="kept"))

        async def program() -> None:
            done(await sandbox.exec(["true"]))

        async def script() -> None:
            done(await sandbox.exec(["python3", *COLD]))

        async def fork() -> None:
            forks.append(bare.once())

        times = await in_turn({"python": python, "fork": fork}, rounds)
        times |= await in_turn({"program": program, "plain": lambda: plain([TRUE])}, rounds)
        times |= await in_turn({"script": script, "cold": lambda: plain([PYTHON, *COLD])}, rounds)
        times |= await in_turn({"session": session}, rounds)
        times |= await in_turn({"at once": python}, rounds)
        before = (await sandbox.usage()).cpu_s
        host = await processor_ms(python, rounds)
        inside = 1000 * ((await sandbox.usage()).cpu_s - before) / rounds
    finally:
        bare.close()
        await backend.close()
    ratio = median(times["python"]) / median(forks)
    return [
        timing('warm run_python("pass")', times["python"], None, "bare fork of the same interpreter", forks),
        Row("  over that bare fork", ratio, "x", 1.3),
        timing("  one right after the other", times["at once"]),
        Row("  processor time, host and sandbox", host + inside, "CPU-ms", 3.0),
        Row("    of which the host's", host, "CPU-ms"),
        timing('run_python("pass") in a session', times["session"]),
        timing('exec(["true"])', times["program"], 2.5, f"subprocess.run({TRUE})", times["plain"]),
        timing(
            'exec(["python3", "-S", "-c", "pass"])', times["script"], None, "the same by subprocess.run", times["cold"]
        ),
    ]


async def pauses(rounds: int) -> list[Row]:
    """Measure a Python call after a pause, as when a model thinks, beside a bare fork after the same pause."""
    backend, bare = NamespacesBackend(), BareFork()
    names = ("a call", "an exec", "a call, beside a session that lives", "fork")
    times: dict[str, list[float]] = {name: [] for name in names}
    try:
        sandboxes = {name: await backend.create(SPEC) for name in names[:3]}
        done(await sandboxes[names[2]].run_python("pass", session="kept"))
        for number in range(rounds + 1):
            done(await sandboxes["an exec"].exec(["true"]))
            await asyncio.sleep(PAUSE_S)
            for name in names[number % 4 :] + names[: number % 4]:  # who is first has the coldest caches
                began = time.perf_counter()
                if name == "fork":
                    bare.once()
                else:
                    done(await sandboxes[name].run_python("pass"))
                if number:
                    times[name].append(1000 * (time.perf_counter() - began))
        at_once, forks = await after_exec(sandboxes["an exec"], bare, 4 * rounds)
    finally:
        bare.close()
        await backend.close()
    beside = f"bare fork after {PAUSE_S:g} s"
    rows = [
        timing(f'run_python("pass"), {PAUSE_S:g} s after {name}', times[name], None, beside, times["fork"])
        for name in names[:3]
    ]
    rows.append(
        timing('run_python("pass") right after an exec', at_once, None, "bare fork right after a program", forks)
    )
    # right after an exec a call cannot find a process ready: there is no target
    ratios = [Row("  over that bare fork", row.ratio, "x", 1.3 if row is not rows[-1] else None) for row in rows]
    return [row for pair in zip(rows, ratios, strict=True) for row in pair]


async def after_exec(sandbox: Sandbox, bare: BareFork, rounds: int) -> tuple[list[float], list[float]]:
    """Return milliseconds of calls directly after a command, and of bare forks directly after a program."""
    calls, forks = [], []
    for _ in range(rounds):
        done(await sandbox.exec(["true"]))
        began = time.perf_counter()
        done(await sandbox.run_python("pass"))
        calls.append(1000 * (time.perf_counter() - began))
        await plain([TRUE])
        forks.append(bare.once())
    return calls[1:], forks[1:]


async def throughput(count: int) -> list[Row]:
    """Measure whole lives with one call each, one per core at a time, beside the same number of bare Pythons."""
    backend, at_once = NamespacesBackend(), os.cpu_count() or 1

    async def bare_python() -> None:
        process = await asyncio.create_subprocess_exec(PYTHON, *COLD, stdin=subprocess.DEVNULL)
        await process.wait()

    async def per_s(work: Work) -> float:
        async def worker() -> None:
            for _ in range(count // at_once):
                await work()

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(at_once)))
        return count // at_once * at_once / (time.perf_counter() - began)

    try:
        await live(backend)
        rates = [(await per_s(lambda: live(backend)), await per_s(bare_python)) for _ in range(4)]
    finally:
        await backend.close()
    ours, theirs = (median(side) for side in zip(*rates, strict=True))
    return [Row(f"lives with a call, {at_once} at once", ours, "per s", None, True, "python -S -c pass", theirs)]


async def plain(argv: list[str]) -> None:
    """Run a program without any sandbox."""
    subprocess.run(argv, check=True, capture_output=True)


def done(result: ExecResult) -> None:
    """Check a result. Raises: RuntimeError if the call failed, because its time is then meaningless."""
    if not result.ok:
        raise RuntimeError(f"A call failed, so its time says nothing: {result}")
