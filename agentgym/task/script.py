"""The scripts of a task set's scripted players, which begin anew with each attempt at a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentgym.messages import Message
from agentgym.task.definition import Task


class TaskScript:
    """Plays one attempt at a task: a function from its conversation so far to the next message.

    Args:
        player: makes the script, and makes it again for another attempt. task: what is played. script: the function.
    """

    def __init__(
        self, player: Callable[[Task], Any], task: Task, script: Callable[[Sequence[Message]], Message | str]
    ) -> None:
        self._player, self._task, self._script = player, task, script

    def __call__(self, messages: Sequence[Message]) -> Message | str:
        return self._script(messages)

    def renewed(self) -> TaskScript:
        """Return the script of another attempt."""
        return TaskScript(self._player, self._task, self._player(self._task))


class ScriptedTaskPlayer:
    """Makes the script of a task: the messages in their order, or a TaskScript. `player`: makes it, or the function."""

    def __init__(self, player: Callable[[Task], Any]) -> None:
        self._player = player

    def __call__(self, task: Task) -> Any:
        script = self._player(task)
        is_function = callable(script) and not isinstance(script, TaskScript)
        return TaskScript(self._player, task, script) if is_function else script


def task_player(player: Callable[[Task], Any] | None) -> Callable[[Task], Any] | None:
    """Return a player whose scripts can begin anew; None for none."""
    return player if player is None or isinstance(player, ScriptedTaskPlayer) else ScriptedTaskPlayer(player)
