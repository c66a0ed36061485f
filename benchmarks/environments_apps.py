"""How fast the apps answer: the oracle's calls through `Environment.call`, compared with direct calls of the same
functions.

`python benchmarks/environments_apps.py` prints the table, the time of a reset, and the memory of 64 environments;
benchmarks/environments.py calls `measure`. A direct call is the app's Python function on the same records, and its
answer as JSON text, without the check of arguments, the counters and the result.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import time
import tracemalloc

from environments_row import Row

from agentgym import Call, Environment, Task, load, load_task_set, make
from agentgym.sandboxes.record_environment import snapshot_of

TASKS = 200
NAME = "agentgym/apps-v1"


def measure(budget_s: float) -> list[Row]:
    """Return one row for all calls of the oracle. `budget_s`: CPU-seconds, half of them for each side."""
    plays = [(task, json.loads(task.truth["steps"])) for task in load_task_set("apps/year-v1")["train"][:TASKS]]
    ours = asyncio.run(_through_the_environment(plays, budget_s / 2))
    bare = _bare(plays, budget_s / 2)
    return [Row(f"{NAME} call", ours, "the app's function, and its answer as JSON", ours / bare)]


async def _through_the_environment(plays: list[tuple[Task, list]], cpu_s: float) -> float:
    """Return calls per CPU-second over whole episodes, without resets."""
    done, spent = 0, 0.0
    environment = make(NAME)
    for task, steps in itertools.cycle(plays):
        await environment.reset(task.public(), seed=0)
        calls = [Call("call", {"app": app, "api": api, "arguments": arguments}) for app, api, arguments in steps]
        began = time.process_time()
        for call in calls:
            await environment.call(call)
        spent += time.process_time() - began
        done += len(calls)
        if spent > cpu_s:
            break
    return done / spent


def _bare(plays: list[tuple[Task, list]], cpu_s: float) -> float:
    """Return calls per CPU-second of the same functions on the same records."""
    done, spent = 0, 0.0
    environment = load("environments", NAME)()
    for task, steps in itertools.cycle(plays):
        environment.open_records(task.parameters["records"], task.parameters["seed"])
        functions = [(getattr(environment.apps[app], api), arguments) for app, api, arguments in steps]
        began = time.process_time()
        for function, arguments in functions:
            json.dumps(function(**arguments), ensure_ascii=False, separators=(",", ":"))
        spent += time.process_time() - began
        done += len(steps)
        if spent > cpu_s:
            break
    return done / spent


async def reset_ms(repeats: int = 2_000) -> float:
    """Return CPU-milliseconds of a reset to records that an episode has already used, discarding its changes."""
    task = load_task_set("apps/year-v1")["train"][0].public()
    environment = make(NAME)
    await environment.reset(task, seed=0)
    spent = 0.0
    for number in range(repeats):
        await environment.call(_note(number))
        began = time.process_time()
        await environment.reset(task, seed=0)
        spent += time.process_time() - began
    return 1_000 * spent / repeats


async def memory_kib(count: int = 64, *, same: bool) -> float:
    """Return KiB per environment with an open episode and a change. `same`: all use the same records."""
    tasks = {task.parameters["seed"]: task for split in load_task_set("apps/year-v1").values() for task in split}
    chosen = [tasks[0] if same else tasks[seed] for seed in itertools.islice(itertools.cycle(sorted(tasks)), count)]
    tracemalloc.start()
    environments: list[Environment] = []
    before = tracemalloc.get_traced_memory()[0]
    for number, task in enumerate(chosen):
        environments.append(make(NAME))
        await environments[-1].reset(task.public(), seed=0)
        await environments[-1].call(_note(number))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / count / 1_024


def _note(number: int) -> Call:
    return Call("call", {"app": "notes", "api": "add", "arguments": {"title": str(number), "body": "x"}})


if __name__ == "__main__":
    for row in measure(6.0):
        print(f"{row.name:<32}{row.per_cpu_second:>12,.0f} calls / CPU-s   {row.ratio:.2f} x {row.against}")
    print(f"reset {asyncio.run(reset_ms()):.3f} CPU-ms")
    for same in (True, False):
        where = "over the same records" if same else "over the records of 52 seeds, made anew"
        snapshot_of.cache_clear()
        print(f"64 environments {where}: {asyncio.run(memory_kib(same=same)):,.0f} KiB each")
    print(f"peak of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024:.0f} MiB")
