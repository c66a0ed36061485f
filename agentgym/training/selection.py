"""Select the stored episodes, or turns of them, to imitate: `select` names one of the registered kind `selections`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentgym.credit.named_parts import load_named_part
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.trajectory.record import Trajectory


class Selected(NamedTuple):
    """An episode to imitate, the weight of its loss, and the only turn to imitate, None for all turns."""

    episode: Trajectory
    weight: float = 1.0
    turn: int | None = None


Selection = Callable[[Sequence[Trajectory]], list[Selected]]


def make_selection(text: str) -> Selection:
    """Make a selection from its name and options: "best_of(n=2)". Raises: RecipeError."""
    try:
        select = load_named_part("selections", text)
    except (CreditError, UnknownNameError) as error:
        raise RecipeError(f"select = {text!r}: {error}") from error
    return lambda group: [Selected(*each) for each in select(group)]


def groups_of(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Return the valid episodes grouped by task, in order of first appearance."""
    groups: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        if trajectory.valid:
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    return list(groups.values())
