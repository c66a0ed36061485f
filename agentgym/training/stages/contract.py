"""Stage is a registered kind of stage; PlannedStage is a stage of one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from agentgym import registry
from agentgym.options import Section
from agentgym.storage.adaptations import joined, note_adaptations
from agentgym.storage.run_folder import RunFolder, StageFolder
from agentgym.task.task_set import TaskSet
from agentgym.training.fit import Exclusion, PlannedPart, TrainingPlan
from agentgym.training.gatherers.contract import changes_left_in
from agentgym.training.parts import Adaptation, make_parts
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.stage_section import ReadsEpisodes
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.stages.context import STEP_TASKS, Learner, RunContext, with_tasks_of
from agentgym.training.stages.stored_episodes import EpisodeSource, nodes_label
from agentgym.trajectory.record import Trajectory

RunStage = Callable[..., Learner]
CheckStage = Callable[["PlannedStage", Sequence["PlannedStage"]], None]
CheckEpisodes = Callable[["PlannedStage", TaskSet, list[Trajectory]], None]
"""A check of a planned stage, given the run's task set and the episodes that the stage would learn from."""


@dataclass(frozen=True)
class Stage:
    """A kind of stage; `define_stage` makes one.

    A stage writes its result into `context.folder` atomically, so an interrupted run resumes at the first stage without
    a result.

    Attributes:
        run: called with the stage's context and the learner. Returns the learner for the next stage: the same one, or
            one loaded from the stage's checkpoint. The options of a stage without a `section` are passed as
            keyword arguments, or as the third argument if `options` is set.
        section: the recipe section whose keys the stage's options replace; None if the stage defines its own options.
        checkpoint: the name of the checkpoint that a finished stage leaves; None if the stage trains nothing.
        options: the class of the options of a stage without a `section`.
        plays: whether the ledger stores the stage's episodes under its name, for later stages to learn from.
        has_folder: whether the stage writes into stages/<name>; by default, if there is a checkpoint.
        makes_tasks: whether the stage leaves training tasks in its folder for a later `reinforce`.
        result: the file or folder, relative to the stage's folder, that a finished stage leaves, with {name} for the
            stage's name; by default, the tasks that it makes, or the checkpoint. "" for none.
        trains_in_parts: whether the stage trains a model whose weights are sharded over several processes.
        excludes: checks for incompatible settings; each is called with the planned stage.
        check: called with the planned stage and the stages before it, before anything starts. Raises: RecipeError.
        check_episodes: a check that runs before anything starts if all of the stage's episodes are already stored in
            other runs. They may lack token ids of this policy. Raises: RecipeError if there is nothing to learn from.
    """

    run: RunStage
    section: str | None = None
    checkpoint: str | None = None
    options: type[Section] | None = None
    plays: bool = False
    has_folder: bool | None = None
    makes_tasks: bool = False
    result: str = ""
    trains_in_parts: bool = False
    excludes: tuple[Exclusion, ...] = ()
    check: CheckStage | None = None
    check_episodes: CheckEpisodes | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.run.__doc__)  # `agentgym list` shows it
        if self.has_folder is None:
            object.__setattr__(self, "has_folder", self.checkpoint is not None)
        if not self.result and (self.makes_tasks or self.checkpoint is not None):
            object.__setattr__(self, "result", STEP_TASKS if self.makes_tasks else f"checkpoints/{self.checkpoint}")


def define_stage(**declared: Any) -> Callable[[RunStage], Stage]:
    """Decorate the function of a stage, to be registered under the kind `stages`. `declared`: attributes of Stage."""
    return lambda run: Stage(run, **declared)


