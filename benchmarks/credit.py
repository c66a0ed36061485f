"""The cost of credit: microseconds per group for every registered estimator, compared with bare numpy.

    python benchmarks/credit.py                    groups of 8 trajectories with up to 32 turns, 1,000 of them
    python benchmarks/credit.py --turns 8 --groups 200

Bare numpy is the arithmetic of leave-one-out credit on arrays that are already stacked. An estimator also checks its
signals and its result, removes failed trajectories and handles unequal lengths.
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
from figures import show_table
from rich.console import Console
from rich.table import Table

from agentgym import registry
from agentgym.credit import CreditWarning, Estimator, Group, estimator
from agentgym.errors import AgentGymError
from research.credit_bench.bifurcation import MAX_COALITION_TURNS, SIGNAL_MAKERS, BifurcationTask


def groups_of(chosen: Estimator, count: int, size: int, turns: int) -> list[Group]:
    """Return random groups with the signals that the estimator requires; every trajectory has `turns` turns."""
    rng = np.random.default_rng(0)
    policy = np.full(turns, 0.5)
    groups = []
    for number in range(count):
        task = BifurcationTask(turns, int(rng.integers(turns)), seed=number)
        group = task.group(
            task.sample(policy, size, rng, tree="branches" in chosen.requires), policy, rng, chosen.requires
        )
        groups.append(group)
    return groups


def bare(count: int, size: int, turns: int) -> Callable[[], None]:
    """Compute leave-one-out credit on arrays that are already stacked: only the arithmetic."""
    returns = [np.random.default_rng(number).random(size) for number in range(count)]

    def work() -> None:
        for values in returns:
            centred = size / (size - 1) * (values - values.mean())
            np.broadcast_to(centred[:, None], (size, turns)).copy()

    return work


def timed(work: Callable[[], None], repeats: int) -> float:
    """Return the median CPU seconds of a few runs; CPU time depends less on other processes than wall time."""
    seconds_of_runs = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        seconds_of_runs.append(time.process_time() - started)
    return statistics.median(seconds_of_runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--size", type=int, default=8, help="trajectories of a group")
    parser.add_argument("--turns", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--estimators", help="names with commas; by default all")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    arguments = parser.parse_args()
    names = arguments.estimators.split(",") if arguments.estimators else registry.names("estimators")
    console = Console(highlight=False)
    bare_seconds = timed(bare(arguments.groups, arguments.size, arguments.turns), arguments.repeats)
    table = Table(box=None, pad_edge=False, title_justify="left", title_style="")
    per_group = 1e6 * bare_seconds / arguments.groups
    sizes = f"{arguments.groups} groups of {arguments.size} x {arguments.turns}"
    table.title = f"{sizes}; bare numpy {per_group:.1f} us"
    for heading in ("Estimator", "us / group", "of bare numpy", f"{arguments.groups} groups, s"):
        table.add_column(heading, justify="left" if heading == "Estimator" else "right", no_wrap=True)
    figures = {}
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CreditWarning)
            chosen = estimator(name)
        if missing := [signal for signal in chosen.requires if signal not in SIGNAL_MAKERS]:
            console.print(f"{name}: skipped, it needs {', '.join(missing)}")
            continue
        turns = min(arguments.turns, MAX_COALITION_TURNS) if "counterfactuals" in chosen.requires else arguments.turns
        groups = groups_of(chosen, arguments.groups, arguments.size, turns)
        try:
            seconds = timed(
                lambda chosen=chosen, groups=groups: [None for group in groups if chosen(group) is None],
                arguments.repeats,
            )
        except AgentGymError as error:
            console.print(f"{name}: {error}", markup=False)
            continue
        figures[name] = 1e6 * seconds / arguments.groups
        note = "" if turns == arguments.turns else f"  ({turns} turns)"
        table.add_row(name + note, f"{figures[name]:.0f}", f"{seconds / bare_seconds:.0f} x", f"{seconds:.3f}")
    show_table(table)
    if arguments.out:
        arguments.out.write_text(
            json.dumps({"bare_us": 1e6 * bare_seconds / arguments.groups, "us": figures}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
