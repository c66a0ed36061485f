"""Many agent programs at once, each in the sandbox of its episode: what is lost, memory, and processor time a turn.

    python benchmarks/sandbox_programs.py [--episodes 300] [--turns 4] [--codex] [--quick]

A scripted policy answers at once, so that all that is measured is the programs, their sandboxes and the gateway. The
small program is a loop of Python with a shell; `--codex` measures Codex as published, which needs
`agentgym sandbox program npm:@openai/codex`. The policy's last command solves the task, so that a lost or spoiled
episode is one that did not succeed.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import time
from pathlib import Path

from figures import show_table
from rich.table import Table
from sandbox_many import available_mib

from agentgym import Budgets, Call, EpisodeManager, Message, Policy, RolloutConfig, ScriptedPolicy, Task, load_task_set
from agentgym.interop import PolicyGateway
from agentgym.interop.gateway.programs import AgentProgram
from agentgym.testing import ByteRenderer

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "programs"
LOOP = """
import json, os, subprocess, sys
from http.client import HTTPConnection
from urllib.parse import urlsplit

gateway = HTTPConnection(urlsplit(os.environ["AGENTGYM_URL"]).netloc)
headers = {"Authorization": "Bearer " + os.environ["AGENTGYM_TOKEN"], "Content-Type": "application/json"}
parameters = {"type": "object", "properties": {"cmd": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "exec_command", "parameters": parameters}}]
messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    gateway.request("POST", "/v1/chat/completions", json.dumps({"messages": messages, "tools": tools}), headers)
    messages.append(json.load(gateway.getresponse())["choices"][0]["message"])
    for call in messages[-1].get("tool_calls") or sys.exit():
        command = json.loads(call["function"]["arguments"])["cmd"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""
SMALL = AgentProgram(("python3", "-c", LOOP, "{task}"), where="sandbox")


def codex() -> AgentProgram:
    command = ("sh", "{home}/codex.sh", "{task}")
    return AgentProgram(command, where="sandbox", files=(str(EXAMPLES / "codex.sh"),), package="npm:@openai/codex")


def script(task: Task, turns: int) -> Policy:
    """Return a policy that looks around, solves the task with its last command, and says so in the last turn."""
    patch = task.truth.get("gold")
    solution = f"git apply - <<< {shlex.quote(patch)}" if patch else task.truth["command"]
    commands = [*["ls"] * (turns - 2), f"bash -c {shlex.quote(solution)}"]
    calls = [Message("assistant", "", (Call("exec_command", {"cmd": command}),)) for command in commands]
    return ScriptedPolicy([*calls, Message("assistant", "Done.")], ByteRenderer())


async def least_available_mib(stop: asyncio.Event) -> float:
    """Return the least memory that the machine had available until the event."""
    least = available_mib()
    while not stop.is_set():
        least = min(least, available_mib())
        await asyncio.sleep(0.2)
    return least


async def measure(name: str, set_name: str, program: AgentProgram, episodes: int, turns: int, table: Table) -> None:
    """Play all episodes at once, and add a row."""
    tasks = load_task_set(set_name)["train"][:episodes]
    budgets = Budgets(max_turns=turns + 1, max_episode_tokens=10**6, time_s=1800.0, infra_retries=0)
    config = RolloutConfig(engine=PolicyGateway(program, silence_s=1800.0), budgets=budgets, concurrency=episodes)
    stop, before = asyncio.Event(), available_mib()
    watching = asyncio.create_task(least_available_mib(stop))
    start, cpu = time.perf_counter(), time.process_time()
    trajectories = await EpisodeManager(lambda task: script(task, turns), config).collect(tasks)
    wall_s, own_s = time.perf_counter() - start, time.process_time() - cpu
    stop.set()
    used_mib = before - await watching
    turns_played = [turn for trajectory in trajectories for turn in trajectory.turns]
    lost = sum(trajectory.success != 1.0 for trajectory in trajectories)
    for error in {trajectory.error for trajectory in trajectories if trajectory.error}:
        print(error)
    sandbox_s = sum(turn.usage.get("cpu_s", 0.0) for turn in turns_played)
    peak = [max(turn.usage.get("peak_memory_mib", 0.0) for turn in t.turns) for t in trajectories if t.turns]
    table.add_row(
        name,
        f"{len(trajectories)}",
        f"{lost}",
        f"{wall_s:.0f} s",
        f"{sandbox_s / len(turns_played):.2f} s",
        f"{own_s / len(turns_played) * 1000:.0f} ms",
        f"{sum(peak) / len(peak):.0f} MiB",
        f"{used_mib:,.0f} MiB",
    )


async def table_of(options: argparse.Namespace) -> Table:
    """Measure everything. Returns: a row for each program."""
    table = Table("program", title=f"Programs at once in sandboxes, {options.turns} turns each")
    for column in ("episodes", "lost", "wall", "sandbox CPU a turn", "our CPU a turn", "sandbox's peak", "used in all"):
        table.add_column(column, justify="right")
    if options.codex:
        await measure("Codex", "swe/one-line-shell-v1", codex(), options.episodes, options.turns, table)
    else:
        await measure("small, in Python", "code/shell-v1", SMALL, options.episodes, options.turns, table)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=300)
    parser.add_argument("--turns", type=int, default=4, help="of each episode; the last two solve the task and end it")
    parser.add_argument("--codex", action="store_true", help="Codex, in repositories, instead of the small program")
    parser.add_argument("--quick", action="store_true", help="two episodes of three turns: to see that it runs")
    options = parser.parse_args()
    if options.quick:
        options.episodes, options.turns = 2, 3
    show_table(asyncio.run(table_of(options)))


if __name__ == "__main__":
    main()
