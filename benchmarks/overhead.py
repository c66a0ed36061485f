"""The cost of agentgym itself: `python benchmarks/overhead.py [--quick] [--json FILE] [--against CHECKOUT]`.

One process, a scripted policy, episodes of eight tool calls and a submit on an in-memory counter. Rates are per
CPU-second of this process, the best of several rounds (others may use the machine); only the latency row is wall time.
A bare Python loop and gymnasium, taken in the same run, say how fast the machine is. With --against, each row is
compared with that of another checkout instead (see against.py).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from checkouts import checkout
from figures import show_table
from rich.table import Table

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task
from agentgym.messages import Call, Message
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer, Counter, TargetReached

CALLS = 8
TURNS = CALLS + 1
LATENCY_S, LATENCY_CONCURRENCY = 0.2, 64
CONCURRENCIES = (10, 100, 1_000, 10_000)
FLAT_WITHIN = 2.0  # between ten episodes and ten thousand: the rest is the processor's cache and the collector


@dataclass(frozen=True)
class Row:
    """One figure, and the target it must reach; `more_is_better` says in which direction."""

    name: str
    value: float
    unit: str
    target: float | None = None
    more_is_better: bool = True

    @property
    def holds(self) -> bool:
        return self.target is None or (self.value >= self.target if self.more_is_better else self.value <= self.target)


def main() -> int:
    """Measure everything, print a table. Returns: 0 if every target holds, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: for a first look, not for figures")
    parser.add_argument("--against", type=checkout, metavar="CHECKOUT", help="compare each row with another checkout")
    parser.add_argument("--only", default="", metavar="TEXT", help="with --against: the rows whose name contains this")
    options = parser.parse_args()
    if options.against and not (options.against / "agentgym").is_dir():
        parser.error(f"--against {options.against}: there is no checkout of agentgym.")
    if options.against:
        return compare_with(
            options.against, rounds=1 if options.quick else 3, only=options.only, json_path=options.json
        )
    size = 0.1 if options.quick else 1.0
    rows = measure(size, rounds=1 if options.quick else 3)
    show(rows)
    if options.json:
        data = {"python": platform.python_version(), "machine": platform.machine(), "quick": options.quick}
        options.json.write_text(json.dumps(data | {"rows": [asdict(r) | {"holds": r.holds} for r in rows]}, indent=1))
    return 0 if all(row.holds for row in rows) else 1


def compare_with(checkout: Path, *, rounds: int, only: str, json_path: Path | None) -> int:
    """Compare each row with another checkout's, print a table. Returns: 0 if no row is slower, else 1."""
    import against  # beside this file

    comparisons = against.compare(checkout, rounds=rounds, only=only)
    table = Table(title=f"Speed of this checkout over {checkout}")
    for column in ("measured", "this, best", "other, best", "ratio", "median ratio", ""):
        table.add_column(column, justify="left" if column in ("measured", "") else "right")
    for c in comparisons:
        best = max if c.is_rate else min
        verdict = "[green]holds[/]" if c.holds else f"[red]under {against.NO_SLOWER}[/]"
        figures = (f"{best(c.this):,.4g}", f"{best(c.other):,.4g}", f"{c.ratio:.3f}", f"{c.median_ratio:.3f}")
        table.add_row(c.name, *figures, verdict)
    show_table(table)
    if json_path:
        rows = [asdict(c) | {"ratio": c.ratio, "median_ratio": c.median_ratio, "holds": c.holds} for c in comparisons]
        json_path.write_text(json.dumps({"python": platform.python_version(), "rows": rows}, indent=1))
    return 0 if all(c.holds for c in comparisons) else 1


def measure(size: float, rounds: int) -> list[Row]:
    """Measure every figure. `size` scales the number of steps and episodes; the targets are for 1.0."""
    steps, episodes = int(200_000 * size), int(2_000 * size)
    best: Callable[[Callable[[], float]], float] = lambda once: max(once() for _ in range(rounds))  # noqa: E731
    bare = best(lambda: bare_loop(steps))
    rows = [Row("a bare Python loop over the counter", bare, "steps / CPU-s")]
    if (gym := best(lambda: gymnasium_steps(steps))) > 0:
        rows.append(Row("gymnasium Env.step of the same counter", gym, "steps / CPU-s"))
    calls = best(lambda: environment_calls(steps))
    recorded = best(lambda: episodes_played(episodes))
    exact = best(lambda: episodes_played(episodes, tokens=True))
    ledger_episodes = best(lambda: episodes_kept(episodes))
    kept_exact = best(lambda: episodes_kept(episodes, tokens=True))
    rows += [
        Row("environment calls", calls, "steps / CPU-s", 250_000),
        Row("episode manager, recorded", recorded, "turns / CPU-s", 20_000),
        Row("episode manager, recorded token by token", exact, "turns / CPU-s", 20_000),
        Row("the same with the ledger", ledger_episodes, "turns / CPU-s", 8_000),
        Row("the same with the ledger, token by token", kept_exact, "turns / CPU-s", 8_000),
        Row("environment call / bare loop step", bare / calls, "x the CPU time"),
        Row("recorded turn / bare loop step", bare / recorded, "x the CPU time"),
    ]
    if gym > 0:
        rows.append(Row("environment call / gymnasium step", gym / calls, "x the CPU time"))
    waves = max(1, int(4 * size))
    ratio = latency_ratio(waves)
    rows.append(Row(f"{LATENCY_S} s tools at concurrency {LATENCY_CONCURRENCY}", ratio, "x the ideal", 1.1, False))
    costs = [min(turn_cost(n, max(n, episodes * 5)) for _ in range(rounds)) for n in CONCURRENCIES]
    rows += [
        Row(f"a turn at {n:,} episodes at once", c * 1e6, "CPU-us") for n, c in zip(CONCURRENCIES, costs, strict=True)
    ]
    rows.append(Row("dearest / cheapest of these", max(costs) / min(costs), "x", FLAT_WITHIN, False))
    return rows


