"""Generate and check new training tasks similar to those that the policy fails at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Annotated, Any, ClassVar

from pydantic import Field

from agentgym import (
    EpisodesFailed,
    HeldOutError,
    Message,
    RecipeError,
    ScriptedPolicy,
    Task,
    TaskError,
    TaskSet,
    Trajectory,
    seed_of,
)
from agentgym.evaluation import select_episodes
from agentgym.options import Count
from agentgym.task import Origin
from agentgym.training.stages import Learner, PlannedStage, ReadsEpisodes, RunContext, define_stage

from .new_tasks import NewTasks
from .weakness import histories

GENERATED = "generated"
"""The tag of a generated task, and the name of the file with the stage's results."""
Generate = Callable[[Task, int], Task]


class GenerateSection(ReadsEpisodes):
    """Options of `generate`: new training tasks like those that the policy fails at.

    Weak tasks are looked for in `episodes`, by default those of the last stage that plays.
    """

    reads_last_player: ClassVar[bool] = True

    below: Annotated[float, Field(gt=0, le=1)] = 0.5
    """A task is weak if its mean success stays below this share in every visit and does not rise."""
    tasks: Count = 100
    """How many new tasks are made. The weak tasks are their parents, in turn."""
    tries: Count = 4
    """The largest number of rounds of generation. Each later round replaces rejected tasks."""
    with_set: bool = True
    """Whether to train on the tasks of the set, too."""


