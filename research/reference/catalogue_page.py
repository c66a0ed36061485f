"""The catalogue of what is installed, and how scripted players score in it: `agentgym dev catalogue`.

The figures of a task set are stored in a JSON file beside the page, with the fingerprint of its tasks: an unchanged set
is not played again.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentgym import Budgets, EpisodeManager, RolloutConfig, Task, TaskSet, registry, seed_of
from agentgym.cli.listing import describe
from agentgym.errors import AgentGymError
from agentgym.messages import Message
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.task.definition import SPLITS
from agentgym.text import percent
from research.reference.markdown import table

Figures = dict[str, dict[str, Any]]
"""Figures by the set's name: `fingerprint`, `environments`, `sizes` of the splits; for a played set also `date`,
`tasks`, `failed` episodes, `success` by player, and `turns` of the oracle; or `unavailable` with the reason."""
NOTICE = "<!-- Made by `agentgym dev catalogue`. Edit docstrings and cards instead. -->"
INTRODUCTION = """\
What is installed: environments with their tools, task sets, and importers of published files. `agentgym dev catalogue`
writes this page; `--play 20` also plays 20 tasks of every set whose tasks have changed, and `--import` adds what is
yours.

## Task sets

The figures are success rates of scripted players, and say how much there is to learn. The *oracle* solves tasks as well
as they can be solved (the ceiling), the *imperfect oracle* uses the tools well for a wrong result, and *silence* says
nothing (the floor). On the day that is named, each played the same tasks of the validation split, chosen at random.
Held-out tasks were not looked at. *Turns* are those of the oracle, of at most 256. The [cards](README.md) of the
environments say how tasks are made, what is held out, and what a set does not measure."""


def catalogue_page(figures: Figures) -> str:
    """Return the text of the page, without playing or building anything.

    Raises: AgentGymError if a task set has no figures.
    """
    sets = registry.names("task_sets")
    if missing := [name for name in sets if name not in figures]:
        raise AgentGymError(f"The catalogue knows nothing of {', '.join(missing)}: run `agentgym dev catalogue`.")
    played_in = defaultdict(list)
    for name in sets:
        for environment in figures[name]["environments"]:
            played_in[environment].append(f"`{name}`")
    header = ["task set", "train", "validation", "held out", "played", "oracle", "turns", "imperfect", "silence"]
    unplayed = [(name, reason) for name in sets if (reason := figures[name].get("unavailable"))]
    return "\n".join(
        [
            NOTICE,
            "",
            "# Catalogue",
            "",
            INTRODUCTION,
            "",
            *table(header, [_row(name, figures[name]) for name in sets]),
            "",
            *(f"- `{name}` was not played: {reason}" for name, reason in unplayed),
            *([""] if unplayed else []),
            "## Environments",
            "",
            *table(
                ["environment", "what it is", "tools", "sandbox", "task sets"],
                [_environment(name, played_in[name]) for name in registry.names("environments")],
            ),
            "",
            "## Importers",
            "",
            "`agentgym tasks import NAME FILE` makes a task set of published files.",
            "",
            *table(["importer", "reads"], [[f"`{n}`", describe("importers", n)] for n in registry.names("importers")]),
            "",
        ]
    )


async def look_at_all(figures: Figures, path: Path, count: int, say: Callable[[str], None]) -> None:
    """Update the figures, and write the file after each set. Plays `count` tasks of each set without a result."""
    for name in set(figures) - set(registry.names("task_sets")):
        del figures[name]
    for name in registry.names("task_sets"):
        task_set = registry.load_task_set(name)
        if figures.get(name, {}).get("fingerprint") != (fingerprint := task_set.fingerprint()):
            environments = Counter(task.environment for tasks in task_set.values() for task in tasks)
            sizes = {split: len(task_set[split]) for split in SPLITS}
            figures[name] = {"fingerprint": fingerprint, "environments": sorted(environments), "sizes": sizes}
        if count and "success" not in figures[name]:
            figures[name].pop("unavailable", None)
            figures[name] |= await _results_of(task_set, count)
            say(f"{name}: {figures[name].get('unavailable') or figures[name]['success']}")
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)


def read_figures(path: Path) -> Figures:
    """Return the figures that an earlier call wrote; empty if there are none.

    Raises: AgentGymError if the file is not JSON.
    """
    if not path.is_file():
        return {}
    try:
        figures: Figures = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AgentGymError(f"{path} is no JSON: {error}. Remove it, and play all sets anew.") from error
    return figures


async def _results_of(task_set: TaskSet, count: int) -> dict[str, Any]:
    tasks = list(task_set["validation"] or task_set["train"])
    chosen = random.Random(seed_of("catalogue", task_set.name)).sample(tasks, min(count, len(tasks)))
    prototypes = [registry.prototype(name) for name in {task.environment for task in chosen}]
    if reason := next((why for each in prototypes if (why := each.unavailable_reason())), ""):
        return {"unavailable": reason}
    players = {"oracle": task_set.oracle, "imperfect_oracle": task_set.imperfect_oracle, "silence": _silence}
    config = RolloutConfig(concurrency=4, budgets=Budgets(max_turns=256, max_calls=1024, time_s=1800))
    success, turns, failed = {}, 0.0, 0
    for player, script in players.items():
        if script is None:
            continue
        episodes = await EpisodeManager(_agent(script), config).collect(chosen)
        valid = [episode for episode in episodes if episode.valid]
        if not valid:
            return {"unavailable": f"every episode of {player} failed: {episodes[0].error}"}
        success[player] = sum(episode.success or 0.0 for episode in valid) / len(valid)
        failed += len(episodes) - len(valid)
        if player == "oracle":
            turns = sum(len(episode.turns) for episode in valid) / len(valid)
    date = datetime.now(UTC).date().isoformat()
    return {"date": date, "tasks": len(chosen), "failed": failed, "success": success, "turns": round(turns, 2)}


def _silence(task: Task) -> Callable[[Any], Message]:
    return lambda messages: Message("assistant", "")


def _agent(script: Callable[[Task], Any]) -> Callable[[Task], ScriptedPolicy]:
    return lambda task: ScriptedPolicy(script(task))


def _row(name: str, figures: Mapping[str, Any]) -> list[str]:
    start = [f"`{name}`", *(f"{figures['sizes'][split]:,}" for split in SPLITS)]
    if "success" not in figures:
        return [*start, "no", "", "", "", ""]
    success = figures["success"]
    shares = [
        percent(success[player]) if player in success else "" for player in ("oracle", "imperfect_oracle", "silence")
    ]
    failed = f", {figures['failed']} episodes failed" if figures["failed"] else ""
    turns = f"{figures['turns']:.1f}" if "oracle" in success else ""
    return [*start, f"{figures['tasks']} on {figures['date']}{failed}", shares[0], turns, *shares[1:]]


def _environment(name: str, sets: list[str]) -> list[str]:
    prototype = registry.prototype(name)
    tools = ", ".join(f"`{tool}`" for tool in prototype.tools) or "those of the task"
    return [f"`{name}`", describe("environments", name), tools, "yes" if prototype.sandbox else "no", ", ".join(sets)]
