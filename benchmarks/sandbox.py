"""The cost of sandboxes: `python benchmarks/sandbox.py [--quick] [--only PART ...] [--peers VENVS] [--out DIR]`.

Medians of wall time, each with a limit or a peer that is measured in turn with it in the same run. The figures are for
a
machine on which nothing else runs: the load is shown, and a warning where it is too high. `make bench-peers` makes
the virtual environments of the peers (in .venv-peers), without which only those are measured that need none.
"""

from __future__ import annotations

import argparse
import asyncio
import compileall
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import sandbox_peers
from figures import keep_table
from rich.console import Console
from rich.table import Table
from sandbox_calls import calls, lives, pauses, throughput
from sandbox_docker import docker
from sandbox_files import files
from sandbox_many import flatness, rate
from sandbox_measuring import Row, announced
from sandbox_plot import draw

import agentgym.sandbox.guest

PARTS = ("life", "calls", "pauses", "throughput", "files", "docker", "rate", "many", "peers")
QUIET_LOAD = 0.5  # of all cores together; above it, figures of milliseconds are not to be trusted
WIDTH = 150  # where nobody watches
ALIVE = (1, 10, 100, 300, 1000)


@dataclass
class Figures:
    """All figures of one run."""

    rows: list[Row] = field(default_factory=list)
    costs: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    peers: dict[str, sandbox_peers.PeerFigures] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables. Returns: 0 if every target holds, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repeats: for a first look, not for figures")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"), help="folder of the peers' environments")
    parser.add_argument("--out", type=Path, help="write the figures, tables and plots into this folder")
    options = parser.parse_args(arguments)
    before = os.getloadavg()[0]
    figures = measure(options.only, options.quick, options.peers.resolve())
    figures.load = [before, os.getloadavg()[0]]
    show(figures, Console(width=None if sys.stdout.isatty() else WIDTH))
    if options.out:
        write(figures, options.out, options.quick)
    return 0 if all(row.holds for row in figures.rows) else 1


def measure(parts: Sequence[str], quick: bool, venvs: Path) -> Figures:
    """Measure every requested part in turn, with the guest's modules compiled as after an installation."""
    compileall.compile_dir(Path(agentgym.sandbox.guest.__file__).parent, quiet=1)
    figures, rounds = Figures(), 10 if quick else 100
    small = {"life": lives, "calls": calls, "pauses": pauses, "files": files, "docker": docker}
    fewer = {"pauses", "files"}
    for part, work in small.items():
        if part in parts:
            with announced(part):
                figures.rows += asyncio.run(work(max(rounds // 3, 6) if part in fewer else rounds))
            time.sleep(1)  # what the part before left for the kernel to do
    if "throughput" in parts:
        with announced("throughput"):
            figures.rows += asyncio.run(throughput(40 if quick else 400))
    if "rate" in parts:
        with announced("rate"):
            figures.rows += asyncio.run(rate(100 if quick else 1000))
        time.sleep(1)
    if "many" in parts:
        with announced("many"):
            rows, figures.costs = asyncio.run(flatness(ALIVE[:3] if quick else ALIVE, rounds))
            figures.rows += rows
    if "peers" in parts:
        with announced("peers"):
            figures.peers = sandbox_peers.measure(venvs, rounds=1 if quick else 5, repeats=2 if quick else 4)
    return figures


def show(figures: Figures, console: Console) -> None:
    """Print the rows and the peers as tables, and the machine's load during the run."""
    table = Table("", "median", "target", "", "beside, in the same run", "ratio", title="What sandboxes cost")
    for column in (1, 2, 5):
        table.columns[column].justify = "right"
    for row in figures.rows:
        if row.value is None:
            table.add_row(row.name, "", "", "", f"[dim]{row.note}")
            continue
        sign = ">=" if row.more_is_better else "<="
        target = "" if row.target is None else f"{sign} {row.target:g}"
        verdict = "" if row.target is None else "[green]holds[/]" if row.holds else "[red]missed[/]"
        beside = "" if row.beside_value is None else f"{row.beside}: {number(row.beside_value)}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        table.add_row(row.name, f"{number(row.value)} {row.unit}", target, verdict, beside or row.note, ratio)
    if figures.rows:
        console.print(table)
        keep_table(table)
    if figures.peers:
        peers = sandbox_peers.table_of(figures.peers)
        console.print(peers)
        keep_table(peers)
    cores = os.cpu_count() or 1
    console.print(
        f"{cores} cores, Linux {platform.release()}, Python {platform.python_version()}; load average "
        f"{figures.load[0]:.2f} before, {figures.load[1]:.2f} after (the benchmark itself makes some)"
    )
    if figures.load[0] > QUIET_LOAD * cores:
        console.print("[bold red]The machine was not quiet before the start: these figures say little.[/]")


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a table for docs/benchmarks.md."""
    lines = ["| what | median | target | beside, in the same run |", "|---|---|---|---|"]
    for row in rows:
        value = row.note if row.value is None else f"{number(row.value)} {row.unit}"
        target = "" if row.target is None else f"{row.target:g}{'' if row.holds else ', missed'}"
        beside = "" if row.beside_value is None else f"{row.beside}: {number(row.beside_value)}"
        lines.append(f"| {row.name.strip()} | {value} | {target} | {beside} |")
    return "\n".join(lines) if rows else ""


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def write(figures: Figures, folder: Path, quick: bool) -> None:
    """Write sandbox.json, sandbox.md, and the plots of a sandbox's cost against the number of live sandboxes."""
    folder.mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": figures.load,
        "quick": quick,
        "rows": [asdict(row) | {"holds": row.holds, "ratio": row.ratio} for row in figures.rows],
        "costs": figures.costs,
        "peers": sandbox_peers.as_data(figures.peers),
    }
    path, text = folder / "sandbox.json", folder / "sandbox.md"
    path.write_text(json.dumps(data, indent=1))
    text.write_text("\n\n".join(filter(None, [markdown(figures.rows), sandbox_peers.markdown(figures.peers)])) + "\n")
    drawn = draw(figures.costs, folder) if figures.costs else []
    print(f"written: {', '.join(map(str, [path, text, *drawn]))}")


if __name__ == "__main__":
    sys.exit(main())
