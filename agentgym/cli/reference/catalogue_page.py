"""The catalogue of task sets: what is installed, and how scripted players score in it: `agentgym dev catalogue`.

Figures are kept in a JSON file beside the page, each with the fingerprint of the tasks that were played, so that a set
that has changed since shows none.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentgym import registry
from agentgym.cli.reference.entries import table
from agentgym.errors import AgentGymError
from agentgym.messages import Message
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.rollout import EpisodeManager, RolloutConfig
from agentgym.rounding import percent
from agentgym.task import Task, TaskSet
from agentgym.trajectory import Trajectory

Figures = dict[str, dict[str, Any]]
"""By the set's name: `fingerprint`, `tasks` played by each player, `success` by player, and `turns` of the oracle; or
`unavailable` with the reason why its environment cannot run here."""
NOTICE = "<!-- Made by `agentgym dev catalogue`. Edit docstrings and cards instead. -->"
INTRODUCTION = """\
Every task set that is installed. What scripted players earn says how much there is to learn: the *oracle* solves
tasks as well as they can be solved, the *imperfect oracle* uses the tools well for a wrong result, and *silence* says
nothing. Each played the same validation tasks, as many as the column says; held-out tasks were not looked at. The cards
say more of each set: how its tasks are made, what is held out, and what it does not measure.

`agentgym dev catalogue --play 20` plays those whose tasks have changed, `--import` adds sets of your own."""


def catalogue_page(figures: Figures) -> str:
    """The text of the page, of all registered task sets."""
    rows = [_row(registry.load_task_set(name), figures.get(name, {})) for name in registry.names("task_sets")]
    header = [
        "task set",
        "environment",
        "train",
        "validation",
        "held out",
        "played",
        "oracle",
        "turns",
        "imperfect",
        "silence",
    ]
    return "\n".join([NOTICE, "", "# Catalogue of task sets", "", INTRODUCTION, "", *table(header, rows), ""])


async def play_all(figures: Figures, path: Path, count: int, say: Callable[[str], None]) -> None:
    """Play `count` validation tasks of every set without figures of its tasks, and write the file after each set."""
    for name in registry.names("task_sets"):
        task_set = registry.load_task_set(name)
        if figures.get(name, {}).get("fingerprint") == task_set.fingerprint():
            continue
        figures[name] = {"fingerprint": task_set.fingerprint()} | await _figures_of(task_set, count)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)
        say(f"{name}: {figures[name].get('unavailable') or figures[name]['success']}")


def read_figures(path: Path) -> Figures:
    """What an earlier call has written; nothing where there was none. Raises: AgentGymError for what is no JSON."""
    if not path.is_file():
        return {}
    try:
        figures: Figures = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise AgentGymError(f"{path} is no JSON: {error}. Remove it, and play all sets anew.") from error
    return figures


async def _figures_of(task_set: TaskSet, count: int) -> dict[str, Any]:
    tasks = list(task_set["validation"] or task_set["train"])
    tasks = tasks[:: max(1, len(tasks) // count)][:count]
    if reason := _unavailable(tasks):
        return {"unavailable": reason}
    players = {"oracle": task_set.oracle, "imperfect_oracle": task_set.imperfect_oracle, "silence": _silence}
    success, turns = {}, 0.0
    for player, script in players.items():
        if script is None:
            continue
        manager = EpisodeManager(_agent(script), RolloutConfig(concurrency=4))
        played = [episode for episode in await manager.collect(tasks) if episode.valid]
        if not played:
            return {"unavailable": "no episode could be played"}
        success[player] = sum(episode.success or 0.0 for episode in played) / len(played)
        turns = turns or _mean_turns(played)
    return {"tasks": len(tasks), "success": success, "turns": turns}


def _silence(task: Task) -> Callable[[Any], Message]:
    return lambda messages: Message("assistant", "")


def _agent(script: Callable[[Task], Any]) -> Callable[[Task], ScriptedPolicy]:
    return lambda task: ScriptedPolicy(script(task))


def _mean_turns(episodes: list[Trajectory]) -> float:
    return sum(len(episode.turns) for episode in episodes) / len(episodes)


def _unavailable(tasks: list[Task]) -> str:
    reasons = (registry.load("environments", name).unavailable_reason() for name in {t.environment for t in tasks})
    return next((reason for reason in reasons if reason), "")


def _row(task_set: TaskSet, figures: Mapping[str, Any]) -> list[str]:
    environments = Counter(task.environment for tasks in task_set.values() for task in tasks)
    sizes = [f"{len(task_set[split]):,}" for split in ("train", "validation", "held_out")]
    start = [f"`{task_set.name}`", ", ".join(f"`{name}`" for name in environments), *sizes]
    if figures.get("fingerprint") != task_set.fingerprint() or "success" not in figures:
        return [*start, "", "", "", "", ""]
    success = figures["success"]
    shares = {
        name: percent(success[name]) if name in success else "" for name in ("oracle", "imperfect_oracle", "silence")
    }
    turns = f"{figures['turns']:.1f}"
    return [*start, str(figures["tasks"]), shares["oracle"], turns, shares["imperfect_oracle"], shares["silence"]]
