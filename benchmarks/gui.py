"""The web environment: what an action, a reset and a browser cost.

Latency of an action with the accessibility tree, of one episode alone; processor time of an action and of an episode,
by the control group of the sandbox; memory of one browser by the number of episodes that share it.

    python benchmarks/gui.py [--episodes 12] [--at-once 16]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import time
from typing import Any

from agentgym import Call, Environment, Message, Task, make
from agentgym.registry import close_backends, load_task_set
from agentgym.sandboxes.gui import close_browsers
from agentgym.sandboxes.gui.browsers import chromium


async def play(environment: Environment, task: Task, script: Any) -> tuple[float, list[float]]:
    """One episode. Returns: seconds of the reset, and of each action."""
    began = time.perf_counter()
    messages = list(await environment.reset(task.public(), seed=0))
    reset_s, actions_s = time.perf_counter() - began, []
    while True:
        said: Message = script(messages)
        began = time.perf_counter()
        result = await environment.call(said.calls[0])
        if result.final or environment.ended:
            return reset_s, actions_s
        actions_s.append(time.perf_counter() - began)
        messages += [said, result.message()]


async def latency(episodes: int) -> None:
    """Actions of scripted players on the applications, one episode at a time."""
    task_set = load_task_set("web/apps-v1")
    environment = make("agentgym/web-v1")
    resets, actions = [], []
    try:
        await play(environment, task_set["train"][0], task_set.oracle(task_set["train"][0]))
        machine = environment._browser.machine
        before, host = await machine.usage(), time.process_time()
        for task in task_set["train"][:episodes]:
            reset_s, actions_s = await play(environment, task, task_set.oracle(task))
            resets.append(reset_s)
            actions += actions_s
        after, host = await machine.usage(), time.process_time() - host
    finally:
        await environment.close()
    deciles = statistics.quantiles(actions, n=10)
    print(f"{len(actions)} actions of {episodes} episodes on four applications, one at a time, tree shown each time")
    print(f"an action      p50 {1e3 * statistics.median(actions):6.1f} ms   p90 {1e3 * deciles[8]:6.1f} ms")
    print(f"a reset        p50 {1e3 * statistics.median(resets):6.1f} ms")
    cpu = after.cpu_s - before.cpu_s
    print(f"processor time {1e3 * cpu / len(actions):6.1f} ms an action in the sandbox, resets shared out; "
          f"{1e3 * host / len(actions):.1f} ms of the host")  # fmt: skip


async def parallel(at_once: int) -> None:
    """Episodes that share one browser: memory, and actions a second of all together."""
    task_set = load_task_set("web/apps-v1")
    tasks = list(itertools.islice(itertools.cycle(task_set["validation"]), at_once))
    environments = [make("agentgym/web-v1") for _ in tasks]
    try:
        await environments[0].reset(tasks[0].public(), seed=0)
        machine = environments[0]._browser.machine
        alone = await memory_mib(machine)
        for environment, task in zip(environments[1:], tasks[1:], strict=True):
            await environment.reset(task.public(), seed=0)
        together = await memory_mib(machine)
        began, before = time.perf_counter(), await machine.usage()
        await asyncio.gather(*(e.call(Call("wait", {"seconds": 0.0})) for e in environments for _ in range(5)))
        took, after = time.perf_counter() - began, await machine.usage()
    finally:
        await asyncio.gather(*(environment.close() for environment in environments))
    print(f"memory of a browser: {alone:.0f} MiB with one episode, {together:.0f} MiB with {at_once}: 8 browsers with "
          f"{8 * at_once} episodes take {8 * together / 1024:.1f} GiB")  # fmt: skip
    print(f"{at_once} episodes looking at once: {5 * at_once / took:.0f} looks a second, "
          f"{(after.cpu_s - before.cpu_s) / (5 * at_once) * 1e3:.1f} ms of processor time each")  # fmt: skip


async def memory_mib(machine: Any) -> float:
    """Proportional memory of all processes of the sandbox, in MiB."""
    script = "cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ { sum += $2 } END { print sum }'"
    result = await machine.exec(["sh", "-c", script])
    return float(result.text.strip() or 0) / 1024


async def main_async(episodes: int, at_once: int) -> None:
    print(f"{chromium()}; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    try:
        await latency(episodes)
        await parallel(at_once)
    finally:
        await close_browsers()
        await close_backends()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--at-once", type=int, default=16)
    asked = parser.parse_args()
    asyncio.run(main_async(asked.episodes, asked.at_once))
    return 0


if __name__ == "__main__":
    sys.exit(main())
