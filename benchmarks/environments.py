"""How fast environments step, compared with the bare engine that each wraps, and whether memory grows with episodes.

`python benchmarks/environments.py [--only sql,code,search,text] [--seconds 2] [--episodes 10000] [--out FOLDER]`

Every part is a file `environments_<part>.py` with one function, `measure(budget_s) -> list[Row]`; its rows are taken
in one run. CPU seconds count, of this process and of sandboxes, so that a busy machine changes little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from environments_row import Row

from agentgym import EpisodeManager, ScriptedPolicy, load_task_set

HERE = Path(__file__).parent
GROWTH_LIMIT_KIB = 100.0  # per thousand episodes


def parts() -> list[str]:
    """Return the names of the available parts."""
    names = (path.stem.removeprefix("environments_") for path in HERE.glob("environments_*.py"))
    return sorted(name for name in names if name != "row")


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| environment | per CPU-second | beside, in the same run | ratio |", "|---|---|---|---|"]
    for row in rows:
        ratio = f"{row.ratio:.3g}" if row.against else ""
        lines.append(f"| {row.name} | {row.per_cpu_second:,.0f} | {row.against} | {ratio} |")
    return "\n".join(lines)


async def memory(episodes: int, every: int) -> list[tuple[int, float]]:
    """Play episodes in this process with an oracle and a judge. Returns: (episodes played, resident MiB), in order."""
    task_set = load_task_set("sql/schemas-inprocess-v1")
    oracle = task_set.oracle
    assert oracle is not None
    manager = EpisodeManager(lambda task: ScriptedPolicy(oracle(task)))
    tasks, samples = task_set["train"], []
    for start in range(0, episodes, every):
        chosen = [tasks[(start + offset) % len(tasks)] for offset in range(every)]
        trajectories = await manager.collect(chosen)
        if any(trajectory.success != 1.0 for trajectory in trajectories):
            raise RuntimeError("The oracle did not solve every task: what is measured is not the usual path.")
        del trajectories
        gc.collect()
        samples.append((start + every, _resident_mib()))
    return samples


def growth_kib(samples: Sequence[tuple[int, float]]) -> float:
    """Return KiB per thousand episodes: the least-squares slope over the second half, when caches are full."""
    late = samples[len(samples) // 2 :]
    count = len(late)
    mean_x, mean_y = sum(x for x, _ in late) / count, sum(y for _, y in late) / count
    spread = sum((x - mean_x) ** 2 for x, _ in late)
    return sum((x - mean_x) * (y - mean_y) for x, y in late) / spread * 1024 * 1000 if spread else 0.0


def drawing(samples: Sequence[tuple[int, float]]) -> str:
    """Return a plot of resident memory over episodes, as SVG."""
    top, right = max(y for _, y in samples) * 1.1, samples[-1][0]
    points = " ".join(f"{60 + 520 * x / right:.1f},{260 - 220 * y / top:.1f}" for x, y in samples)
    marks = "".join(
        f'<text x="52" y="{264 - 220 * share:.0f}" text-anchor="end">{top * share:.0f}</text>'
        f'<line x1="60" x2="580" y1="{260 - 220 * share:.0f}" y2="{260 - 220 * share:.0f}" stroke="#ddd"/>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 300" font-family="sans-serif" font-size="11">'
        f'<rect width="600" height="300" fill="white"/>{marks}'
        f'<polyline points="{points}" fill="none" stroke="#2a6f97" stroke-width="2"/>'
        f'<text x="60" y="24">resident MiB, {growth_kib(samples):+.1f} KiB per 1,000 episodes in the second half</text>'
        f'<text x="580" y="284" text-anchor="end">{right:,} episodes</text></svg>\n'
    )


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(parts()), help="parts, separated by commas: %(default)s")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU seconds for each row, about")
    parser.add_argument("--episodes", type=int, default=10_000, help="of the memory run; 0 leaves it out")
    parser.add_argument("--out", type=Path, help="folder for the picture of the memory run")
    options = parser.parse_args()
    parts_to_run = [name for name in options.only.split(",") if name]
    if unknown := set(parts_to_run) - set(parts()):
        parser.error(f"no part is named {', '.join(sorted(unknown))}; there are {', '.join(parts())}")
    for name in parts_to_run:
        rows = importlib.import_module(f"environments_{name}").measure(options.seconds)
        print(f"\n## {name}\n\n{table(rows)}", flush=True)
    if not options.episodes:
        return 0
    samples = asyncio.run(memory(options.episodes, max(1, options.episodes // 40)))
    growth = growth_kib(samples)
    first, last = samples[0], samples[-1]
    print(f"\nMemory: {first[1]:.1f} MiB after {first[0]} episodes, {last[1]:.1f} after {last[0]},")
    print(f"{growth:+.1f} KiB per 1,000 episodes in the second half (limit {GROWTH_LIMIT_KIB:g}).")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "memory.svg").write_text(drawing(samples), encoding="utf-8")
    return int(growth > GROWTH_LIMIT_KIB)


if __name__ == "__main__":
    raise SystemExit(main())
