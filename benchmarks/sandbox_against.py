"""Compares the sandboxes of two checkouts in one run: `python benchmarks/sandbox_against.py CHECKOUT [--rounds 40]`.

Each checkout has its own process, and the two take turns, a few calls at a time, so that other load on the machine
slows both alike. The medians of all calls are compared. The processes are started afresh a few times, because the
memory layout of one can make it some per cent slower. Run it with the Python of this checkout: the other one's
agentgym is imported from its folder.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from checkouts import checkout

HERE = Path(__file__).resolve().parents[1]
PER_TURN = 5  # calls of one checkout before it is the other one's turn
STARTS = 3
ROWS = (
    "create + close",
    "create + first run_python + close",
    'warm run_python("pass")',
    'run_python("pass") in a session',
    'exec(["true"])',
    'run_python("pass") right after an exec',
    "write of 4 KiB",
    "read of 4 KiB",
    "reset",
    "/bin/true by subprocess.run",
    "python3 -S -c pass by subprocess.run",
)
Measure = Callable[[str], list[float]]


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=checkout, help="the other checkout's folder")
    parser.add_argument("--rounds", type=int, default=40, help=f"turns of {PER_TURN} calls for each row, in all")
    parser.add_argument("--only", default="", metavar="TEXT", help="the rows whose name contains this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.checkout))
        return
    rows = [name for name in ROWS if options.only in name]
    this, other = compare(options.checkout, rows, options.rounds)
    print("| | this checkout, ms | the other | ratio | quickest tenth, ms | the other | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in rows:
        cells = []
        for figure in (median, quickest_tenth):
            ours, theirs = figure(this[name]), figure(other[name])
            cells += [f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |")


def quickest_tenth(times: list[float]) -> float:
    """Return the time below which a tenth of the calls stayed: on a busy machine, about the time without other work."""
    return quantiles(times, n=10)[0]


def compare(checkout: Path, rows: list[str], rounds: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure both checkouts. Returns: milliseconds of each call by row, of this checkout and of the other."""
    this: dict[str, list[float]] = {name: [] for name in rows}
    other: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(STARTS):
        with _measuring(HERE) as measure_this, _measuring(checkout) as measure_other:
            pair = [(this, measure_this), (other, measure_other)]
            for _ in range(max(rounds // STARTS, 1)):
                for name in rows:
                    for times, measure in pair:
                        times[name] += measure(name)
                pair.reverse()
    return this, other


@contextmanager
def _measuring(checkout: Path) -> Iterator[Measure]:
    """Start a process of a checkout. Yields: a function from the name of a row to the times of some calls."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), str(checkout), "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"},
    )
    assert process.stdin is not None and process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def measure(name: str) -> list[float]:
        print(name, file=requests, flush=True)
        if not (answer := answers.readline()):
            raise RuntimeError(f"Measuring {name!r} in {checkout} failed: see the error above.")
        return list(json.loads(answer))

    try:
        for name in ROWS:
            measure(name)  # what is done for the first time takes longer
        yield measure
    finally:
        requests.close()
        process.wait()
        answers.close()


async def serve(checkout: Path) -> None:
    """Measure, in the process of a checkout, each row that is requested on standard input."""
    import agentgym.sandbox.guest
    from agentgym import SandboxSpec
    from agentgym.sandbox.namespaces.backend import NamespacesBackend  # older checkouts have it only here

    compileall.compile_dir(Path(agentgym.sandbox.guest.__file__).parent, quiet=1)  # as an installation leaves them

    source = Path(sys.modules["agentgym"].__file__ or "")
    if checkout not in source.parents:
        raise RuntimeError(f"agentgym was imported from {source}, not from {checkout}.")
    backend, spec = NamespacesBackend(), SandboxSpec(accept_weaker=("all",))
    sandbox = await backend.create(spec)
    content = os.urandom(4096)

    async def life(*, call: bool) -> None:
        short_lived = await backend.create(spec)
        if call:
            await short_lived.run_python("pass")
        await short_lived.close()

    async def plain(*argv: str) -> None:
        subprocess.run(argv, check=True, capture_output=True)

    python = str(Path(getattr(sys, "_base_executable", None) or sys.executable).resolve())

    works: dict[str, Callable[[], Awaitable[Any]]] = dict(
        zip(
            ROWS,
            (
                lambda: life(call=False),
                lambda: life(call=True),
                lambda: sandbox.run_python("pass"),
                lambda: sandbox.run_python("pass", session="kept"),
                lambda: sandbox.exec(["true"]),
                lambda: sandbox.run_python("pass"),
                lambda: sandbox.write("file", content),
                lambda: sandbox.read("file"),
                sandbox.reset,
                lambda: plain("/bin/true"),
                lambda: plain(python, "-S", "-c", "pass"),
            ),
            strict=True,
        )
    )
    for name in map(str.strip, iter(sys.stdin.readline, "")):
        times = []
        for _ in range(PER_TURN):
            await asyncio.sleep(0.002)  # what the call before left to be done in the background
            if "after an exec" in name:
                await sandbox.exec(["true"])
            if "read" in name:
                await sandbox.write("file", content)
            began = time.perf_counter()
            await works[name]()
            times.append(1000 * (time.perf_counter() - began))
        print(json.dumps(times), flush=True)
    await backend.close()


if __name__ == "__main__":
    main()
