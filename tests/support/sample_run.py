"""Writes a run folder as a training run leaves it, with made-up episodes: for tests and for looking at the page.

python tests/support/sample_run.py runs/sample
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
from pathlib import Path

from agentgym import RolloutConfig, Task, TaskSet, Trajectory, Turn
from agentgym.evaluation.runner import from_trajectories
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

ATTACK = "<script>alert('owned')</script>"
NAMES = ["Aalto", "Berg", "Castro", "Dubois", "Ekström", "Farouk", "Garza", "Ibsen", "Jansen", "Kovač", "Moreau"]
QUESTIONS = [
    ("customer_phone", "What is the phone number of {name}?", "SELECT phone FROM customers WHERE name = '{name}'"),
    ("order_total", "How much did {name} spend in all?", "SELECT SUM(total) FROM orders WHERE customer = '{name}'"),
    ("newest_order", "When did {name} order last?", "SELECT MAX(placed) FROM orders WHERE customer = '{name}'"),
]


def task_set(count: int = 120) -> TaskSet:
    """Store questions: the last third asks in words never seen in training."""
    rng = random.Random(1)
    tasks = []
    for i in range(count):
        kind, question, sql = QUESTIONS[i % 2 if i < count * 2 // 3 else 2]
        name = f"{rng.choice(NAMES)} {rng.choice(NAMES)} {i}"
        stratum = "unseen_entities" if kind != "newest_order" else "unseen_templates"
        tasks.append(
            Task(
                f"{kind}-{i:04d}",
                "agentgym/sql-v1",
                question.format(name=name),
                truth=str(1000 + i),
                parameters={"database": "sql/store", "sql": sql.format(name=name)},
                split="held_out",
                tags=(stratum, kind),
            )
        )
    return TaskSet("sql/store-v1", {"held_out": tasks})


def episode(run: str, task: Task, skill: float, rng: random.Random, sample: int = 0) -> Trajectory:
    """One made-up episode: look at the table, query, answer; mistakes by chance."""
    trajectory = Trajectory(
        f"{run}/{task.id}#{sample}",
        task,
        sample,
        opening=(Message("system", "Answer with the bare value, found by SQL."), *task.opening()),
        weights={"evidence": 0.3},
        duration_s=rng.uniform(0.2, 1.1),
    )
    if rng.random() < 0.01:
        trajectory.stop_reason, trajectory.error = StopReason.INFRA_ERROR, "SandboxDied: the guest ended"
        trajectory.turns = [_turn(0, "", Call("tables"), Result("customers", name="tables"))]
        return trajectory
    good = rng.random() < skill
    table = "customers" if "customers" in task.parameters["sql"] else "orders"
    columns = "id\tname\temail\tphone\n" if table == "customers" else "id\tcustomer\tplaced\ttotal\n"
    trajectory.turns.append(
        _turn(0, "I look at the table first.", Call("describe", {"table": table}), Result(columns, name="describe"))
    )
    if not good and rng.random() < 0.5:
        slip = rng.choice(["malformed", "unknown", "sql"])
        call, result = {
            "malformed": (
                Call("", error='The call is no valid JSON. Write {"name": ..., "arguments": {...}}.'),
                Result('The call is no valid JSON. Write {"name": ..., "arguments": {...}}.', ResultStatus.MALFORMED),
            ),
            "unknown": (
                Call("search", {"text": task.prompt}),
                Result("There is no tool named 'search'. Tools: query(sql: string).", ResultStatus.UNKNOWN_TOOL),
            ),
            "sql": (
                Call("query", {"sql": f"SELECT phone_number FROM {table}"}),
                Result("SQLite refused the query: no such column: phone_number", ResultStatus.TOOL_ERROR),
            ),
        }[slip]
        trajectory.turns.append(_turn(1, "", call, result))
    at = len(trajectory.turns)
    if good:
        value = str(task.truth) if task.id != "customer_phone-0000" else f"{task.truth} {ATTACK}\x1b[31m\u202e"
        trajectory.turns.append(
            _turn(at, "", Call("query", {"sql": task.parameters["sql"]}), Result(value, name="query"), evidence=1.0)
        )
        final, at = Result("Answered.", name="answer", final=True), at + 1
        trajectory.turns.append(_turn(at, "", Call("answer", {"text": str(task.truth)}), final))
        trajectory.stop_reason = StopReason.ANSWERED
    elif rng.random() < 0.3:
        trajectory.turns += [_turn(at + i, "I think the answer is near.", None, None) for i in range(3)]
        trajectory.stop_reason = StopReason.REPEATED_VOID
    else:
        final = Result("Answered.", name="answer", final=True)
        trajectory.turns.append(_turn(at, "", Call("answer", {"text": "unknown"}), final))
        trajectory.stop_reason = StopReason.ANSWERED
    trajectory.outcome = {"success": float(good)}
    return trajectory


def make(path: Path, *, seed: int = 7, steps: int = 150, samples: int = 1) -> RunFolder:
    """Write the whole folder but the report."""
    rng = random.Random(seed)
    folder = RunFolder(path).create()
    folder.recipe.write_text(RECIPE, encoding="utf-8")
    _metrics(folder, rng, steps)
    trajectories = _evaluations(folder, rng, samples)
    group_task = task_set()["held_out"][2]
    group = [episode(f"train-{steps - 1:06d}", group_task, skill, rng, i) for i, skill in enumerate((1, 0, 1, 0, 0, 1))]
    with (path / "credit.jsonl").open("w", encoding="utf-8") as file:
        for t in group:
            sign = 1 if t.success else -1
            rewards = [0.1 * sign + 0.7 * sign * (i + 1) / len(t.turns) for i in range(len(t.turns))]
            file.write(json.dumps({"trajectory": t.id, "step": steps - 1, "advantages": rewards}) + "\n")
        file.write('{"trajectory": "train-000150/x#0", "st')  # a kill in the middle of a line
    asyncio.run(_record(folder, trajectories + group))
    folder.write_json("state.json", {"stage": "done", "versions": {"trl": "1.16.0"}, "peak_memory_mib": 812})
    return folder


def _evaluations(folder: RunFolder, rng: random.Random, samples: int) -> list[Trajectory]:
    chosen, everything = task_set(), []
    for label, skill, created in (("before", (0.42, 0.2), 1_760_000_000.0), ("after", (0.95, 0.62), 1_760_000_400.0)):
        trajectories = [
            episode(f"held-out-{label}", task, skill["unseen_templates" in task.tags], rng, sample)
            for task in chosen["held_out"]
            for sample in range(samples)
        ]
        evaluation = from_trajectories(
            trajectories,
            label=label,
            task_set=chosen,
            split="held_out",
            policy="tiny Qwen3, 0.98 M",
            config=RolloutConfig(),
        )
        evaluation.created = created
        folder.write_json(f"evaluation/{label}.json", evaluation.to_json())
        everything += trajectories
    return everything


def _metrics(folder: RunFolder, rng: random.Random, steps: int) -> None:
    rows: list[dict[str, object]] = []
    clock = 1_760_000_000.0

    def log(step: int, phase: str, **numbers: float) -> None:
        rows.append({"time": clock, "step": step, "phase": phase, **numbers})

    for step in range(10, 401, 10):
        clock += 1.6
        loss = 3.2 * math.exp(-step / 70) + 0.16 + rng.gauss(0, 0.02)
        log(step, "warm_start", loss=loss, mean_token_accuracy=1 - loss / 4, learning_rate=2e-3)
        if step % 50 == 0:
            success = max(0.0, (step - 200) / 500)
            log(step, "warm_start_validation", success=success, calls_ok=step / 500, turns=3.2, failed=0)
    for step in range(1, steps + 1):
        clock += 2.4
        success = 0.4 + 0.55 * (1 - math.exp(-step / 45))
        seen = min(1.0, max(0.0, success + rng.gauss(0, 0.07)))
        log(
            step,
            "train",
            success=seen,
            reward=seen + 0.3 * min(1, seen + 0.1),
            calls_ok=min(1, 0.8 + success / 5),
            turns=3.6 - success / 2 + rng.gauss(0, 0.05),
            entropy=0.5 * math.exp(-step / 90) + 0.08,
            loss=rng.gauss(0, 0.01),
            grad_norm=rng.uniform(0.3, 0.6),
            failed=0,
            **{"turn_reward/evidence": 0.2 + success * 0.7, "credit/std": 0.4},
        )
        if step % 10 == 0:
            seen = round(64 * success) / 64
            log(step, "validation", success=seen, calls_ok=min(1, 0.82 + success / 6), turns=3.1, failed=1)
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


async def _record(folder: RunFolder, trajectories: list[Trajectory]) -> None:
    ledger = Ledger(folder.ledger)
    try:
        await asyncio.gather(*(ledger.finish(trajectory) for trajectory in trajectories))
    finally:
        ledger.close()


def _turn(index: int, text: str, call: Call | None, result: Result | None, **rewards: float) -> Turn:
    calls, results = ((call,), (result,)) if call and result else ((), ())
    return Turn(index, Message("assistant", text, calls), calls, results, rewards=dict(rewards))


RECIPE = """name = "quickstart"
seed = 0

[tasks]
set = "sql/store-v1"

[policy]
call_format = "hermes"

[policy.tiny]
vocabulary = 1024
hidden = 128
layers = 4

[warm_start]
steps = 400
until_success = 0.4
validate_tasks = 64

[train]
steps = 150
tasks_per_step = 8
group_size = 8
estimator = "return_to_go"
validate_tasks = 64
"""

if __name__ == "__main__":
    from agentgym.evaluation.report import write_report

    print(write_report(make(Path(sys.argv[1]))))
