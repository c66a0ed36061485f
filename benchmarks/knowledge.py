"""The value of remembering: success in `text/craft-v1` with and without the knowledge from training episodes.

    python benchmarks/knowledge.py [--turns 32] [--batch 120]

The agent is a script, `crafting_agent.py`: it looks recipes up, and follows plans that it is offered. It plays all
training tasks, the shallowest goals first, without a store, and twice with one that learns after each batch; then the
held-out tasks without a store and with the knowledge from training. Prints success and turns by depth and stratum.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Sequence

from crafting_agent import crafting_agent

from agentgym import Budgets, EpisodeManager, RolloutConfig, Task, Trajectory, load_task_set
from agentgym.methods.knowledge import KnowledgeStore


async def play(
    tasks: Sequence[Task], store: KnowledgeStore | None, turns: int, batch: int, *, learns: bool = False
) -> list[Trajectory]:
    """Play the episodes of all tasks in batches. A store that learns does so after each batch."""
    config = RolloutConfig(budgets=Budgets(max_turns=turns), knowledge=store)
    trajectories = []
    for first in range(0, len(tasks), batch):
        manager = EpisodeManager(crafting_agent, config, label=f"batch-{first}")
        episodes = await manager.collect(tasks[first : first + batch])
        if learns and store is not None:
            store.learn(episodes)
        trajectories += episodes
    return trajectories


def row(name: str, trajectories: Sequence[Trajectory]) -> str:
    """Return a line of a table: success and turns by tag."""
    by_tag: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        for tag in trajectory.task.tags:
            by_tag[tag].append(trajectory)
    cells = []
    for tag, tagged in sorted(by_tag.items()):
        success = sum(t.success or 0.0 for t in tagged) / len(tagged)
        cells.append(f"{tag} {success:.2f}, {sum(len(t.turns) for t in tagged) / len(tagged):.1f}")
    return f"| {name} | {' | '.join(cells)} |"


async def main(turns: int, batch: int) -> None:
    """Play and print."""
    task_set, store = load_task_set("text/craft-v1"), KnowledgeStore(capacity=10_000)
    train = sorted(task_set["train"], key=lambda task: (task.difficulty, task.id))
    print(row("train, without", await play(train, None, turns, batch)))
    for number in ("first", "second"):
        print(row(f"train, with, {number} pass", await play(train, store, turns, batch, learns=True)))
    print(f"{len(store)} goals are known")
    print(row("held out, without", await play(task_set["held_out"], None, turns, batch)))
    print(row("held out, with", await play(task_set["held_out"], store, turns, batch)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=32)
    parser.add_argument("--batch", type=int, default=120)
    options = parser.parse_args()
    asyncio.run(main(options.turns, options.batch))
