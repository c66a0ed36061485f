"""Read games of interactive fiction that a person or a model has written."""

from __future__ import annotations

from pathlib import Path

from agentgym import Split, TaskError, TaskSet, load

from .items import read_items, report_left_out, text_of

NAME = "text/written-fiction-v1"


def load_fiction(path: str | Path, *, split: Split = "train", least: int = 3) -> TaskSet:
    """Games in a JSON array or JSON lines as tasks of `agentgym/text-fiction-v1`.

    An item has `game`, an object (see `agentgym.sandboxes.text`), `wish`, a sentence that says what to do, and
    optionally `id`. Each game is searched for its shortest solution. Games that are invalid, cannot be won, or
    are too easy are left out, and a LeftOutWarning says why.

    Args:
        split: the split of the tasks.
        least: a game whose shortest solution has fewer commands than this is left out as too easy.
    Raises: TaskError if the file cannot be read, or contains no usable game.
    """
    source, environment = Path(path), load("environments", "agentgym/text-fiction-v1")
    tasks, reasons = {}, {}
    for number, item in enumerate(read_items(source)):
        name = str(item.get("id") or f"{source.stem}/{number:04d}")
        try:
            if name in tasks:
                raise ValueError("an earlier game has this id")
            wish = text_of(item, name, "wish")
            tasks[name] = environment.task_of(name, wish, item.get("game"), split=split, least=least)
        except (TaskError, ValueError) as error:
            reasons[name] = str(error)
    report_left_out(path, reasons, len(tasks))
    players = {"oracle": environment.oracle, "imperfect_oracle": environment.imperfect_oracle}
    return TaskSet(NAME, {split: list(tasks.values())}, **players)
