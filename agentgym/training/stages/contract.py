"""What a stage of a run is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.options import Section
from agentgym.task import TaskSet
from agentgym.training.fit import Exclusion
from agentgym.training.stages.context import Learner, RunContext
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.training.stages.plan import PlannedStage

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
        section: of the recipe, whose keys the stage's options replace; None if the stage has options of its own.
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
