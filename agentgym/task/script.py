"""The scripts of a task set's scripted players, which restart with each attempt at a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentgym.messages import Message
from agentgym.task.definition import Task


class TaskScript:
    """Play one attempt at a task: map the conversation so far to the next message.

    Args:
        player: makes a script for each attempt. task: the task to play. script: the function for this attempt.
    """

    def __init__(
        self, player: Callable[[Task], Any], task: Task, script: Callable[[Sequence[Message]], Message | str]
    ) -> None:
        self._player, self._task, self._script = player, task, script

    def __call__(self, messages: Sequence[Message]) -> Message | str:
        return self._script(messages)

    def renewed(self) -> TaskScript:
        """Return a new script for another attempt."""
        return TaskScript(self._player, self._task, self._player(self._task))


class ScriptedTaskPlayer:
    """Make the script of a task: messages in order, or a TaskScript around the function that `player` returned."""

    def __init__(self, player: Callable[[Task], Any]) -> None:
        self._player = player

    def __call__(self, task: Task) -> Any:
        script = self._player(task)
        is_function = callable(script) and not isinstance(script, TaskScript)
        return TaskScript(self._player, task, script) if is_function else script


def task_player(player: Callable[[Task], Any] | None) -> Callable[[Task], Any] | None:
    """Return a player whose scripts can restart, or None if `player` is None."""
    return player if player is None or isinstance(player, ScriptedTaskPlayer) else ScriptedTaskPlayer(player)
