"""Read games of TextWorld that the user has made by its command tw-make, or downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet, load

from .items import LeftOut, report_left_out

NAME, ENVIRONMENT = "text/textworld-v1", "agentgym/textworld-v1"
ENDINGS = (".z8", ".ulx")


def load_textworld(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The games at or below a path as tasks of `agentgym/textworld-v1`, held out by default.

    The solution is the walkthrough in the .json file beside the game. Games without one are left out, and a
    LeftOutWarning says why. Do not move the games: episodes and judges read them.

    Args:
        path: a game (.z8, .ulx), or a folder with games at any depth.
        split: the split of the tasks.
    Raises: TaskError if no game is found, or none can be used.
    """
    top = Path(path)
    games = [top] if top.is_file() else sorted(file for file in top.rglob("*") if file.suffix in ENDINGS)
    if not games or games[0].suffix not in ENDINGS:
        raise TaskError(f"{path} is no game: give a file that ends with {', '.join(ENDINGS)}, or a folder of them.")
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    for game in games:
        name = game.name if top.is_file() else game.relative_to(top).as_posix()
        try:
            walkthrough = _walkthrough(game)
        except LeftOut as error:
            reasons[name] = str(error)
            continue
        tasks.append(
            Task(
                id=f"textworld/{name}",
                environment=ENVIRONMENT,
                prompt="Play this game to its end. Each call of `act` is one command.",
                parameters={"game": str(game.absolute())},
                truth={"walkthrough": walkthrough},
                split=split,
                tags=("textworld",),
                difficulty=float(len(walkthrough)),
            )
        )
    report_left_out(path, reasons, len(tasks))
    return TaskSet(NAME, {split: tasks}, oracle=load("environments", ENVIRONMENT).oracle)


def _walkthrough(game: Path) -> list[str]:
    """Return a game's solution. Raises: LeftOut."""
    try:
        data: Any = json.loads(game.with_suffix(".json").read_text(encoding="utf-8"))
        commands = data["metadata"]["walkthrough"]
    except FileNotFoundError as error:
        raise LeftOut("the .json file with its walkthrough is not beside it") from error
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise LeftOut("the .json file beside it has no walkthrough") from error
    if not isinstance(commands, list) or not commands or not all(isinstance(command, str) for command in commands):
        raise LeftOut("the .json file beside it has no walkthrough")
    return commands
