"""Every task of MiniWoB++ in real Chromium: does it open, reset to the same page, and give the right reward?

Each task is opened twice with one seed (the same request and tree?), played by its scripted player (is the reward
full?), and, in a fresh episode, played wrongly (is it 0 or less?). Run by `make gui-full`.

    python benchmarks/gui_full.py [NAME ...] [--seeds 2] [--at-once 1 8]

With several numbers after `--at-once`, all is done with each number of episodes at once, and different verdicts are
listed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass, field

from miniwob_players import PLAYERS, Page, Stuck, Unclear, environment_of
from miniwob_players.elements import PAYING, SUBMIT

from agentgym import Environment, Message, Task, make
from agentgym.errors import AgentGymError
from agentgym.registry import close_backends
from agentgym.sandboxes.gui import close_browsers
from agentgym.sandboxes.gui.parameters import miniwob_folder

FULL = 0.9
"""The least reward that counts as right: a few pages reward closeness to a point or moment, up to a pixel.
"""
CHOICES = tuple(
    f"[...document.querySelectorAll('#area button, #area svg circle, #area svg rect, #area .file, #area td')]"
    f".filter(e => e.getBoundingClientRect().width)[{index}]"
    for index in (0, 1, 2)
)
"""The first things on a page that may be a choice."""


@dataclass
class PageReport:
    """The results of one task. `right`, `wrong`: the page's pay for each player; `problem`: why a player was stuck."""

    name: str
    opens: bool = False
    same: bool = False
    right: list[float | None] = field(default_factory=list)
    wrong: float | None = None
    problem: str = ""

    @property
    def verdicts(self) -> list[bool]:
        """Return whether each episode was paid in full, and whether the wrong action was paid."""
        return [(reward or 0.0) >= FULL for reward in self.right] + [(self.wrong or 0.0) > 0]

    def __str__(self) -> str:
        paid = " ".join("-" if reward is None else f"{reward:.3g}" for reward in self.right) or "no player"
        opened = f"{self.name:28} opens {self.opens!s:5} same {self.same!s:5}"
        return f"{opened} right {paid:12} wrong {self.wrong} {self.problem}"


async def opened(environment: Environment, name: str, seed: int) -> list[Message]:
    task = Task(name, environment_of(name), "Do.", parameters={"site": "miniwob", "page": name, "seed": seed})
    return list(await environment.reset(task, seed=0))


async def play_wrongly(page: Page) -> None:
    """Do something that a page should not reward: something that its handlers punish, or sending a form unchanged."""
    for element in (PAYING % r"/endEpisode\(\s*-1(\.0)?\s*[,)]/", SUBMIT, *CHOICES):
        if page.reward is None and await page.js(f"!!({element})"):
            await page.click(element)


async def play_rightly(environment: Environment, report: PageReport, episodes: int) -> None:
    """Let the task's player play episodes with the seeds 1, 2, ...; episodes with unclear requests do not count."""
    for seed in range(1, 3 * episodes):
        if len(report.right) == episodes:
            return
        page = Page(environment, await opened(environment, report.name, seed))
        try:
            await PLAYERS[report.name](page)
        except Unclear:
            continue
        except (Stuck, LookupError, ValueError, StopIteration) as error:  # the page is not what was expected
            report.problem = f"{type(error).__name__}: {error}"[:160]
        report.right.append(page.reward)


async def look_at(name: str, seeds: int, gate: asyncio.Semaphore) -> PageReport:
    report = PageReport(name)
    async with gate:
        environment = make(environment_of(name), max_chars=20_000)
        try:
            first = await opened(environment, name, 1)
            report.opens = len(first[-1].text.splitlines()) > 2
            report.same = await opened(environment, name, 1) == first
            if name in PLAYERS:
                await play_rightly(environment, report, seeds)
            page = Page(environment, await opened(environment, name, 1))
            try:
                await play_wrongly(page)
            except Stuck as error:
                report.problem = report.problem or str(error)[:160]
            report.wrong = page.reward
        except AgentGymError as error:
            report.problem = f"{type(error).__name__}: {error}"[:200]
        finally:
            await environment.close()
    return report


async def run(names: list[str], seeds: int, at_once: int) -> list[PageReport]:
    """Check each task, and print its results when it is done. Returns: the reports, in the order of the names."""
    gate = asyncio.Semaphore(at_once)

    async def looked_at(name: str) -> PageReport:
        report = await look_at(name, seeds, gate)
        print(report, flush=True)
        return report

    try:
        return await asyncio.gather(*map(looked_at, names))
    finally:
        await close_browsers()
        await close_backends()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="tasks; all by default")
    parser.add_argument("--seeds", type=int, default=2, help="episodes that each player plays")
    parser.add_argument("--at-once", type=int, nargs="+", default=[4], help="episodes at once; several are compared")
    arguments = parser.parse_args()
    names = arguments.names or sorted(path.stem for path in (miniwob_folder() / "miniwob").glob("*.html"))
    runs = [asyncio.run(run(names, arguments.seeds, at_once)) for at_once in arguments.at_once]
    for at_once, rows in zip(arguments.at_once, runs, strict=True):
        print_counts(rows, at_once)
    if len(runs) > 1:
        differing = [reports for reports in zip(*runs, strict=True) if len({str(r.verdicts) for r in reports}) > 1]
        count = sum(len(report.verdicts) for report in runs[0])
        print(f"\n{count} episodes, {' and '.join(map(str, arguments.at_once))} at once: {len(differing)} tasks differ")
        for reports in differing:
            print("\n".join(map(str, reports)))
    return 0


def print_counts(rows: list[PageReport], at_once: int) -> None:
    solved = [row for row in rows if row.right and all((reward or 0.0) >= FULL for reward in row.right)]
    punished = [row for row in rows if row.wrong is not None and row.wrong <= 0]
    paid = {row.name for row in solved} | {row.name for row in punished}
    print(f"\n{len(rows)} tasks, {at_once} at once: {sum(row.opens for row in rows)} open")
    print(f"{sum(row.same for row in rows)} reset to the same page")
    print(f"{len(solved)} pay their player in every episode, {len(punished)} pay a wrong action 0 or less")
    print(f"{len(paid)} pay the right reward to at least one of the two")


if __name__ == "__main__":
    sys.exit(main())
