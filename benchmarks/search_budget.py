"""Success against the budget of a search: one play, repeated play and three searches on Sokoban rooms.

    python benchmarks/search_budget.py [--tasks 40] [--budgets 8 32 128] [--out runs/search_budget]
    python benchmarks/search_budget.py --players random      # without the model, which imitates for two minutes first
    python benchmarks/search_budget.py --quick               # four rooms and two budgets, to see that it runs

Two players: `random` takes one step in a random direction, and `tiny` is a language model from scratch that has
imitated the oracle for a short while. A budget is the number of messages that the policy may write for one room; rooms
solved with more do not count. Repeated play restarts the room until they are used up and counts if any episode
succeeds: the verifier chooses among its episodes. Searches are judged by the one episode that they end in; the messages
of the search, and those that the policy plays on after it, count. Their values read no outcome.

Writes results.json, table.md and search-budget.svg. What is in results.json is not measured again.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from horizon_plots import as_svg, make_panels
from rich.console import Console
from training_runs import COLOURS, warm_started

from agentgym import (
    Budgets,
    Call,
    EpisodeManager,
    Message,
    Policy,
    RolloutConfig,
    Task,
    TaskSet,
    Trajectory,
    load,
    load_task_set,
)
from agentgym.errors import AgentGymError
from agentgym.evaluation.runner import evaluate
from agentgym.evaluation.statistics.proportion import success_rate
from agentgym.methods.search import SearchedEpisode, TurnSearch, make_search, search_episodes
from agentgym.policy import Reply, Request
from agentgym.policy.local import load as load_transformers_policy
from agentgym.training import Recipe

ROOMS = "text/sokoban-v1"
PLAYERS = {"random": (0, 24), "tiny": (1, 6)}
"""By name, the level of its rooms, and the turns of an episode."""
SEARCHES: Mapping[str, str] = {
    "beam": "beam(width=4, nodes={nodes})",
    "best_first": "best_first(nodes={nodes})",
    "mcts": "mcts(take='best', nodes={nodes})",
    "best_first by log_prob": "best_first(value='log_prob', nodes={nodes})",
}
ONE_PLAY, REPEATED = "one play", "repeated play"
TINY = [
    f"tasks.set={ROOMS}",
    'tasks.tags=["level_0", "level_1", "level_2"]',
    "episode.max_turns=6",
    "episode.max_turn_tokens=48",
    "episode.max_episode_tokens=480",
    "warm_start.imperfect_oracle=0.0",
    "warm_start.validate_every=300",
    "train.steps=0",
]
Row = dict[str, Any]


class RandomSteps(Policy):
    """Takes one step in a direction drawn from the seed of the request."""

    name = "random"

    async def generate(self, request: Request) -> Reply:
        direction = random.Random(request.sampling.seed).choice(("up", "down", "left", "right"))
        return Reply(Message("assistant", "", (Call("move", {"steps": [direction]}),)))


def player(name: str, out: Path, imitation_steps: int) -> tuple[Policy, RolloutConfig]:
    """Return the policy of a player and its settings; the model is made once. Raises: RecipeError."""
    if name == "random":
        return RandomSteps(), RolloutConfig(temperature=1.0, budgets=Budgets(max_turns=PLAYERS[name][1]))
    source = Path(__file__).parents[1] / "recipes" / "text.toml"
    recipe = Recipe.load(source, [*TINY, f"warm_start.steps={imitation_steps}"])
    checkpoint = warm_started(recipe, out / "tiny")
    policy = load_transformers_policy(str(checkpoint), call_format=recipe.policy.call_format)
    return policy, replace(recipe.rollout_config(load_task_set(ROOMS)), temperature=0.0)


def measure(
    name: str, method: str, budgets: Sequence[int], rooms: TaskSet, who: tuple[Policy, RolloutConfig]
) -> list[Row]:
    """Return a row for each budget. Raises: AgentGymError."""
    policy, config = who
    config = replace(config, group_size=1)
    rows: list[Row] = []
    if method == REPEATED:
        spent = asyncio.run(_replayed(policy, config, rooms, max(budgets)))
        for budget in budgets:
            solved = [solved_within(episodes, budget) for episodes in spent.values()]
            rows.append(_row(name, method, budget, solved, float(budget)))
        return rows
    manager = EpisodeManager(policy, config)
    if method == ONE_PLAY:
        episodes = asyncio.run(manager.collect(rooms["validation"]))
        messages = sum(len(episode.turns) for episode in episodes) / len(episodes)
        return [_row(name, method, b, [solved_within([each], b) for each in episodes], messages) for b in budgets]
    for budget in budgets:
        search = make_search(SEARCHES[method].format(nodes=budget))
        searched = asyncio.run(_searched(manager, rooms, search))
        spent = [messages_of(each) for each in searched]
        solved = [float(m <= budget and each.trajectory.success) for m, each in zip(spent, searched, strict=True)]
        rows.append(_row(name, method, budget, solved, sum(spent) / len(spent)))
    return rows


async def _searched(manager: EpisodeManager, rooms: TaskSet, search: TurnSearch) -> list[SearchedEpisode]:
    return [each async for each in search_episodes(manager, rooms["validation"], search, label="searched")]


def messages_of(searched: SearchedEpisode) -> int:
    """Return the messages of the search and of the policy after the chosen node, without the last turn of an end."""
    trajectory, origin = searched.trajectory, searched.trajectory.provenance.branch
    if origin is None:  # no node was chosen
        return searched.cost.calls + len(trajectory.turns)
    nodes = searched.tree.root.descendants()
    chosen = next(node for node in nodes if node.trajectory and node.trajectory.id == origin.trajectory)
    return searched.cost.calls + len(trajectory.turns) - chosen.depth


def _row(name: str, method: str, budget: int, solved: Sequence[float], messages: float) -> Row:
    rate = success_rate([[each] for each in solved])
    return {
        "player": name,
        "method": method,
        "budget": budget,
        "rooms": len(solved),
        "success": [rate.value, rate.low, rate.high],
        "messages": round(messages, 1),
    }


async def _replayed(policy: Policy, config: RolloutConfig, rooms: TaskSet, budget: int) -> dict[str, list[Trajectory]]:
    """Return sampled episodes of each room, until the messages of every room reach the budget."""
    episodes: dict[str, list[Trajectory]] = defaultdict(list)
    seed = 0
    while not episodes or min(sum(len(t.turns) for t in own) for own in episodes.values()) < budget:
        sampled = replace(config, temperature=1.0, group_size=8, seed=seed)
        await evaluate(
            policy, rooms, "validation", config=sampled, on_trajectory=lambda t: episodes[t.task.id].append(t)
        )
        seed += 1
    return episodes


def solved_within(episodes: Sequence[Trajectory], budget: int) -> float:
    """Return 1 if an episode succeeds within this number of messages, counted over the episodes in turn; else 0."""
    for episode in sorted(episodes, key=lambda t: (t.provenance.seed, t.sample)):
        budget -= len(episode.turns)
        if budget < 0:
            return 0.0
        if episode.success:
            return 1.0
    return 0.0


def table(rows: Sequence[Row]) -> str:
    """Return success with its 95 % interval by player and method, a column for each budget."""
    budgets = sorted({row["budget"] for row in rows})
    lines = [["player", "method", *(f"{budget} messages" for budget in budgets)], ["---"] * (2 + len(budgets))]
    cells = {(row["player"], row["method"], row["budget"]): row for row in rows}
    for name, method in dict.fromkeys((row["player"], row["method"]) for row in rows):
        measured = [cells.get((name, method, budget)) for budget in budgets]
        lines.append([f"`{name}`", method, *("" if row is None else _as_text(row) for row in measured)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _as_text(row: Row) -> str:
    value, low, high = row["success"]
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def picture(rows: Sequence[Row]) -> str:
    """Plot success against the budget: a panel for each player, a line for each method with its interval."""
    names = list(dict.fromkeys(row["player"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure, axes = make_panels(len(names), 4.6, 3.6)
    for axis, name in zip(axes, names, strict=True):
        for colour, method in zip(COLOURS, methods, strict=False):
            own = sorted((r for r in rows if (r["player"], r["method"]) == (name, method)), key=lambda r: r["budget"])
            if not own:
                continue
            budgets, (values, low, high) = [r["budget"] for r in own], zip(*(r["success"] for r in own), strict=True)
            axis.plot(budgets, values, "o--" if method == ONE_PLAY else "o-", label=method, color=colour, linewidth=1.8)
            axis.fill_between(budgets, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set(title=name, xlabel="messages for a room", ylabel="success", xscale="log", ylim=(0, 1.02))
        ticks = sorted({row["budget"] for row in rows})
        axis.set_xticks(ticks, labels=[str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=7)
    return as_svg(figure)


def report(rows: Sequence[Row], out: Path) -> str:
    """Write what was measured so far. Returns: the table."""
    (out / "results.json").write_text(json.dumps(list(rows), indent=1), encoding="utf-8")
    (out / "table.md").write_text(table(rows), encoding="utf-8")
    (out / "search-budget.svg").write_text(picture(rows), encoding="utf-8")
    return table(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40, help="rooms")
    parser.add_argument("--budgets", type=int, nargs="+", default=[8, 32, 128], help="messages for a room")
    parser.add_argument("--players", nargs="+", choices=tuple(PLAYERS), default=list(PLAYERS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/search_budget"))
    chosen = parser.parse_args()
    console = Console()
    budgets, tasks, steps = ([4, 8], 4, 2) if chosen.quick else (chosen.budgets, chosen.tasks, 300)
    chosen.out.mkdir(parents=True, exist_ok=True)
    file = chosen.out / "results.json"
    rows: list[Row] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    for name in chosen.players:
        rooms = TaskSet(f"{ROOMS}:level_{PLAYERS[name][0]}", {"validation": new_rooms(PLAYERS[name][0], tasks)})
        who: tuple[Policy, RolloutConfig] | None = None
        for method in (ONE_PLAY, REPEATED, *SEARCHES):
            done = {row["budget"] for row in rows if (row["player"], row["method"]) == (name, method)}
            left = [budget for budget in budgets if budget not in done]
            if not left or (name == "random" and "log_prob" in method):
                continue
            try:
                who = who or player(name, chosen.out, steps)
                rows += measure(name, method, left, rooms, who)
            except AgentGymError as error:
                console.print(f"{name}, {method}: {error}", style="red", markup=False, soft_wrap=True)
                return 2
            console.print(f"{name}, {method}: {rows[-1]}", markup=False, soft_wrap=True)
            report(rows, chosen.out)
    console.print(report(rows, chosen.out), markup=False, soft_wrap=True)
    return 0


def new_rooms(level: int, count: int) -> list[Task]:
    """Return rooms of a level that are not training tasks."""
    environment: Any = load("environments", "agentgym/text-sokoban-v1")
    trained = {task.prompt for task in load_task_set(ROOMS)["train"]}
    rooms = (environment.generate(seed, level) for seed in itertools.count())
    return list(itertools.islice((room for room in rooms if room.prompt not in trained), count))


if __name__ == "__main__":
    sys.exit(main())
