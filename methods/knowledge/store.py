"""KnowledgeStore: what training episodes taught, bounded, in memory and in a file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentgym import HeldOutError, LedgerError, Task, Trajectory
from agentgym.text import counted
from agentgym.trajectory import PromptAddition

from .lessons import MAX_CALLS, MAX_NOTE_CHARS, Lesson, goals_of, lessons_of

MAX_CHARS = 6_000
"""The largest number of characters of knowledge that an episode is shown."""


class KnowledgeOptions(BaseModel):
    """How much a store keeps and shows.

    Attributes:
        capacity: the largest number of goals; if there are more, those that have had no new lesson for longest are
            dropped.
        notes: the number of newest notes that are kept for each goal.
        offered: how many plans for parts of a task its episodes are shown until the whole task has a plan.
        measured: whether validation and held-out tasks are shown what training has taught; otherwise they are shown
            nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    capacity: Annotated[int, Field(ge=1, le=100_000)] = 2_000
    notes: Annotated[int, Field(ge=0, le=100)] = 4
    offered: Annotated[int, Field(ge=0, le=20)] = 3
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A snapshot of the knowledge. It never changes, so all episodes that begin with it are shown the same."""

    lessons: Mapping[str, Lesson]
    options: KnowledgeOptions

    def addition_for(self, task: Task) -> PromptAddition | None:
        """Return the knowledge for a task as an addition to its prompt; None if there is none."""
        text = self.text_for(task)
        return PromptAddition("knowledge", text) if text else None

    def text_for(self, task: Task) -> str:
        """Return the knowledge for a task as text; empty if nothing helpful is known.

        It holds the shortest plan for the task's goal, or, while there is none, plans for parts of it; and notes of
        these goals.
        """
        if task.split != "train" and not self.options.measured:
            return ""
        goals = goals_of(task)
        known = [(words, lesson) for key, words in goals.items() if (lesson := self.lessons.get(key)) is not None]
        own = self.lessons.get(next(iter(goals), ""))
        most = 1 if own is not None and own.plan else self.options.offered
        lines = [f"To {words}: {'; '.join(lesson.plan)}." for words, lesson in known if lesson.plan][:most]
        lines += [f"A note: {note}" for _, lesson in known for note in lesson.notes]
        text = ""
        for line in lines:
            if len(text) + len(line) <= MAX_CHARS:
                text += f"\n{line}"
        return f"What earlier episodes have taught:{text}" if text else ""


class KnowledgeStore:
    """Stores what the training episodes of a run taught.

    An episode reads the knowledge from before its batch began (`EpisodeManager.collect`, `run` or `evaluate`): newer
    knowledge is shown from the next batch on. Only episodes of training tasks teach.
    Validation and held-out tasks read the knowledge but change nothing, so the order in which they are played makes no
    difference.

    Args:
        options: as in KnowledgeOptions.
    Raises: ValueError naming a wrong option.
    Source: a memory of the plans of successful episodes, by sub-goal, as references for later ones: Ghost in the
        Minecraft, Zhu et al. 2023, arXiv:2305.17144. Written from descriptions: there a model merges several plans into
        one; here the plan with the fewest calls is kept.
    """

    def __init__(self, **options: Any) -> None:
        self.options = _options(options)
        self._lessons: Mapping[str, Lesson] = MappingProxyType({})

    def __len__(self) -> int:
        """Return the number of goals with known lessons."""
        return len(self._lessons)

    def view(self) -> Knowledge:
        """Return a snapshot of the current knowledge."""
        return Knowledge(self._lessons, self.options)

    def learn(self, trajectories: Iterable[Trajectory]) -> int:
        """Add what episodes teach, in this order; invalid episodes teach nothing.

        Returns: the number of goals with new lessons.
        Raises: HeldOutError for an episode of a task that is not for training; then nothing is learnt.
        """
        trajectories = list(trajectories)
        for trajectory in trajectories:
            if trajectory.task.split != "train":
                raise HeldOutError(
                    f"{trajectory.id!r} is an episode of the split {trajectory.task.split!r}, so no knowledge may be "
                    "drawn from it: it would help in tasks that measure. Learn from training tasks only."
                )
        lessons, changed = dict(self._lessons), set()
        for trajectory in trajectories:
            for goal, lesson in lessons_of(trajectory).items() if trajectory.valid else ():
                before = lessons.get(goal, Lesson())
                after = self._joined(before, lesson)
                if after != before:
                    changed.add(goal)
                    lessons.pop(goal, None)  # keep goals ordered by their last change
                    lessons[goal] = after
        for goal in list(lessons)[: max(0, len(lessons) - self.options.capacity)]:
            del lessons[goal]
        self._lessons = MappingProxyType(lessons)
        return len(changed & lessons.keys())

    def _joined(self, before: Lesson, new: Lesson) -> Lesson:
        """Return the shorter plan (the earlier of equally long ones) and the newest notes, without duplicates."""
        plan = new.plan if new.plan and (not before.plan or len(new.plan) < len(before.plan)) else before.plan
        notes = tuple(dict.fromkeys((*before.notes, *new.notes)))
        return Lesson(plan, notes[max(0, len(notes) - self.options.notes) :])

    # ---- files and checkpoints

    def state(self) -> dict[str, Any]:
        """Return the whole store as plain data for JSON."""
        lessons = [[goal, list(lesson.plan), list(lesson.notes)] for goal, lesson in self._lessons.items()]
        return {"options": self.options.model_dump(), "lessons": lessons}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state`, with this store's options. Raises: ValueError for an invalid state."""
        rows = state["lessons"]
        for row in rows:
            if not _is_row(row):
                raise ValueError(f"{row!r:.80} is not a lesson")
        self._lessons = MappingProxyType({goal: Lesson(tuple(plan), tuple(notes)) for goal, plan, notes in rows})

    def fingerprint(self) -> str:
        """Return a hash of the knowledge and of how it is shown."""
        return hashlib.sha256(json.dumps(self.state(), sort_keys=True).encode()).hexdigest()[:16]

    def describe(self) -> str:
        """Describe in words what measured episodes were shown."""
        if not self.options.measured:
            return ""
        return f"shown what training taught of {counted(len(self), 'goal')} ({self.fingerprint()})"

    def save(self, path: str | Path) -> Path:
        """Write the store to a file, completely or not at all. Raises: LedgerError."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        text = json.dumps({"fingerprint": self.fingerprint(), **self.state()}, indent=1)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise LedgerError(f"{path} cannot be written: {error.strerror}. Its old content is unchanged.") from error
        return path

    @classmethod
    def load(cls, path: str | Path) -> KnowledgeStore:
        """Read a file that `save` wrote, with its options.

        Raises: LedgerError for a file that is missing, incomplete, or edited by hand.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
            fingerprint = data.pop("fingerprint")
            store = cls(**data["options"])
            store.load_state(data)
        except OSError as error:
            raise LedgerError(
                f"{path} cannot be read: {error.strerror}. Give a file that `KnowledgeStore.save` wrote."
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise LedgerError(f"{path} does not contain the complete saved knowledge of a run: {error}.") from error
        if fingerprint != store.fingerprint():
            raise LedgerError(f"{path} was changed, or is incomplete: its content does not match its fingerprint.")
        return store


def _options(options: Mapping[str, Any]) -> KnowledgeOptions:
    try:
        return KnowledgeOptions(**options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ValueError(f"knowledge: {name} = {first['input']!r:.80} is not valid: {first['msg']}") from None


def _is_row(row: Any) -> bool:
    """Return whether a row is a goal, the calls of its plan, and its notes."""
    if not (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str)):
        return False
    plan, notes = row[1:]
    texts = all(isinstance(part, list) and all(isinstance(text, str) for text in part) for part in (plan, notes))
    return texts and len(plan) <= MAX_CALLS and all(len(note) <= MAX_NOTE_CHARS for note in notes)
