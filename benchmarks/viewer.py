"""How long the viewer takes with a run of 100,000 episodes, an episode of 200 turns and 200 runs, in a real Chromium.

    python benchmarks/viewer.py [--episodes 100000] [--turns 200] [--runs 200] [--keep FOLDER] [--old] [--quick]

The ledger is written by the same code as in training, with made-up episodes of 3 turns. The runs of the table have 400
logged steps, two evaluations of 100 tasks and 64 episodes each. Every figure is the median of several fresh pages;
"cold" is the first answer of a server that has just started. Needs Chromium, and playwright.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
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
from viewer_runs import build, build_runs

from agentgym.storage.reader import LedgerReader
from agentgym.storage.summary import TABLE
from agentgym.viewer.application import Viewer
from agentgym.viewer.opened_run import OpenedRun
from agentgym.viewer.serving import listen

REPEATS = 5
LIST_LIMIT_S, EPISODE_LIMIT_S, FILTER_LIMIT_S = 1.0, 0.5, 0.2
CHANGE = """async ([control, text, body]) => {
  const element = document.querySelector(control), shown = () => document.querySelector(body).textContent;
  const [before, begun] = [shown(), performance.now()];
  if (text === null) element.click();
  else { element.value = text; element.dispatchEvent(new Event("input")); }
  while (shown() === before) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return (performance.now() - begun) / 1000;
}"""
"""Operate a control of the page, and return the seconds until its table has changed and is drawn."""
Rows = list[tuple[str, float, float | None]]
"""What was measured, its seconds, and its limit."""


def main() -> int:
    """Build the run, measure, print; 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="measure 50 episodes, 5 turns and 3 runs")
    parser.add_argument("--keep", type=Path, help="where the run is, or is made and kept")
    parser.add_argument("--old", action="store_true", help="measure also a ledger without summaries (a minute)")
    options = parser.parse_args()
    if options.quick:
        options.episodes, options.turns, options.runs = 50, 5, 3
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch) / "large"
        if not (folder / "ledger.sqlite").is_file():
            started = time.perf_counter()
            asyncio.run(build(folder, options.episodes, options.turns))
            print(f"wrote {options.episodes:,} episodes in {time.perf_counter() - started:.0f} s")
        size = (folder / "ledger.sqlite").stat().st_size
        print(f"ledger of {size / 2**20:,.0f} MiB")
        missed = printed(episodes_in_a_browser(folder, options))
        asyncio.run(build_runs(Path(scratch) / "runs", options.runs))
        missed |= printed(runs_in_a_browser(Path(scratch) / "runs", options))
        if options.old:
            old(folder, Path(scratch) / "old")
    return int(missed)


def chromium_of(playwright: Any) -> Any:
    """Start the installed Chromium."""
    chromium = os.environ.get("AGENTGYM_CHROMIUM") or shutil.which("chromium")
    return playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


def runs_in_a_browser(folder: Path, options: argparse.Namespace) -> Rows:
    """Measure the table of runs with three servers that have just started."""
    from playwright.sync_api import sync_playwright

    measured = []
    with sync_playwright() as playwright, closing(chromium_of(playwright)) as browser:
        for _ in range(3):
            server, address = started(folder)
            try:
                page = browser.new_page()
                measured.append(table_of_runs(page, address, options.runs))
                page.close()
            finally:
                server.terminate()
                server.wait()
    names = (
        (f"table of {options.runs} runs, in the browser, cold", LIST_LIMIT_S),
        ("  until every run's figures are in it", None),
        ("  the same page again", LIST_LIMIT_S),
        ("  filtered by a text", FILTER_LIMIT_S),
        ("  sorted by name", FILTER_LIMIT_S),
        ("  the server's answer, of all runs", None),
    )
    medians = map(statistics.median, zip(*measured, strict=True))
    rows = [(name, seconds, limit) for (name, limit), seconds in zip(names, medians, strict=True)]
    cold, later = cpu_of_runs(folder)
    return [*rows, ("  CPU of reading all runs", cold, None), ("  CPU of the server's answer after that", later, None)]