def show(rows: list[Row]) -> None:
    table = Table(title="What agentgym itself costs")
    for column in ("measured", "value", "unit", "target", ""):
        table.add_column(column, justify="right" if column in ("value", "target") else "left")
    for row in rows:
        sign = ">=" if row.more_is_better else "<="
        target = "" if row.target is None else f"{sign} {row.target:,g}"
        verdict = "" if row.target is None else "[green]holds[/]" if row.holds else "[red]missed[/]"
        table.add_row(
            row.name, f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.2f}", row.unit, target, verdict
        )
    show_table(table)


class PlainCounter:
    """The counter, written without any framework."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int) -> str:
        self.value += amount
        return str(self.value)


def bare_loop(steps: int) -> float:
    counter, began = PlainCounter(), time.process_time()
    for _ in range(steps):
        counter.add(1)
    return steps / (time.process_time() - began)


def gymnasium_steps(steps: int) -> float:
    """Return steps per CPU-second of gymnasium's API on the same counter; 0 if it is not installed."""
    try:
        import gymnasium
    except ImportError:
        return 0.0

    class Gym(gymnasium.Env[str, int]):
        value = 0

        def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, object]]:
            self.value += action
            return str(self.value), 0.0, False, False, {}

    environment, began = Gym(), time.process_time()
    for _ in range(steps):
        environment.step(1)
    return steps / (time.process_time() - began)


def environment_calls(steps: int) -> float:
    async def play() -> float:
        environment, call = Counter(), Call("add", {"amount": 1})
        began = time.process_time()
        for _ in range(steps):
            await environment.call(call)
        return steps / (time.process_time() - began)

    return asyncio.run(play())


def script(tool: str = "add") -> list[Message | str]:
    add = Message("assistant", "", (Call(tool, {"amount": 1}),))
    return [*[add] * CALLS, Message("assistant", "", (Call("submit"),))]


def tasks(count: int) -> list[Task]:
    return [Task(f"task-{n}", "benchmark/counter-v1", f"Count to {CALLS}.", truth=CALLS) for n in range(count)]


def manager(
    tool: str = "add", *, tokens: bool = False, ledger: Ledger | None = None, concurrency: int = 64
) -> EpisodeManager:
    policy = ScriptedPolicy(script(tool), ByteRenderer() if tokens else None)
    config = RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=concurrency)
    return EpisodeManager(policy, config, ledger=ledger)


def episodes_played(episodes: int, *, tokens: bool = False, ledger: Ledger | None = None) -> float:
    """Return turns per CPU-second of whole episodes: policy, tools, rewards and record."""
    todo = tasks(episodes)
    gc.collect()
    began = time.process_time()
    trajectories = asyncio.run(manager(tokens=tokens, ledger=ledger).collect(todo))
    spent = time.process_time() - began
    if not all(trajectory.success == 1.0 for trajectory in trajectories):
        raise RuntimeError("An episode went wrong, so its time says nothing.")
    return episodes * TURNS / spent


def episodes_kept(episodes: int, *, tokens: bool = False) -> float:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        try:
            return episodes_played(episodes, tokens=tokens, ledger=ledger)
        finally:
            ledger.close()


def latency_ratio(waves: int) -> float:
    """Return the wall time of episodes whose tools wait, divided by the waiting time alone at this concurrency."""

    def make_counter() -> Counter:
        return Counter(latency_s=LATENCY_S)

    policy = ScriptedPolicy(script("slow_add"))
    manager_of_64 = EpisodeManager(
        policy, RolloutConfig(environment=make_counter, reward=TargetReached(), concurrency=LATENCY_CONCURRENCY)
    )
    began = time.perf_counter()
    asyncio.run(manager_of_64.collect(tasks(waves * LATENCY_CONCURRENCY)))
    return (time.perf_counter() - began) / (waves * CALLS * LATENCY_S)


def turn_cost(concurrency: int, episodes: int) -> float:
    """Return CPU-seconds per turn when this many episodes are in progress; their tools yield to each other."""
    gc.collect()

    async def play() -> None:
        async for _ in manager("slow_add", concurrency=concurrency).run(tasks(episodes)):
            pass

    began = time.process_time()
    asyncio.run(play())
    return (time.process_time() - began) / (episodes * TURNS)


if __name__ == "__main__":
    sys.exit(main())
