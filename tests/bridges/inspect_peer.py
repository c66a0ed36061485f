"""What Inspect does with agentgym, in the Python environment where both are installed. Prints one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from pathlib import Path

import inspect_ai
from inspect_ai import Task
from inspect_ai._util.entrypoints import ensure_entry_points
from inspect_ai.dataset import Sample
from inspect_ai.log._samples import sample_active
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolCall, bash
from inspect_ai.util import OutputLimitExceededError, SandboxUnavailableError, SandboxUserUnsupportedError
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv

from agentgym import AgentGymError, EpisodeManager, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.bridges.inspect import InspectSandboxConfig, play


async def self_checks():
    """Each of Inspect's checks of a provider, in a sandbox of its own. Returns: what failed, by the check's name."""
    ensure_entry_points("agentgym")
    provider = registry_find_sandboxenv("agentgym")
    outcomes, few = {}, asyncio.Semaphore(6)

    async def check(name):
        async with few:
            sandboxes = await provider.sample_init("checks", None, {})
            try:
                await getattr(self_check, name)(sandboxes["default"])
                outcomes[name] = ""
            except Exception as error:  # noqa: BLE001  every failure is an outcome of the check
                outcomes[name] = f"{type(error).__name__}: {error}"
            await provider.sample_cleanup("checks", None, sandboxes, False)

    await provider.task_init("checks", None)
    slow_first = sorted(self_check.__all__, key=lambda name: "kills" not in name)
    await asyncio.gather(*map(check, slow_first))
    await provider.task_cleanup("checks", None, True)
    return outcomes


def edges():
    """What the contract says, and its checks do not ask for."""
    provider = registry_find_sandboxenv("agentgym")

    async def kind(work):
        try:
            return (await work).returncode
        except (OutputLimitExceededError, SandboxUnavailableError, SandboxUserUnsupportedError) as error:
            return type(error).__name__

    async def ask():
        config = InspectSandboxConfig(memory_mib=64, disk_mib=8)
        sandbox = (await provider.sample_init("edges", config, {}))["default"]
        seen = {
            "flood": await kind(sandbox.exec(["sh", "-c", "yes | head -c 20000000"])),
            "exit 126": await kind(sandbox.exec(["sh", "-c", "exit 126"])),
            "missing": await kind(sandbox.exec(["nosuchprogram"])),
            "agent": await kind(sandbox.exec(["true"], user="agent")),
            "root": await kind(sandbox.exec(["true"], user="root")),
            "memory": await kind(sandbox.exec(["python3", "-c", "x = bytearray(500 << 20)"])) not in (0, None),
        }
        try:
            await sandbox.write_file("big", bytes(32 << 20))
        except OSError as error:
            seen["disk"] = type(error).__name__
        await provider.sample_cleanup("edges", config, {"default": sandbox}, False)
        seen["closed"] = await kind(sandbox.exec(["true"]))
        try:
            await provider.task_init("edges", "sandbox.toml")
        except AgentGymError as error:
            seen["unknown key"] = type(error).__name__
        return seen

    Path("sandbox.toml").write_text("memory = 64", encoding="utf-8")
    return asyncio.run(ask())


def sandboxed(logs):
    """A task of Inspect's own, with its own tool, in a sandbox of ours."""
    outputs = [
        ModelOutput.for_tool_call("mockllm", "bash", {"command": "cat secret.txt; id -un"}),
        ModelOutput.from_content("mockllm", "done"),
    ]
    for output in outputs:
        output.usage = ModelUsage()  # else its tokens are counted by a file from the network
    own = Task(
        dataset=[Sample(input="Read the file.", target="done", files={"secret.txt": "forty-two "})],
        solver=[use_tools(bash(timeout=10)), generate()],
        scorer=includes(),
        sandbox="agentgym",
    )
    [log] = inspect_ai.eval(own, model=get_model("mockllm/model", custom_outputs=outputs), log_dir=logs, display="none")
    [sample] = log.samples
    return [log.status, next(m.text.strip() for m in sample.messages if m.role == "tool")]


def failed(logs):
    """An environment whose sandbox cannot be made: an error of the sample, and no score."""
    [log] = inspect_ai.eval(
        play("sql/store-v1:held_out", backend="broken"),
        model="mockllm/model",
        limit=1,
        log_dir=logs,
        display="none",
        fail_on_error=False,
    )
    [sample] = log.samples
    return [log.status if sample.error is None else "error", sample.scores]


def both_ways(tasks, limit, logs, by_name=False, **arguments):
    """The same turns in our own loop and in Inspect: what was read, and the success, of each task."""
    name, _, split = tasks.partition(":")
    task_set = load_task_set(name)
    chosen = task_set[split][:limit]

    async def own_loop():
        return await EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task)), RolloutConfig(seed=3)).collect(
            chosen
        )

    ours = asyncio.run(own_loop())
    turns = {trajectory.task.id: trajectory.turns for trajectory in ours}

    def reply(messages, tools, tool_choice, config):
        spoken = sum(message.role == "assistant" for message in messages)
        of_task = turns[sample_active().sample.id]
        turn = of_task[min(spoken, len(of_task) - 1)]
        output = ModelOutput.from_content("mockllm", turn.message.text)
        output.usage = ModelUsage()
        output.choices[0].message.tool_calls = [
            ToolCall(f"{spoken}-{position}", call.name, call.arguments) for position, call in enumerate(turn.calls)
        ]
        return output

    model = get_model("mockllm/model", custom_outputs=reply)
    [log] = inspect_ai.eval(
        "agentgym/play" if by_name else play(tasks, seed=3),
        task_args={"tasks": tasks, "seed": 3} if by_name else {},
        model=model,
        limit=limit,
        log_dir=logs,
        display="none",
        max_samples=8,
        **arguments,
    )
    theirs = {sample.id: sample for sample in log.samples or ()}
    differing = []
    for trajectory in ours:
        sample = theirs.get(trajectory.task.id)
        read = [message.text for message in trajectory.messages() if message.role == "tool"]
        if sample is None or not sample.scores:
            differing.append([trajectory.task.id, str(sample and sample.error)])
            continue
        [score] = sample.scores.values()
        seen = [message.text for message in sample.messages if message.role == "tool"]
        if (seen, score.value, score.metadata["return"]) != (read, trajectory.success, trajectory.return_from()):
            differing.append([trajectory.task.id, seen, read, score.value])
    counted = defaultdict(int)
    for trajectory in ours:
        counted[str(trajectory.success)] += 1
    return {"status": log.status, "samples": len(theirs), "differing": differing, "success": counted}


def main(what, logs):
    if what == "self_check":
        return asyncio.run(self_checks())
    return {
        "edges": (ensure_entry_points("agentgym"), edges())[1],
        "sandboxed": sandboxed(logs),
        "locks": both_ways("text/locks-v1:held_out", 20, logs),
        "sql": both_ways("sql/store-v1:held_out", 4, logs),
        "generate": both_ways("text/locks-v1:held_out", 4, logs, solver=generate()),
        "by name": both_ways("text/locks-v1:held_out", 2, logs, by_name=True),
        "failed": failed(logs),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
