"""What an episode teaches about each goal: the calls that reached it, and the agent's notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentgym import Call, ResultStatus, Task, Trajectory, UnknownNameError, load

NOTE = "note"
"""The tool by which an agent takes a note; see `with_notes`."""
MAX_CALLS = 64
"""The largest number of calls of a plan that is kept."""
MAX_PLAN_CHARS = 4_000
MAX_NOTE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is known about a goal.

    Attributes:
        plan: calls that reached it, one per line, as `gather(item='reed', count=2)`; empty if unknown.
        notes: notes that agents took in episodes with this goal, the newest last.
    """

    plan: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@runtime_checkable
class Teacher(Protocol):
    """Optional methods of an environment's class, which let plans for parts of a task be stored too.

    Without them a task is one goal, which its successful episodes reached. Both are static methods, because they are
    also called without an episode.
    """

    @staticmethod
    def goals_of(task: Task) -> Mapping[str, str]:
        """Return the goals whose plans help with a task. A goal's key is the same in all tasks that have the goal.

        Returns: each goal with a few words for the agent, `get 1 cord`. The first is the task's own; while it has no
            plan, plans for the others are offered in their order.
        """
        ...

    @staticmethod
    def plans_of(trajectory: Trajectory) -> Mapping[str, Sequence[Call]]:
        """Return, by goal key, the calls from the beginning that reached each goal of the episode."""
        ...


class WholeTask:
    """The teacher of environments without one: the task is the only goal."""

    @staticmethod
    def goals_of(task: Task) -> Mapping[str, str]:
        """Return the task itself as its only goal."""
        return {task.content_key(): "do this task"}

    @staticmethod
    def plans_of(trajectory: Trajectory) -> Mapping[str, Sequence[Call]]:
        """Return the successful calls, if the episode succeeded."""
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
    """Return the teacher of a task: its environment's class if that is a Teacher, else WholeTask."""
    try:
        environment = load("environments", task.environment)
    except UnknownNameError:  # the run registers its own environments, which are unknown here
        return WholeTask()
    return environment if isinstance(environment, Teacher) else WholeTask()


def goals_of(task: Task) -> Mapping[str, str]:
    """Return the goals of a task, see Teacher. They do not depend on its truth."""
    return teacher_of(task).goals_of(task.public())


def lessons_of(trajectory: Trajectory) -> dict[str, Lesson]:
    """Return what an episode teaches, by goal. Plans longer than MAX_CALLS or MAX_PLAN_CHARS are left out."""
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
    """Return the notes taken through `with_notes`, not through an environment's own tool of this name."""
    return tuple(
        " ".join(str(call.arguments["text"]).split())[:MAX_NOTE_CHARS]
        for turn in trajectory.turns
        for call, result in zip(turn.calls, turn.results, strict=False)
        if call.name == NOTE and result.status is ResultStatus.BY_PROGRAM and "text" in call.arguments
    )
