"""Does a run that is killed lose, double or change anything? `python benchmarks/kills.py [--kills 60] [--quick]`.

An evaluation and a training are each run once undisturbed; other runs of them are killed again and again (SIGKILL, at
random times) and started again by the same command. Episodes of the undisturbed run that another lacks are lost; turns
that a ledger holds twice are doubled; and the evaluations, and the metrics of every step, have to be equal in every
bit. Each result that differs is printed with both values, and the folders of such a run are kept. Two thirds of the
kills are the evaluation's. `--quick` kills each once. Exit status 0 if nothing was lost, doubled or changed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder

TASKS = "sql/session-v1:validation"
SMALL = {
    "warm_start.demonstrations": 16,
    "warm_start.steps": 4,
    "warm_start.validate_every": 4,
    "warm_start.validate_tasks": 4,
    "train.steps": 6,
    "train.tasks_per_step": 2,
    "train.group_size": 2,
    "train.save_every": 1,
    "train.validate_every": 3,
    "train.validate_tasks": 4,
    "reward.also": '["overlong"]',  # varies from the first step on, so that the weights move
    "reward.options.overlong.limit": 128,
    "reward.options.overlong.margin": 128,
    "evaluate.tasks": 6,
    "machine.threads": 1,
}
KILLS_EACH = 5
"""The largest number of kills of one run: each start leaves less of the run to play."""
CLOCKS = ("time", "_s", "seconds", "per_s", "mib", "pace/", "cpu", "wall")
"""Parts of the names of figures that differ between any two runs."""


@dataclass(frozen=True)
class Subject:
    """A command that is killed. `resume_options`: options that make it continue in an existing folder."""

    name: str
    command: Sequence[str]
    resume_options: Sequence[str] = ()

    def start(self, folder: Path) -> subprocess.Popen[bytes]:
        words = [
            *self.command,
            "--out",
            str(folder),
            *(self.resume_options if (folder / "recipe.toml").exists() else ()),
        ]
        return subprocess.Popen(
            [sys.executable, "-m", "agentgym", *words],
            stdout=subprocess.DEVNULL,
            stderr=(folder.parent / f"{folder.name}.err").open("wb"),
            start_new_session=True,
        )

    def run(self, folder: Path) -> float:
        """Run undisturbed. Returns: the seconds that it took. Raises: RuntimeError with its output if it fails."""
        started = time.monotonic()
        if self.start(folder).wait():
            raise RuntimeError(f"{self.name}: {(folder.parent / f'{folder.name}.err').read_text()[-2000:]}")
        return time.monotonic() - started


def kill_and_restart(
    subject: Subject, folder: Path, kills: int, length_s: float, rng: random.Random
) -> tuple[int, float]:
    """Kill a run at random times and start it again, until it has ended or was killed often enough; then let it end.

    Args:
        length_s: the seconds that the run takes undisturbed.
    Returns: how often it was killed, and the seconds of a run: fewer than `length_s` if this one ended before a kill.
    """
    hit = 0
    while hit < kills:
        started, process = time.monotonic(), subject.start(folder)
        try:
            process.wait(rng.uniform(0.1, 0.7) * length_s)
            length_s = length_s if hit else time.monotonic() - started
            break  # it has ended: nothing is left to kill
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            hit += 1
    subject.run(folder)
    return hit, length_s


def episodes(folder: Path) -> dict[str, list[str]]:
    """Return the messages of each finished episode of a run, by id."""
    with contextlib.closing(LedgerReader(folder / "ledger.sqlite")) as reader:
        return {name: [turn.message.written for turn in reader.load(name).turns] for name in reader.finished()}


def doubled(folder: Path) -> int:
    """Return how many turns the ledger holds more than once: by episode and number."""
    with contextlib.closing(LedgerReader(folder / "ledger.sqlite")) as reader:
        indices = [(name, turn.index) for name in reader.finished() for turn in reader.load(name).turns]
    return sum(count - 1 for count in Counter(indices).values())


def results(folder: Path) -> dict[str, Any]:
    """Return the success of each task in each evaluation, and the metrics of each step without clocks."""
    rows: dict[str, Any] = {}
    for file in sorted((folder / "evaluation").glob("*.json")):
        data = json.loads(file.read_text(encoding="utf-8"))
        rows |= {f"{file.stem}/{row['task']}": row["success"] for row in data["rows"]}
    for row in RunFolder(folder).metrics():
        figures = {name: value for name, value in row.items() if not any(part in name for part in CLOCKS)}
        rows[f"{row['phase']}/{row['step']}"] = figures  # a resumed run logs the steps after its checkpoint again
    return rows


def differing(expected: dict[str, Any], got: dict[str, Any]) -> Iterator[str]:
    """Describe each result that is not as `expected`: its name, and each figure with both values."""
    for name, value in expected.items():
        other = got.get(name)
        if not (isinstance(value, dict) and isinstance(other, dict)):
            if other != value:
                yield f"{name}: {value} undisturbed, {other} killed"
            continue
        for figure in sorted(value.keys() | other.keys()):
            first, second = value.get(figure), other.get(figure)
            if first != second:
                yield f"{name} {figure}: {first} undisturbed, {second} killed"


def main() -> int:
    """Kill both, print, and return 1 if anything was lost, doubled or changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("evaluation", "training"), help="kill this one alone")
    parser.add_argument("--quick", action="store_true", help="one kill of each, of shorter runs")
    options = parser.parse_args()
    kills = {"evaluation": options.kills - options.kills // 3, "training": options.kills // 3}
    if options.only:
        kills = {"evaluation": 0, "training": 0} | {options.only: options.kills}
    limit, settings = "200", dict(SMALL)
    if options.quick:
        kills, limit, settings = {name: min(n, 1) for name, n in kills.items()}, "8", settings | {"train.steps": 2}
    subjects = [
        Subject("evaluation", ["eval", TASKS, "--policy", "oracle", "--limit", limit, "--concurrency", "2"]),
        Subject(
            "training",
            ["train", "quickstart", *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))],
            ["--resume"],
        ),
    ]
    table, faults = Table("run", "runs", "kills", "episodes of one", "lost", "doubled", "results"), 0
    with contextlib.ExitStack() as stack:
        scratch = tempfile.mkdtemp(prefix="kills-")
        stack.callback(shutil.rmtree, scratch)
        for subject in filter(lambda subject: kills[subject.name], subjects):
            undisturbed, rng = Path(scratch) / f"{subject.name}-undisturbed", random.Random(options.seed)
            length_s, runs, hit, lost, twice, wrong = subject.run(undisturbed), 0, 0, 0, 0, 0
            expected, right = episodes(undisturbed), results(undisturbed)
            while hit < kills[subject.name]:
                folder = Path(scratch) / f"{subject.name}-{runs}"
                most = min(KILLS_EACH, kills[subject.name] - hit)
                killed, length_s = kill_and_restart(subject, folder, most, length_s, rng)
                hit += killed
                of_killed, came_to, runs = episodes(folder), results(folder), runs + 1
                lost += len(expected.keys() - of_killed.keys())
                twice += doubled(folder) + len(of_killed.keys() - expected.keys())
                differ = list(differing(right, came_to))
                if differ:
                    stack.pop_all()
                    print(*differ, f"kept: {undisturbed} and {folder}", sep="\n", flush=True)
                wrong += len(differ)
                print(f"{subject.name}: {hit} of {kills[subject.name]} kills in {runs} runs", flush=True)
            faults += lost + twice + wrong
            equal = f"{wrong} differ" if wrong else "equal"
            table.add_row(subject.name, *map(str, (runs, hit, len(expected), lost, twice)), equal)
    Console(soft_wrap=True).print(table)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
