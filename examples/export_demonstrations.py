"""Play an oracle, keep the episodes it solved, and write them as chat conversations for supervised fine-tuning.

python examples/export_demonstrations.py [FILE.jsonl]
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from agentgym import EpisodeManager, ScriptedPolicy, load_task_set
from agentgym.bridges.parquet import row_of_episode


async def solved_conversations(n_tasks: int) -> list[dict]:
    """The episodes that the oracle of text/wordle-v1 solved, each as an id and chat messages."""
    task_set = load_task_set("text/wordle-v1")
    manager = EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task), name="oracle"))
    conversations = []
    async for episode in manager.run(task_set["train"][:n_tasks]):
        if episode.valid and episode.success == 1.0:
            row = row_of_episode(episode)  # holds no truth: an exported file cannot leak answers
            conversations.append({"id": row["id"], "messages": row["messages"]})
    return conversations


def main(path: Path) -> None:
    conversations = asyncio.run(solved_conversations(20))
    path.write_text("".join(json.dumps(row) + "\n" for row in conversations), encoding="utf-8")
    print(f"{len(conversations)} of 20 episodes were solved and written to {path.name}.")
    print("The first one:", [message["role"] for message in conversations[0]["messages"]])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demonstrations.jsonl"))