def table_of_runs(page: Any, address: str, runs: int) -> list[float]:
    """Return the seconds of the first page, of all its figures, of a later page, a filter, a sort and an answer."""

    def load() -> None:
        page.goto(address)
        page.locator("table.runs tbody tr").nth(runs - 1).wait_for()
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def reload() -> None:
        page.goto("about:blank")
        load()

    body, texts = "table.runs tbody", itertools.cycle(("2", ""))
    begun = time.perf_counter()
    first = timed(load)
    while page.locator("table.runs tr.broken").count():
        page.wait_for_timeout(20)
    complete = time.perf_counter() - begun
    later = repeated(lambda: timed(reload))
    sorting = repeated(lambda: page.evaluate(CHANGE, ["table.runs th:nth-child(2) button", None, body]))
    filtering = repeated(lambda: page.evaluate(CHANGE, ["input[type=search]", next(texts), body]))
    with closing(httpx.Client(base_url=address, trust_env=False)) as client:
        answer = repeated(lambda: timed(lambda: client.get("/api/runs").raise_for_status()))
    return [first, complete, later, filtering, sorting, answer]


def episodes_in_a_browser(folder: Path, options: argparse.Namespace) -> Rows:
    """Measure the list and the long episode."""
    from playwright.sync_api import sync_playwright

    long = "long%2Ftrain%2Flong%230"
    listing = f"#/run/{folder.name}/episodes"
    busy: list[float] = []  # CPU seconds of the page's main thread
    server, address = started(folder)
    try:
        with closing(httpx.Client(base_url=address, trust_env=False)) as client, sync_playwright() as playwright:
            cold = timed(lambda: client.get(f"/api/runs/{folder.name}/episodes").raise_for_status())
            browser = chromium_of(playwright)

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
            page = browser.new_page()
            page.goto(f"{address}/{listing}")
            page.locator("tr.active").wait_for()
            body = "table.episodes tbody"

            def changed(control: str, texts: tuple[str | None, ...] = (None,)) -> float:
                inputs = itertools.cycle(texts)
                return repeated(lambda: page.evaluate(CHANGE, [control, next(inputs), body]))

            ordered = changed("table.episodes th:nth-child(4) button")
            choices = itertools.cycle((".choices button:nth-child(3)", ".choices button:nth-child(2)"))
            filtered = repeated(lambda: page.evaluate(CHANGE, [next(choices), None, body]))
            searched = changed("input[type=search]", ("train/00", ""))
            browser.close()
    finally:
        server.terminate()
        server.wait()
    return [
        (f"list of {options.episodes:,} episodes, in the browser", listed, LIST_LIMIT_S),
        ("  of it CPU of the page's main thread", listing_busy, None),
        ("  CPU of the server's answer, cold", cpu_of(folder, first=True), None),
        ("  CPU of the server's answer, the same list again", cpu_of(folder), None),
        ("  the server's first answer, cold", cold, None),
        ("  the server's answer", answer, None),
        ("  the server's answer, filtered by outcome and failure, sorted", narrowed, None),
        ("  filtered by outcome, in the browser", filtered, FILTER_LIMIT_S),
        ("  filtered by a text that is typed", searched, FILTER_LIMIT_S),
        ("  sorted by reward", ordered, FILTER_LIMIT_S),
        (f"episode of {options.turns} turns, from the list to its last turn", seconds, EPISODE_LIMIT_S),
        ("  of it CPU of the page's main thread", statistics.median(busy), None),
        ("  by its address in a fresh page", fresh, None),
        ("  the server's answer", read, None),
    ]


def printed(rows: Rows) -> bool:
    """Print what was measured. Returns whether a limit was missed."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processor(s)")
    for name, took, limit in rows:
        verdict = "" if limit is None else f"   (must be < {limit:g} s: {'yes' if took < limit else 'MISSED'})"
        print(f"{name:<62}{1000 * took:>8.0f} ms{verdict}")
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


def cpu_of_runs(folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of the answers until all runs are read, and of one answer after that."""
    viewer = Viewer([folder])
    begun = time.process_time()
    while any("unread" in run for run in viewer.summaries()):
        pass
    read = time.process_time()
    viewer.summaries()
    took = time.process_time() - read
    viewer.close()
    return read - begun, took


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
