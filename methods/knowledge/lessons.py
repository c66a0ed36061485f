"""What an episode teaches: by goal, the calls that reached it, and what the agent noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentgym import Call, ResultStatus, UnknownNameError, load
from agentgym.task import Task
from agentgym.trajectory import Trajectory

NOTE = "note"
"""The tool by which an agent takes a note; see `with_notes`."""
MAX_CALLS = 64
"""Of a plan that is kept."""
MAX_PLAN_CHARS = 4_000
MAX_NOTE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is known of a goal.

    Attributes:
        plan: calls that have reached it, one a line, as `gather(item='reed', count=2)`; empty for none.
        notes: that agents have taken in episodes with this goal, the newest last.
    """

    plan: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@runtime_checkable
class Teacher(Protocol):
    """What an environment's class may have, so that plans for parts of a task are kept, too. Without it, a task is one
    goal, which its successful episodes have reached.

    Both are static methods: they are asked where there is no episode.
    """

    @staticmethod
    def goals_of(task: Task) -> Mapping[str, str]:
        """Return the goals whose plans help with a task, by a key that is the same in all tasks with that goal.

        Returns: each with a few words for the agent, `get 1 cord`. The first is the task's own; plans for the others
            are offered while there is none for it, in their order.
        """
        ...

    @staticmethod
    def plans_of(trajectory: Trajectory) -> Mapping[str, Sequence[Call]]:
        """By key of a goal that the episode has reached, the calls that reached it from the beginning on."""
        ...


class WholeTask:
    """The teacher of environments without one: a task is one goal."""

    @staticmethod
    def goals_of(task: Task) -> Mapping[str, str]:
        """Return the task itself as its only goal."""
        return {task.content_key(): "do this task"}

    @staticmethod
    def plans_of(trajectory: Trajectory) -> Mapping[str, Sequence[Call]]:
        """Return the calls that worked, if the episode succeeded."""
        if trajectory.success != 1:
            return {}
        calls = [
            call
            for turn in trajectory.turns
            for call, result in zip(turn.calls, turn.results, strict=False)
            if result.status is ResultStatus.OK
        ]
        return {trajectory.task.public().content_key(): calls}


def teacher_of(task: Task) -> Teacher:
    """Who knows the goals of a task: its environment's class, where that is a Teacher."""
    try:
        environment = load("environments", task.environment)
    except UnknownNameError:  # of a run that makes its environments itself
        return WholeTask()
    return environment if isinstance(environment, Teacher) else WholeTask()


def goals_of(task: Task) -> Mapping[str, str]:
    """Return the goals of a task, see Teacher. They do not depend on its truth."""
    return teacher_of(task).goals_of(task.public())


def lessons_of(trajectory: Trajectory) -> dict[str, Lesson]:
    """Return what an episode teaches, by goal. A plan of more than MAX_CALLS calls, or MAX_PLAN_CHARS, is left out."""
    lessons = {}
    for goal, calls in teacher_of(trajectory.task).plans_of(trajectory).items():
        plan = tuple(map(call_text, calls))
        if 0 < len(plan) <= MAX_CALLS and sum(map(len, plan)) <= MAX_PLAN_CHARS:
            lessons[goal] = Lesson(plan)
    if notes := _notes_in(trajectory):
        own = next(iter(goals_of(trajectory.task)))
        lessons[own] = Lesson(lessons.get(own, Lesson()).plan, notes)
    return lessons


def call_text(call: Call) -> str:
    """Return a call as one line."""
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def _notes_in(trajectory: Trajectory) -> tuple[str, ...]:
    """Return what the wrapper of `with_notes` has heard, and not what an environment's own tool of that name has."""
    return tuple(
        " ".join(str(call.arguments["text"]).split())[:MAX_NOTE_CHARS]
        for turn in trajectory.turns
        for call, result in zip(turn.calls, turn.results, strict=False)
        if call.name == NOTE and result.status is ResultStatus.BY_PROGRAM and "text" in call.arguments
    )
