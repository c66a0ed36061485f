"""The web environment: the cost of an action, a reset and a browser.

Latency of an action with the accessibility tree, of one episode alone; processor time of an action and of an episode,
by the control group of the sandbox; time and size of an observation of small and of very large pages; memory of eight
browsers with the 128 episodes that share them; and the results of episodes whose pages crash.

    python benchmarks/gui.py [--only latency,pages,parallel,crashes] [--episodes 12] [--at-once 128]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agentgym import (
    Budgets,
    Call,
    Environment,
    EpisodeManager,
    Message,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    Trajectory,
    make,
)
from agentgym.registry import close_backends, load_task_set, shared_backend
from agentgym.sandboxes.gui import close_browsers
from agentgym.sandboxes.gui.browsers import browsers_of, chromium

PARTS = ("latency", "pages", "parallel", "crashes")
NODES, LOOKS = (100, 10_000, 100_000), 15
AT_A_TIME = 8
KILL_ONE = (
    "pages=$(grep -lz -e --type=renderer /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 | shuf -n 1); "
    "kill -9 $pages && echo 1"
)
"""Shell command that kills the process of any one page, as running out of memory does."""


async def play(environment: Environment, task: Task, script: Any) -> tuple[float, list[float]]:
    """Play one episode. Returns: seconds of the reset, and of each action."""
    began = time.perf_counter()
    messages = list(await environment.reset(task.public(), seed=0))
    reset_s, actions_s = time.perf_counter() - began, []
    while True:
        reply: Message = script(messages)
        began = time.perf_counter()
        result = await environment.call(reply.calls[0])
        if result.final or environment.ended:
            return reset_s, actions_s
        actions_s.append(time.perf_counter() - began)
        messages += [reply, result.message()]


async def latency(episodes: int) -> None:
    """Measure the actions of scripted players on the applications, one episode at a time."""
    task_set = load_task_set("web/apps-v1")
    environment = make("agentgym/web-v1")
    resets, actions = [], []
    try:
        await play(environment, task_set["train"][0], task_set.oracle(task_set["train"][0]))
        sandbox = environment._browser.sandbox
        before, host = await sandbox.usage(), time.process_time()
        for task in task_set["train"][:episodes]:
            reset_s, actions_s = await play(environment, task, task_set.oracle(task))
            resets.append(reset_s)
            actions += actions_s
        after, host = await sandbox.usage(), time.process_time() - host
    finally:
        await environment.close()
    deciles = statistics.quantiles(actions, n=10)
    print(f"{len(actions)} actions of {episodes} episodes on four applications, one at a time, tree shown each time")
    print(f"an action      p50 {1e3 * statistics.median(actions):6.1f} ms   p90 {1e3 * deciles[8]:6.1f} ms")
    print(f"a reset        p50 {1e3 * statistics.median(resets):6.1f} ms")
    cpu = after.cpu_s - before.cpu_s
    print(
        f"processor time {1e3 * cpu / len(actions):6.1f} ms an action in the sandbox, resets shared out; "
        f"{1e3 * host / len(actions):.1f} ms of the host"
    )


async def pages() -> None:
    """Measure observations in the middle of pages of more and more elements, all but the first after scrolling.

    The links lead to rows that exist: for a link to nowhere, Chromium searches the whole page at each observation.
    """
    with tempfile.TemporaryDirectory() as folder:
        for nodes in NODES:
            rows = "".join(f"<p id={row}>Row {row} <a href=#{row}>open {row}</a></p>" for row in range(nodes // 2))
            Path(folder, f"page{nodes}.html").write_text(rows)
        for nodes in NODES:
            parameters = {"site": "folder", "folder": folder, "page": f"page{nodes}.html"}
            environment = make("agentgym/web-v2")
            try:
                await environment.reset(Task("t", "agentgym/web-v2", "Look.", parameters=parameters), seed=0)
                await environment.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
                results = [
                    await environment.call(Call("scroll", {"direction": "down" if look % 2 else "up"}))
                    for look in range(LOOKS + 1)
                ][1:]
            finally:
                await environment.close()
            times, sizes = [result.duration_s for result in results], [len(result.content) for result in results]
            print(
                f"a page of {nodes:7,} elements: scrolled and shown in p50 {1e3 * statistics.median(times):6.1f} ms, "
                f"at most {max(sizes):,} characters"
            )


async def parallel(at_once: int) -> None:
    """Open episodes at once, sixteen per browser; measure their memory, then let the oracles play them to the end."""
    task_set = load_task_set("web/apps-v1")
    tasks = list(itertools.islice(itertools.cycle(task_set["validation"]), at_once))
    environments = [make("agentgym/web-v1") for _ in tasks]
    try:
        await environments[0].reset(tasks[0].public(), seed=0)
        alone = await memory_mib(environments[0]._browser.sandbox)
        gate = asyncio.Semaphore(AT_A_TIME)

        async def opened(environment: Environment, task: Task) -> None:
            async with gate:
                await environment.reset(task.public(), seed=0)

        await asyncio.gather(*map(opened, environments[1:], tasks[1:]))
        sandboxes = list({id(e._browser.sandbox): e._browser.sandbox for e in environments}.values())
        together = [await memory_mib(sandbox) for sandbox in sandboxes]
        before = [await sandbox.usage() for sandbox in sandboxes]
        began = time.perf_counter()
        trajectories = await asyncio.gather(
            *(play(e, task, task_set.oracle(task)) for e, task in zip(environments, tasks, strict=True))
        )
        took = time.perf_counter() - began
        after = [await sandbox.usage() for sandbox in sandboxes]
    finally:
        await asyncio.gather(*(environment.close() for environment in environments))
    actions = sum(len(actions_s) for _, actions_s in trajectories)
    cpu_s = sum(late.cpu_s - early.cpu_s for late, early in zip(after, before, strict=True))
    print(
        f"memory: a browser with one episode {alone:.0f} MiB; {len(sandboxes)} browsers with {at_once} episodes "
        f"{sum(together) / 1024:.1f} GiB, the largest {max(together):.0f} MiB"
    )
    print(
        f"{at_once} episodes played at once, each from its reset: {actions} actions in {took:.0f} s, "
        f"{1e3 * cpu_s / actions:.0f} ms of processor time an action in the sandboxes"
    )


async def crashes(episodes: int, at_once: int) -> None:
    """Kill a page of another episode whenever an episode ends: no episode may be lost or played wrongly."""
    task_set = load_task_set("web/apps-v1")
    tasks, killed = list(task_set["train"][:episodes]), 0
    backend = shared_backend("namespaces")
    manager = EpisodeManager(
        lambda task: ScriptedPolicy(task_set.oracle(task)),
        RolloutConfig(backend=backend, concurrency=at_once, budgets=Budgets(infra_retries=8)),
    )
    ended = asyncio.Queue[Trajectory]()
    playing = asyncio.ensure_future(manager.collect(tasks, on_trajectory=ended.put_nowait))
    while not playing.done():
        waiting = asyncio.ensure_future(ended.get())
        await asyncio.wait([playing, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for browser in list(browsers_of(backend)._open):
            killed += int((await browser.sandbox.exec(["sh", "-c", KILL_ONE])).text.strip() or 0)
    trajectories = await playing
    retried = sum(len(trajectory.provenance.retries) for trajectory in trajectories)
    print(
        f"{episodes} episodes, {at_once} at once, {killed} pages killed under them: {retried} turns played again, "
        f"{sum(trajectory.error is not None for trajectory in trajectories)} episodes lost, "
        f"{sum(trajectory.success == 1.0 for trajectory in trajectories)} solved"
    )


async def memory_mib(sandbox: Any) -> float:
    """Return the proportional memory of all processes of the sandbox, in MiB."""
    script = "cat /proc/[0-9]*/smaps_rollup 2>/dev/null | awk '/^Pss:/ { sum += $2 } END { print sum }'"
    result = await sandbox.exec(["sh", "-c", script])
    return float(result.text.strip() or 0) / 1024


async def main_async(parts: list[str], episodes: int, at_once: int) -> None:
    print(f"{chromium()}; load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
    try:
        if "latency" in parts:
            await latency(episodes)
        if "parallel" in parts:
            await parallel(at_once)
        if "pages" in parts:
            await pages()
        if "crashes" in parts:
            await crashes(5 * episodes, 16)
    finally:
        await close_browsers()
        await close_backends()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--episodes", type=int, default=12)
    parser.add_argument("--at-once", type=int, default=128, help="episodes open at once in the part `parallel`")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; parts are {', '.join(PARTS)}")
    asyncio.run(main_async(parts, options.episodes, options.at_once))
    return 0


if __name__ == "__main__":
    sys.exit(main())