@dataclass(frozen=True, slots=True)
class PlannedStage(PlannedPart):
    """A stage of one run.

    Attributes:
        name: unique in the run. kind: the registered kind.
        recipe: the run's recipe, with the stage's options in their section.
        options: the options of a stage without a section; a Section if the stage defines an options class.
        has_folder: whether the stage saves its checkpoints in stages/<name> instead of the run folder.
        base_name: the name without the round number that `repeat` adds.
        sources: the episodes that the stage learns from, if any.
        tasks_of: the stage whose tasks this stage trains on, instead of the task set's.
        earlier: the stages before this one.
    """

    name: str
    kind: str
    stage: Stage
    recipe: Recipe
    options: Mapping[str, Any] | Section = field(default_factory=dict)
    has_folder: bool = False
    base_name: str = ""
    sources: Sequence[EpisodeSource] = ()
    tasks_of: PlannedStage | None = None
    earlier: Sequence[PlannedStage] = field(default=(), repr=False)

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        sharding, stage = plan.hardware.sharding, self.stage
        if sharding is not None and stage.checkpoint is not None and not stage.trains_in_parts:
            in_parts = [kind for kind in registry.names("stages") if registry.load("stages", kind).trains_in_parts]
            yield (
                f"machine.sharding = {sharding!r}: the stage {self.name!r} trains a model that is whole, and only "
                f"{' and '.join(in_parts)} train one in parts. Run it by itself, without sharding."
            )
        yield from filter(None, (excludes(self, plan) for excludes in stage.excludes))

    def players(self, earlier: Sequence[PlannedStage]) -> list[PlannedStage]:
        """Return the earlier stages of this run whose episodes, or nodes of searches, the stage learns from."""
        labels = {source.label for source in self.sources if not source.run}
        return [stage for stage in earlier if labels & {stage.name, nodes_label(stage.name)}]

    def context(self, context: RunContext) -> RunContext:
        """Return the run's context with this stage's recipe, folder, name and sources."""
        trained = [stage for stage in self.earlier if stage.stage.checkpoint is not None]
        checkpoints = {
            stage.name: stage.folder(context.folder).checkpoints / str(stage.stage.checkpoint) for stage in trained
        }
        return replace(
            context,
            recipe=self.recipe,
            folder=self.folder(context.folder),
            stage=self.name,
            sources=self.sources,
            earlier_checkpoints=checkpoints,
            adapted=joined(context.adapted, *_adaptations(self.earlier, context.task_set)),
        )

    def folder(self, run: RunFolder) -> RunFolder:
        """Return the folder that the stage writes into."""
        return StageFolder(run, self.name) if self.has_folder else run

    def run(self, context: RunContext, learner: Learner) -> Learner:
        """Run the stage. Returns: the learner for the next stage."""
        changes: dict[str, Any] = {}
        for stage in self.earlier:
            if stage.stage.section == "train":
                changes |= changes_left_in(stage.folder(context.folder), stage.recipe.train.gather)
        context = replace(context, rollouts=context.rollouts.with_config(**changes))
        if self.tasks_of is not None:
            context = replace(context, task_set=with_tasks_of(self.tasks_of.folder(context.folder), context.task_set))
        if isinstance(self.options, Section):
            return self.stage.run(self.context(context), learner, self.options)
        return self.stage.run(self.context(context), learner, **self.options)

    def mark(self, context: RunContext) -> None:
        """Note in the stage's checkpoint to which tasks without truth this or an earlier stage adapted the policy."""
        if (checkpoint := self.stage.checkpoint) is not None:
            own = _adaptations([*self.earlier, self], context.task_set)
            note_adaptations(self.folder(context.folder).checkpoints / checkpoint, joined(context.adapted, *own))

    @property
    def section(self) -> Any:
        """Return the stage's settings: its section of the recipe, or its options."""
        return self.options if self.stage.section is None else getattr(self.recipe, self.stage.section)

    @property
    def reads_episodes(self) -> ReadsEpisodes | None:
        """Return the settings that name the stored episodes the stage learns from; None if the stage reads none."""
        section = self.section.experts if isinstance(self.section, TrainSection) else self.section
        return section if isinstance(section, ReadsEpisodes) else None

    def is_done(self, context: RunContext) -> bool:
        """Return whether the stage's checkpoint exists.

        A finished stage without a checkpoint is run again, and finds its result.
        """
        checkpoint = self.stage.checkpoint
        return checkpoint is not None and (self.folder(context.folder).checkpoints / checkpoint).is_dir()

    def result(self, context: RunContext) -> Path | None:
        """Return the path of the stage's result; None if it leaves no file, or only episodes in the ledger."""
        result = self.stage.result
        return self.folder(context.folder).path / result.format(name=self.name) if result else None


def _adaptations(stages: Sequence[PlannedStage], task_set: TaskSet) -> Iterator[str]:
    for stage in stages:
        for part in make_parts(stage.recipe.train.parts, ()) if stage.stage.section == "train" else ():
            if (adaptation := Adaptation.of(part, task_set)) is not None:
                yield str(adaptation)
