"""--tasks SET:SPLIT and the options that all commands which play episodes share."""

from __future__ import annotations

from typing import Annotated

import typer

from agentgym.task import SPLITS

Tasks = Annotated[
    str, typer.Option("--tasks", metavar="SET[:SPLIT]", help="A task set by name, or a .jsonl file; which split.")
]
Seed = Annotated[int, typer.Option(help="All randomness follows from it.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Episodes at once.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="Of sampling; at 0 the likeliest token is taken.")]
MaxTurns = Annotated[int, typer.Option(min=1, help="Turns after which an episode is cut.")]
MaxTurnTokens = Annotated[int, typer.Option(min=1, help="Tokens of one message of the agent.")]
Limit = Annotated[int | None, typer.Option(min=1, help="Play this many tasks only; always the same ones.")]
BackendName = Annotated[str | None, typer.Option("--backend", help="What makes the sandboxes, by registered name.")]
RewardName = Annotated[str | None, typer.Option("--reward", help="Who judges, by name; by default the environment's.")]


def split_tasks(text: str, default: str) -> tuple[str, str]:
    """`sql/store-v1:held_out` as a set and a split; the set alone means the default split."""
    name, _, split = text.rpartition(":")
    plain = split in SPLITS or not set(split) & {"/", "\\", "."}  # `C:\\tasks.jsonl` and `./a:b/c.jsonl` are paths
    return (name, split) if name and plain else (text, default)
