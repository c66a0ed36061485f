"""What a stage is: a kind that is registered, and a stage of one run."""

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
from agentgym.task import TaskSet
from agentgym.training.fit import Exclusion, PlannedPart, TrainingPlan
from agentgym.training.gatherers.contract import changes_left_in
from agentgym.training.recipe.recipe import Recipe
from agentgym.training.recipe.stage_section import ReadsEpisodes
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.stages.context import Learner, RunContext, with_tasks_of
from agentgym.training.stages.episode_sources import EpisodeSource
from agentgym.trajectory import Trajectory

RunStage = Callable[..., Learner]
CheckStage = Callable[["PlannedStage", Sequence["PlannedStage"]], None]
CheckEpisodes = Callable[["PlannedStage", TaskSet, list[Trajectory]], None]
"""Called with the planned stage, the run's task set, and the episodes that the stage would learn from."""


@dataclass(frozen=True)
class Stage:
    """A kind of stage; `define_stage` makes one.

    Attributes:
        run: gets the context of this stage and the learner. It returns the learner for the next stage: the same one, or
            that of the checkpoint which it saved. The options of a stage without a `section` are its keyword arguments,
            or its third argument if `options` says what they are.
        section: the section of the recipe, whose keys the stage's options replace; None if the stage has options of its
            own.
        checkpoint: the name of the checkpoint that it leaves once it is done; None if it trains nothing.
        options: what the options of a stage without a `section` are made into.
        plays: whether the ledger keeps its episodes under its name, for later stages to learn from.
        has_folder: whether it writes into stages/<name>.
        makes_tasks: whether it leaves training tasks for a later `reinforce` in its folder.
        result: the file or folder in its folder that is there once it is done, with {name} for its name; "" for one
            that leaves none.
        trains_in_parts: whether it trains a model whose weights lie in parts in several processes.
        excludes: what it does not go with; each is called with the planned stage.
        check: gets the planned stage and those before it, before anything starts. Raises: RecipeError.
        check_episodes: likewise, where all of its episodes are stored in other runs already. They may have no token
            ids of this policy yet. Raises: RecipeError where they hold nothing to learn from.
    """

    run: RunStage
    section: str | None = None
    checkpoint: str | None = None
    options: type[Section] | None = None
    plays: bool = False
    has_folder: bool = False
    makes_tasks: bool = False
    result: str = ""
    trains_in_parts: bool = False
    excludes: tuple[Exclusion, ...] = ()
    check: CheckStage | None = None
    check_episodes: CheckEpisodes | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.run.__doc__)  # what `agentgym list` shows

    def is_done(self, context: RunContext) -> bool:
        """Whether its checkpoint is there. A stage without one is run again; it finds its own result."""
        return self.checkpoint is not None and (context.folder.checkpoints / self.checkpoint).is_dir()

    def result_in(self, context: RunContext) -> Path | None:
        """Where its result is once it is done; None for one that leaves none, or only episodes in the ledger."""
        return context.folder.path / self.result.format(name=context.stage) if self.result else None


def define_stage(
    *,
    section: str | None = None,
    checkpoint: str | None = None,
    options: type[Section] | None = None,
    plays: bool = False,
    has_folder: bool | None = None,
    makes_tasks: bool = False,
    result: str = "",
    trains_in_parts: bool = False,
    excludes: tuple[Exclusion, ...] = (),
    check: CheckStage | None = None,
    check_episodes: CheckEpisodes | None = None,
) -> Callable[[RunStage], Stage]:
    """Decorate the function of a stage, to be registered under the kind `stages`.

    A stage leaves its result in `context.folder`, complete or not at all, so that a run that was interrupted goes on
    with the first stage that has none.

    Args:
        section, checkpoint, options, plays, makes_tasks, trains_in_parts, excludes, check, check_episodes: see Stage.
        has_folder: likewise; by default where there is a checkpoint.
        result: likewise; by default the checkpoint.
    """
    in_folder = checkpoint is not None if has_folder is None else has_folder
    left = f"checkpoints/{checkpoint}" if checkpoint is not None and not result else result
    return lambda run: Stage(
        run,
        section=section,
        checkpoint=checkpoint,
        options=options,
        plays=plays,
        has_folder=in_folder,
        makes_tasks=makes_tasks,
        result=left,
        trains_in_parts=trains_in_parts,
        excludes=excludes,
        check=check,
        check_episodes=check_episodes,
    )


@dataclass(frozen=True, slots=True)
class PlannedStage(PlannedPart):
    """A stage of one run.

    Attributes:
        name: unique in the run. kind: registered.
        recipe: the run's, with the stage's options in their section.
        options: the options of a stage without a section; a Section where the stage says which.
        has_folder: whether it keeps its checkpoints in stages/<name> instead of the run folder.
        base_name: the name without the number of the round, which `repeat` adds.
        sources: the episodes that it learns from, if it learns from any.
        tasks_of: the stage whose tasks it trains on, instead of those of the set.
        earlier: the stages before it.
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

    def context(self, context: RunContext) -> RunContext:
        """Return the context of the run, as this stage sees it."""
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
        """Where it writes, in the folder of the run."""
        return StageFolder(run, self.name) if self.has_folder else run

    def run(self, context: RunContext, learner: Learner) -> Learner:
        """Run it. Returns: the learner for the next stage."""
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
        """Write into its checkpoint what that was adapted to without labels, by this stage or before it."""
        if (checkpoint := self.stage.checkpoint) is not None:
            own = _adaptations([*self.earlier, self], context.task_set)
            note_adaptations(self.folder(context.folder).checkpoints / checkpoint, joined(context.adapted, *own))

    @property
    def section(self) -> Any:
        """What says how it runs: its section of the recipe, or its options."""
        return self.options if self.stage.section is None else getattr(self.recipe, self.stage.section)

    @property
    def reads_episodes(self) -> ReadsEpisodes | None:
        """What names the episodes that it learns from, beside its own or instead of them; None for one without."""
        section = self.section.experts if isinstance(self.section, TrainSection) else self.section
        return section if isinstance(section, ReadsEpisodes) else None

    def is_done(self, context: RunContext) -> bool:
        """Whether it has trained and saved what it was to."""
        return self.stage.is_done(self.context(context))

    def result(self, context: RunContext) -> Path | None:
        """Return the file or folder that it leaves, if it leaves any."""
        return self.stage.result_in(self.context(context))


def _adaptations(stages: Sequence[PlannedStage], task_set: TaskSet) -> Iterator[str]:
    for stage in stages:
        if stage.stage.section == "train" and (adapt := stage.recipe.train.adapt) is not None:
            yield adapt.describe(task_set)