def _check(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    """Raise RecipeError if the set generates no tasks; TaskError if it has no oracle to check them."""
    task_set = stage.recipe.tasks.load()
    _generator_of(task_set, stage.name)
    task_set.player("oracle")


def _check_episodes(stage: PlannedStage, task_set: TaskSet, trajectories: list[Trajectory]) -> None:
    episodes_of_set(stage.name, task_set, trajectories)


@define_stage(
    options=GenerateSection,
    has_folder=True,
    makes_tasks=True,
    check=_check,
    check_episodes=_check_episodes,
)
def generate_stage(context: RunContext, learner: Learner, options: GenerateSection) -> Learner:
    """Generates training tasks like those that earlier stages failed at, for a later `reinforce` with `tasks_of`."""
    context.processes.share(lambda: _generate(context, options))
    return learner


def _generate(context: RunContext, options: GenerateSection) -> None:
    path = context.tasks_file
    if path.is_file():
        return
    known = {task.id: task for task in context.task_set["train"]}
    recorded = episodes_of_set(context.stage, context.task_set, context.stored_episodes.as_recorded())
    weak = [history for history in histories(recorded) if history.is_weak(options.below)]
    search = _Search(context, NewTasks(context.task_set), known, options)
    tasks = search.run([history.task for history in weak])
    refused = {reason: search.admission.refused[reason] for reason in sorted(search.admission.refused)}
    line = f"{context.stage}: {len(weak)} weak tasks, {len(tasks)} new ones like them"
    line += "".join(f", {count} refused ({reason})" for reason, count in refused.items())
    short = bool(weak) and len(tasks) < options.tasks
    line += f". The generator raised {search.error}" if search.error else ""
    context.console.print(line, style="yellow" if short else None, markup=False, highlight=False, soft_wrap=True)
    if not (tasks or options.with_set):
        raise RecipeError(
            f"{line}. There is nothing to train on: raise `below` or `tries`, or set with_set = true to train on the "
            "tasks of the set as well."
        )
    context.folder.create()
    parents = {"below": options.below, "weak": [history.task.id for history in weak]}
    context.folder.write_json(f"{GENERATED}.json", {**parents, "tasks": len(tasks), "refused": refused})
    context.folder.log(
        0, context.stage, weak_tasks=len(weak), new_tasks=len(tasks), refused_tasks=sum(refused.values())
    )
    TaskSet(context.stage, {"train": [*(known.values() if options.with_set else ()), *tasks]}).to_jsonl(path)


def episodes_of_set(stage: str, task_set: TaskSet, episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the episodes of the set's training tasks. Raises: RecipeError if there are none."""
    own = list(select_episodes(task_set["train"], episodes))
    if not own:
        raise RecipeError(
            f"The stage {stage!r} looks for weak tasks of {task_set.name}, but the given episodes are of other tasks, "
            f"such as {episodes[0].task.id!r}. Name episodes of this task set."
        )
    return own


def _generator_of(task_set: TaskSet, stage: str) -> Generate:
    if task_set.generate is None:
        raise RecipeError(
            f"[[stage]] {stage!r}: {task_set.name} cannot generate tasks. Give the TaskSet `generate`, a function of a "
            "task and a seed, or choose a set that has it, such as sql/store-v1 or text/doors-v1."
        )
    return task_set.generate


@dataclass
class _Search:
    """Generates tasks until enough are accepted.

    Attributes:
        admission: counts the rejected tasks by the reasons of NewTasks and these: "error" if the generator raised,
            "unsolved" if the oracle does not solve the task, "trivial" if a silent agent solves the task.
        known: the tasks of the set, by id.
        error: the first error of the generator.
    """

    context: RunContext
    admission: NewTasks
    known: dict[str, Task]
    options: GenerateSection
    error: str = ""

    def run(self, weak: Sequence[Task]) -> list[Task]:
        """Return up to `tasks` new tasks, cycling through the weak tasks as parents, in at most `tries` rounds."""
        if not weak:
            return []
        context, options = self.context, self.options
        parents = sorted(weak, key=lambda task: seed_of(context.recipe.seed, context.stage, task.id))
        numbers = count()
        accepted: list[Task] = []
        with TaskSet.training_only(), context.progress_bar(context.stage, options.tasks) as advance:
            for _ in range(options.tries):
                drawn = islice(numbers, options.tasks - len(accepted))
                candidates = [
                    task for n in drawn if (task := self._candidate(parents[n % len(parents)], n)) is not None
                ]
                for task in self._verified(candidates):
                    accepted.append(task)
                    advance()
                if len(accepted) == options.tasks:
                    break
        return accepted

    def _candidate(self, parent: Task, number: int) -> Task | None:
        """Return a new task similar to its parent; if it is rejected, count the reason and return None."""
        context = self.context
        generate = _generator_of(context.task_set, context.stage)
        try:
            task = generate(parent, seed_of(context.recipe.seed, context.stage, number))
            if not isinstance(task, Task):
                raise TaskError(f"`generate` returned {task!r:.60}, which is not a Task.")
            task = replace(
                task,
                id=f"{context.stage}/{number:05d}",
                split="train",
                tags=(*parent.tags, GENERATED),
                difficulty=parent.difficulty,
                origin=Origin("generate", parent.id),
            )
            json.dumps(task.to_json())
        except HeldOutError:
            raise
        except Exception as error:  # noqa: BLE001  a generator is anybody's code: its errors are counted, and the run goes on
            self.admission.refused["error"] += 1
            self.error = self.error or f"{type(error).__name__}: {error}"
            return None
        return task if self.admission.take(task) else None

    def _verified(self, candidates: Sequence[Task]) -> list[Task]:
        """Return the tasks that the oracle solves and a silent agent does not."""
        script = self.context.task_set.player("oracle")
        solved = self._successes(candidates, lambda task: ScriptedPolicy(script(task), name="oracle"), "oracle")
        self.admission.refused["unsolved"] += len(candidates) - len(solved)
        silent = self._successes(
            solved, lambda task: ScriptedPolicy(lambda messages: Message("assistant", "")), "silent"
        )
        trivial = {task.id for task in silent}
        self.admission.refused["trivial"] += len(trivial)
        self.admission.refused = +self.admission.refused
        return [task for task in solved if task.id not in trivial]

    def _successes(self, tasks: Sequence[Task], player: Any, name: str) -> list[Task]:
        """Return the tasks that a player solves."""
        if not tasks:
            return []
        label = f"{self.context.stage}-{name}"
        try:
            episodes = self.context.rollouts.play(player, tasks, label=label, group_size=1, record=False)
        except EpisodesFailed as error:
            self.error = self.error or str(error)
            return []
        return [episode.task for episode in episodes if episode.valid and episode.success_or_reward >= 1]
