"""The gain of asynchronous training if some episodes take longer, and whether it learns equally well.

    python benchmarks/scale.py [--steps 12] [--rounds 3] [--staleness 2] [--wait-s 0.1] [--out runs/scale]
    python benchmarks/scale.py --vllm .venv-vllm/bin/python       # the same where a vLLM server samples
    python benchmarks/scale.py --success recipes/text.toml [--seeds 3] [--train-steps 40]
    python benchmarks/scale.py --nodes 3 [--rounds 3] [--per-node 4] [--wait-s 0.3]

The first trains a tiny model on an environment in memory whose tool takes `--wait-s`; of the episodes one in eight
waits five times as long, as where a test suite is slow or a site does not answer. Rounds of staleness 0 and of
`--staleness` take turns. It prints episodes per second from the end of the first measurement to the last step, and
their ratio in each round. Times depend on the machine, the ratios much less.

The second trains a recipe from the same warm start with both, for each seed, and compares success on held-out tasks,
pair by pair. Runs that are done are kept in --out and not trained again.

The third measures the stages here, predicts a step on 1, 2 ... simulated nodes of a Ray cluster as `agentgym cluster
plan` does, and trains there, in each round anew. The load of the machine stands beside each figure, because stages that
were measured beside other work predict nothing. The nodes share this machine's processors with the policy and the
trainer, so they add up only because episodes wait: it checks slots, waiting and the policy's server, not processors
that nodes would bring.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from rich.console import Console
from rich.table import Table
from simulated_cluster import simulated_cluster
from training_runs import from_start, mean_interval, share_first_measurement, train_quietly, warm_started

from agentgym import Call, Environment, Message, Reward, Split, Task, TaskSet, Trajectory, compare, tool
from agentgym.evaluation import Evaluation
from agentgym.registry import register
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

NAME = "bench/waiting-v1"
SLOW_ONE_IN, SLOWER, PIECES = 8, 5, 3
TARGET = 1.5
"""Episodes per second with --staleness 2, as a multiple of those with 0."""


class Waiting(Environment):
    """Three pieces of work, each of which takes a while; in one of eight episodes, five times as long."""

    reward = "bench_work_done"
    wait_s = 0.1
    _numbers = itertools.count()

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self._wait_s = self.wait_s * (SLOWER if next(Waiting._numbers) % SLOW_ONE_IN == 0 else 1)
        return task.opening()

    @tool
    async def work(self) -> str:
        """Do a piece of work."""
        await asyncio.sleep(self._wait_s)
        return "done"

    @tool(final=True, inline=True)
    def finish(self) -> str:
        """Hand the work in."""
        return "finished"


class WorkDone(Reward):
    """1 if three pieces of work were done."""

    def outcome(self, episode: Trajectory) -> dict[str, float]:
        return {"success": float(sum(call.name == "work" for turn in episode.turns for call in turn.calls) == PIECES)}


def waiting_tasks() -> TaskSet:
    """Return tasks that differ only by their number."""
    sizes: tuple[tuple[Split, int], ...] = (("train", 64), ("validation", 2), ("held_out", 2))
    splits = {
        str(split): [
            Task(f"{split}-{i}", NAME, "Work.", parameters={"number": f"{split} {i}"}, truth=PIECES, split=split)
            for i in range(size)
        ]
        for split, size in sizes
    }
    return TaskSet(NAME, splits, oracle=oracle)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    def script(messages: Sequence[Message]) -> Message:
        done = sum(message.role == "tool" for message in messages)
        return Message("assistant", "", (Call("work" if done < PIECES else "finish", {}),))

    return script


def recipe_of(staleness: int, options: argparse.Namespace) -> Recipe:
    """Return a recipe: imitation until the tool is called, then batches of 32 episodes of four turns."""
    served = {"vllm": {"python": options.vllm, "options": ["--max-model-len=512"]}} if options.vllm else {}
    return Recipe.parse(
        {
            **served,
            "name": "scale",
            "tasks": {"set": NAME},
            "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 2, "heads": 2, "kv_heads": 1}},
            "episode": {"max_turns": 5, "max_episode_tokens": 512, "max_turn_tokens": 32, "concurrency": 256},
            "warm_start": {"demonstrations": 32, "steps": 100, "optimizer": "muon", "learning_rate": 4e-3},
            "train": {
                "steps": options.steps,
                "tasks_per_step": 4,
                "group_size": 8,
                "estimator": "rloo",
                "staleness": staleness,
                "validate_every": options.steps,
                "validate_tasks": 1,
                "save_every": options.steps,
            },
            "stage": [{"kind": "imitate"}, {"kind": "evaluate", "name": "before"}, {"kind": "reinforce"}],
            "machine": {"device": "cpu", "threads": 1, "lockstep": False},
        }
    )


def episodes_per_second(recipe: Recipe, folder: Path) -> float:
    """Train in a fresh folder. Returns: episodes trained on, for each second of the reinforcement."""
    shutil.rmtree(folder, ignore_errors=True)
    run = train_quietly(recipe, folder)
    before = Evaluation.load(run.path / "evaluation" / "before.json")
    last = run.metrics("train")[-1]["time"]
    if before.success().value < 0.5:
        raise SystemExit("The model has not learnt to call the tool, so nothing waits: give it more imitation.")
    episodes = recipe.train.steps * recipe.train.tasks_per_step * recipe.train.group_size
    return float(episodes / (last - before.created - before.duration_s))


def measure(options: argparse.Namespace, console: Console) -> None:
    """Print the episodes per second of both, round by round, with their ratio."""
    Waiting.wait_s = options.wait_s
    table = Table("round", "staleness 0, episodes/s", f"staleness {options.staleness}, episodes/s", "ratio")
    ratios = []
    for number in range(options.rounds):
        order = (0, options.staleness) if number % 2 == 0 else (options.staleness, 0)
        rates = {s: episodes_per_second(recipe_of(s, options), options.out / f"staleness_{s}") for s in order}
        ratios.append(rates[options.staleness] / rates[0])
        table.add_row(str(number + 1), f"{rates[0]:.1f}", f"{rates[options.staleness]:.1f}", f"{ratios[-1]:.2f}")
    table.add_row("median", "", "", f"{median(ratios):.2f} (target {TARGET})")
    console.print(table)
    rows = RunFolder(options.out / f"staleness_{options.staleness}").metrics("train")
    for name in ("async/age_mean", "async/age_max", "async/masked", "async/waited_s", "async/publish_s"):
        console.print(f"{name}: median {median(row[name] for row in rows):.4g}", highlight=False)


def compare_success(options: argparse.Namespace, console: Console) -> None:
    """Print held-out success with staleness 0 and with --staleness, for each seed, and their paired difference."""
    import tomllib

    data = tomllib.loads(options.success.read_text(encoding="utf-8"))
    data["train"] = {**data["train"], "steps": options.train_steps}
    table = Table("seed", "staleness 0", f"staleness {options.staleness}", "difference, 95 % interval over tasks")
    differences = []
    for seed in range(options.seeds):
        folder = options.out / f"seed_{seed}"
        seeded = {**data, "seed": seed}
        start_only = {**seeded, "train": {**data["train"], "steps": 0}}
        start = warm_started(Recipe.parse(start_only, str(options.success)), folder / "start")
        evaluations = []
        for staleness in (0, options.staleness):
            changed = {**seeded, "train": {**data["train"], "staleness": staleness}}
            run = folder / f"staleness_{staleness}"
            share_first_measurement(run)
            train_quietly(from_start(changed, start, str(options.success)), run)
            evaluations.append(Evaluation.load(run / "evaluation" / "after.json"))
        gain = compare(*evaluations)
        differences.append(gain.difference.value)
        values = [f"{100 * evaluation.success().value:.1f} %" for evaluation in evaluations]
        interval = f"{100 * gain.difference.low:+.1f} to {100 * gain.difference.high:+.1f}"
        table.add_row(str(seed), *values, f"{100 * gain.difference.value:+.1f} ({interval})")
    mean, low, high = mean_interval(differences)
    table.add_row("mean", "", "", f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f} over seeds)")
    console.print(table)


def compare_plan(options: argparse.Namespace, console: Console) -> None:
    """Print predicted and measured seconds a step on 1, 2 ... nodes, round by round.

    The stages are measured anew in each round, because the machine may have more or less other work than before.
    """
    from agentgym.methods.scale_plan import ClusterShape, StepSchedule, simulate
    from agentgym.methods.scale_plan.measuring import measure as measure_stages

    Waiting.wait_s = options.wait_s
    recipe = recipe_of(0, options)
    data = recipe.model_dump(exclude_none=True)
    del data["stage"]
    data["episode"]["concurrency"] = options.per_node
    data["evaluate"] |= {"tasks": 1}
    start = warm_started(Recipe.parse({**data, "train": {**data["train"], "steps": 0}}), options.out / "plan" / "start")
    data = from_start(data, start, "scale").model_dump(exclude_none=True)
    schedule = StepSchedule(recipe.train.tasks_per_step, recipe.train.group_size)
    table = Table("round, load", "nodes", "predicted s/step", "measured s/step", "measured / predicted", "speed-ups")
    for number in range(1, options.rounds + 1):
        folder = options.out / "plan" / f"round_{number}"
        shutil.rmtree(folder, ignore_errors=True)
        times = measure_stages(Recipe.parse(data), folder, console)
        first: tuple[float, float] | None = None
        for nodes in range(1, options.nodes + 1):
            predicted = simulate(times, ClusterShape(nodes, options.per_node), schedule).step_s
            measured = step_on_nodes(data, nodes, options)
            first = first or (predicted, measured)
            speed = f"{first[0] / predicted:.2f}x predicted, {first[1] / measured:.2f}x measured"
            figures = (f"{predicted:.2f}", f"{measured:.2f}", f"{measured / predicted:.2f}", speed)
            table.add_row(f"{number}, {os.getloadavg()[0]:.1f}", str(nodes), *figures)
    console.print(table)


def step_on_nodes(data: dict[str, Any], nodes: int, options: argparse.Namespace) -> float:
    """Return the median seconds of a step, without the first, of a training with this many nodes for episodes."""
    from agentgym.cluster.ray_engine import shared_engine

    folder = options.out / f"nodes_{nodes}"
    shutil.rmtree(folder, ignore_errors=True)
    with simulated_cluster(nodes) as cluster:
        changed = {
            **data,
            "episode": {**data["episode"], "concurrency": options.per_node * nodes},
            "machine": {**data["machine"], "engine": "ray", "address": cluster.address, "nodes": nodes},
        }
        run = train_quietly(Recipe.parse(changed), folder)
        shared_engine.cache_clear()
    return float(median(row["step_time"] for row in run.metrics("train")[1:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--staleness", type=int, default=2)
    parser.add_argument("--wait-s", type=float, default=0.1)
    parser.add_argument("--vllm", metavar="PYTHON", help="of an environment with vLLM, as `make test-vllm` makes one")
    parser.add_argument("--nodes", type=int, help="compare predictions with so many simulated nodes, from one on")
    parser.add_argument("--per-node", type=int, default=4, help="episodes at once on each node")
    parser.add_argument("--success", type=Path, metavar="RECIPE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-steps", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("runs/scale"))
    options = parser.parse_args()
    register(NAME, Waiting)
    register(NAME, waiting_tasks, kind="task_sets")
    register("bench_work_done", WorkDone, kind="rewards")
    (compare_success if options.success else compare_plan if options.nodes else measure)(options, Console())


if __name__ == "__main__":
    main()
