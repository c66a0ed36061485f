"""Made-up runs for benchmarks/viewer.py: one of many episodes, and many finished trainings."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import closing
from pathlib import Path

from agentgym import Task, Trajectory, Turn
from agentgym.evaluation.outcomes import TaskOutcome
from agentgym.evaluation.record import Evaluation
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

SYSTEM = Message("system", "Answer with the bare value, found by SQL. " + "Tools are described at length. " * 40)


async def build(path: Path, episodes: int, turns: int) -> None:
    """Write a run folder with so many short episodes, and one of so many turns."""
    rng, folder = random.Random(5), RunFolder(path).create()
    folder.recipe.write_text('name = "large"\n[tasks]\nset = "sql/store-v1"\n[train]\nsteps = 400\n')
    with closing(Ledger(folder.ledger)) as ledger:
        await ledger.finish(episode(rng, "long", "train/long", 0, turns))
        for first in range(0, episodes - 1, 512):
            runs = (
                episode(rng, f"train-{n // 256:06d}", f"train/{n // 8 % 1999:04d}", n, 3)
                for n in range(first, min(first + 512, episodes - 1))
            )
            await asyncio.gather(*map(ledger.finish, runs))


def episode(rng: random.Random, run: str, name: str, sample: int, turns: int) -> Trajectory:
    """A made-up episode: queries, some of which fail, and an answer."""
    task = Task(name, "agentgym/sql-v1", f"How much did customer {name} spend?", truth="7", tags=("spend",))
    trajectory = Trajectory(
        f"{run}/{name}#{sample}",
        task,
        sample,
        opening=(SYSTEM, *task.opening()),
        prompt_ids=list(range(300)),
        weights={"evidence": 0.3},
        duration_s=rng.uniform(0.3, 2),
        stop_reason=StopReason.ANSWERED,
    )
    for index in range(turns):
        bad = rng.random() < 0.1
        call = Call("query", {"sql": f"SELECT total, placed FROM orders WHERE customer = {rng.random()} LIMIT 20"})
        rows = "\n".join(f"{rng.randint(0, 9999)}\t2031-0{rng.randint(1, 9)}-11" for _ in range(12))
        text = "SQLite: no such column: totl" if bad else rows
        result = Result(text, ResultStatus.TOOL_ERROR if bad else ResultStatus.OK, "query")
        message = Message("assistant", "I look at the orders first, then add them up.", (call,))
        trajectory.turns.append(
            Turn(
                index,
                message,
                (call,),
                (result,),
                token_ids=list(range(40)),
                logprobs=[-0.1] * 40,
                observation_ids=list(range(90)),
                rewards={"evidence": 1.0},
            )
        )
    trajectory.outcome = {"success": float(rng.random() < 0.6)}
    return trajectory


async def build_runs(path: Path, runs: int) -> None:
    """Write so many finished trainings of 400 steps."""
    rng, first = random.Random(6), path / "run-000"
    await build(first, 64, 3)
    folder = RunFolder(first)
    names = (
        "success",
        "reward",
        "turns",
        "calls_ok",
        "entropy",
        "loss",
        "kl",
        "lr",
        "tokens",
        "failed",
        "gradient_norm",
    )
    for step in range(1, 401):
        folder.log(step, "train", **{name: rng.random() for name in names})
        if step % 10 == 0:
            folder.log(step, "validation", success=rng.random(), turns=3.0, failed=0.0)
    for label in ("before", "after"):
        rows = [
            TaskOutcome(
                f"held_out/{n}",
                ["spend"],
                [float(rng.random() < 0.6)],
                [3],
                ["answered"],
                [3],
                [3],
                [1.0],
                [120],
                [0.5],
            )
            for n in range(100)
        ]
        evaluation = Evaluation(
            label, "sql/store-v1", "held_out", "", "small", 1, 0, rows, created=float(label == "after")
        )
        folder.write_json(f"evaluation/{label}.json", evaluation.to_json())
    for number in range(1, runs):
        shutil.copytree(first, path / f"run-{number:03d}")
    for folder_path in path.iterdir():
        recipe = folder_path / "recipe.toml"
        recipe.write_text(recipe.read_text().replace('"large"', f'"{folder_path.name}"'))
