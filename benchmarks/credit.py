"""What credit costs: microseconds a group for every registered estimator, beside bare numpy and one forward pass.

    python benchmarks/credit.py                    groups of 8 trajectories with up to 32 turns, 1,000 of them
    python benchmarks/credit.py --turns 8 --groups 200

The limit is the arithmetic of leave-one-out credit in plain numpy on arrays that are already there. An estimator
also checks its signals and its result, takes failed trajectories out and spreads over unequal lengths.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from agentgym import registry
from agentgym.credit import CreditWarning, Estimator, Group, estimator
from agentgym.credit.bench.bifurcation import MAX_COALITION_TURNS, SIGNAL_MAKERS, BifurcationTask
from agentgym.errors import AgentGymError


def groups_of(chosen: Estimator, count: int, size: int, turns: int) -> list[Group]:
    """Random groups with what the estimator requires; all of `turns` turns."""
    rng = np.random.default_rng(0)
    policy = np.full(turns, 0.5)
    made = []
    for number in range(count):
        task = BifurcationTask(turns, int(rng.integers(turns)), seed=number)
        whole = task.group(
            task.play(policy, size, rng, tree="branches" in chosen.requires), policy, rng, chosen.requires
        )  # fmt: skip
        made.append(whole)
    return made


def bare(count: int, size: int, turns: int) -> Callable[[], None]:
    """Leave-one-out on arrays that are already stacked: the arithmetic and nothing else."""
    returns = [np.random.default_rng(number).random(size) for number in range(count)]

    def work() -> None:
        for values in returns:
            centred = size / (size - 1) * (values - values.mean())
            np.broadcast_to(centred[:, None], (size, turns)).copy()

    return work


def timed(work: Callable[[], None], repeats: int) -> float:
    """Median CPU seconds of a few runs: what others do on the machine counts less."""
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--size", type=int, default=8, help="trajectories of a group")
    parser.add_argument("--turns", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--estimators", help="names with commas; by default all")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    asked = parser.parse_args()
    names = asked.estimators.split(",") if asked.estimators else registry.names("estimators")
    console = Console(highlight=False)
    limit = timed(bare(asked.groups, asked.size, asked.turns), asked.repeats)
    table = Table(box=None, pad_edge=False, title_justify="left", title_style="")
    table.title = (
        f"{asked.groups} groups of {asked.size} x {asked.turns}; bare numpy {1e6 * limit / asked.groups:.1f} us"
    )
    for head in ("Estimator", "us / group", "of bare numpy", f"{asked.groups} groups, s"):
        table.add_column(head, justify="left" if head == "Estimator" else "right", no_wrap=True)
    figures = {}
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CreditWarning)
            chosen = estimator(name)
        if missing := [signal for signal in chosen.requires if signal not in SIGNAL_MAKERS]:
            console.print(f"{name}: skipped, it needs {', '.join(missing)}")
            continue
        turns = min(asked.turns, MAX_COALITION_TURNS) if "counterfactuals" in chosen.requires else asked.turns
        made = groups_of(chosen, asked.groups, asked.size, turns)
        try:
            seconds = timed(
                lambda chosen=chosen, made=made: [None for one in made if chosen(one) is None], asked.repeats
            )
        except AgentGymError as error:
            console.print(f"{name}: {error}", markup=False)
            continue
        figures[name] = 1e6 * seconds / asked.groups
        note = "" if turns == asked.turns else f"  ({turns} turns)"
        table.add_row(name + note, f"{figures[name]:.0f}", f"{seconds / limit:.0f} x", f"{seconds:.3f}")
    console.print(table)
    if asked.out:
        asked.out.write_text(json.dumps({"bare_us": 1e6 * limit / asked.groups, "us": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
