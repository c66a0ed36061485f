"""How long the viewer takes with a run of 100,000 episodes and an episode of 200 turns, in a real Chromium.

    python benchmarks/viewer.py [--episodes 100000] [--turns 200] [--keep FOLDER] [--old]

The ledger is written by the same code as in training, with made-up episodes of 3 turns. Every figure is the median of
several fresh pages; "cold" is the first answer of a server that has just started. Needs Chromium, and playwright.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from agentgym import Task, Trajectory, Turn
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder
from agentgym.storage.summary import TABLE
from agentgym.viewer.opened_run import OpenedRun
from agentgym.viewer.serving import listen

REPEATS = 5
LIST_LIMIT_S, EPISODE_LIMIT_S = 1.0, 0.5
SYSTEM = Message("system", "Answer with the bare value, found by SQL. " + "Tools are described at length. " * 40)


def main() -> int:
    """Build the run, measure, print; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="where the run is, or is made and kept")
    parser.add_argument("--old", action="store_true", help="measure also a ledger without summaries (a minute)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "large"
        if not (folder / "ledger.sqlite").is_file():
            started = time.perf_counter()
            asyncio.run(build(folder, options.episodes, options.turns))
            print(f"wrote {options.episodes:,} episodes in {time.perf_counter() - started:.0f} s")
        size = (folder / "ledger.sqlite").stat().st_size
        print(f"ledger of {size / 2**20:,.0f} MiB")
        missed = in_a_browser(folder, options)
        if options.old:
            old(folder, Path(scratch) / "old")
    return int(missed)


async def build(path: Path, episodes: int, turns: int) -> None:
    """Write a run folder with so many short episodes, and one of so many turns."""
    rng, folder = random.Random(5), RunFolder(path).create()
    folder.recipe.write_text('name = "large"\n[tasks]\nset = "sql/store-v1"\n[train]\nsteps = 400\n')
    with closing(Ledger(folder.ledger)) as ledger:
        await ledger.finish(episode(rng, "long", "train/long", 0, turns))
        for first in range(0, episodes - 1, 512):
            runs = (
                episode(rng, f"train-{n // 256:06d}", f"train/{n // 8 % 1999:04d}", n, 3)
                for n in range(first, min(first + 512, episodes - 1))
            )
            await asyncio.gather(*map(ledger.finish, runs))


def episode(rng: random.Random, run: str, name: str, sample: int, turns: int) -> Trajectory:
    """A made-up episode: queries, some of which fail, and an answer."""
    task = Task(name, "agentgym/sql-v1", f"How much did customer {name} spend?", truth="7", tags=("spend",))
    trajectory = Trajectory(
        f"{run}/{name}#{sample}",
        task,
        sample,
        opening=(SYSTEM, *task.opening()),
        prompt_ids=list(range(300)),
        weights={"evidence": 0.3},
        duration_s=rng.uniform(0.3, 2),
        stop_reason=StopReason.ANSWERED,
    )
    for index in range(turns):
        bad = rng.random() < 0.1
        call = Call("query", {"sql": f"SELECT total, placed FROM orders WHERE customer = {rng.random()} LIMIT 20"})
        rows = "\n".join(f"{rng.randint(0, 9999)}\t2031-0{rng.randint(1, 9)}-11" for _ in range(12))
        text = "SQLite: no such column: totl" if bad else rows
        result = Result(text, ResultStatus.TOOL_ERROR if bad else ResultStatus.OK, "query")
        message = Message("assistant", "I look at the orders first, then add them up.", (call,))
        trajectory.turns.append(
            Turn(
                index,
                message,
                (call,),
                (result,),
                token_ids=list(range(40)),
                logprobs=[-0.1] * 40,
                observation_ids=list(range(90)),
                rewards={"evidence": 1.0},
            )
        )
    trajectory.outcome = {"success": float(rng.random() < 0.6)}
    return trajectory


def in_a_browser(folder: Path, options: argparse.Namespace) -> bool:
    """Measure the list and the long episode. Returns whether a limit was missed."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("AGENTGYM_CHROMIUM") or shutil.which("chromium")
    long = "long%2Ftrain%2Flong%230"
    listing = f"#/run/{folder.name}/episodes"
    busy: list[float] = []  # CPU seconds of the page's main thread
    server, address = started(folder)
    try:
        with closing(httpx.Client(base_url=address, trust_env=False)) as client, sync_playwright() as playwright:
            cold = timed(lambda: client.get(f"/api/runs/{folder.name}/episodes").raise_for_status())
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])

            def opened(path: str, sign: str, count: int, from_list: bool = False) -> float:
                page = browser.new_page()
                if from_list:
                    page.goto(f"{address}/{listing}")
                    page.locator("tr.active").wait_for()
                meter = page.context.new_cdp_session(page)
                meter.send("Performance.enable", {"timeDomain": "threadTicks"})
                begun = time.perf_counter()
                page.goto(f"{address}/{path}")
                page.locator(sign).nth(count - 1).wait_for()
                page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
                took = time.perf_counter() - begun
                metrics = {m["name"]: m["value"] for m in meter.send("Performance.getMetrics")["metrics"]}
                busy.append(metrics["TaskDuration"])
                page.close()
                return took

            def answered(query: str) -> float:
                return repeated(
                    lambda: timed(lambda: client.get(f"/api/runs/{folder.name}/{query}").raise_for_status())
                )

            opened("", "table.runs", 1)  # the browser's own start
            answer = answered("episodes")
            narrowed = answered("episodes?only=unsolved&failure=tool_error&sort=reward")
            busy.clear()
            listed = repeated(lambda: opened(listing, "tr.active", 1))
            listing_busy = statistics.median(busy)
            read = answered("episode?id=long/train/long%230")
            there, turn = f"#/run/{folder.name}/episode/{long}", ".turns > .turn"
            fresh = repeated(lambda: opened(there, turn, options.turns))
            busy.clear()
            seconds = repeated(lambda: opened(there, turn, options.turns, from_list=True))
            browser.close()
    finally:
        server.terminate()
        server.wait()
    rows: list[tuple[str, float, float | None]] = [
        (f"list of {options.episodes:,} episodes, in the browser", listed, LIST_LIMIT_S),
        ("  of it CPU of the page's main thread", listing_busy, None),
        ("  CPU of the server's answer, cold", cpu_of(folder, first=True), None),
        ("  CPU of the server's answer, the same list again", cpu_of(folder), None),
        ("  the server's first answer, cold", cold, None),
        ("  the server's answer", answer, None),
        ("  filtered by outcome and failure, sorted by reward", narrowed, None),
        (f"episode of {options.turns} turns, from the list to its last turn", seconds, EPISODE_LIMIT_S),
        ("  of it CPU of the page's main thread", statistics.median(busy), None),
        ("  by its address in a fresh page", fresh, None),
        ("  the server's answer", read, None),
    ]
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processor(s)")
    for name, took, limit in rows:
        verdict = "" if limit is None else f"   (must be < {limit} s: {'yes' if took < limit else 'MISSED'})"
        print(f"{name:<58}{1000 * took:>8.0f} ms{verdict}")
    return any(limit is not None and took >= limit for _, took, limit in rows)


def cpu_of(folder: Path, first: bool = False) -> float:
    """Return the CPU seconds that the server spends on a list; other programs on the machine do not count."""
    run = OpenedRun(folder, "large")
    for _ in range(1 if first else 2):
        begun = time.process_time()
        run.episodes({}, sort="episode", descending=False, offset=0, limit=200)
        took = time.process_time() - begun
    run.close()
    return took


def old(folder: Path, copy: Path) -> None:
    """The same ledger as an earlier agentgym wrote it, without summaries: how long until all are read."""
    import sqlite3

    copy.mkdir()
    shutil.copyfile(folder / "ledger.sqlite", copy / "ledger.sqlite")
    with closing(sqlite3.connect(copy / "ledger.sqlite")) as connection:
        connection.execute(f"DROP TABLE {TABLE}")
    begun = time.perf_counter()
    with closing(LedgerReader(copy / "ledger.sqlite")) as reader:
        reader.summarise()
        first, n_episodes = time.perf_counter() - begun, reader.count()
        while reader.summarise():
            pass
        print(
            f"an earlier agentgym's ledger: {n_episodes:,} listed after {first:.1f} s, all {reader.count():,} after "
            f"{time.perf_counter() - begun:.0f} s"
        )


def started(folder: Path) -> tuple[subprocess.Popen[Any], str]:
    """Start a viewer in a separate process, as a user does."""
    with listen(0) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-c",
        "from agentgym.cli import main; main()",
        "view",
        str(folder),
        "--port",
        str(port),
        "--no-open",
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    while True:
        try:
            httpx.get(f"{address}/page/icon.svg", trust_env=False).raise_for_status()
            return server, address
        except httpx.HTTPError:
            if server.poll() is not None:
                raise SystemExit("The viewer did not start.") from None
            time.sleep(0.05)


def timed(work: Callable[[], object]) -> float:
    """Seconds that it took."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def repeated(work: Callable[[], float]) -> float:
    """The median of a few."""
    return statistics.median(work() for _ in range(REPEATS))


if __name__ == "__main__":
    sys.exit(main())
