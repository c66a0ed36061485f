"""What a stage of a run is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.training.stages.context import Learner, RunContext

RunStage = Callable[..., Learner]
StageCheck = Callable[[str, Mapping[str, Any], Mapping[str, str]], None]


@dataclass(frozen=True)
class Stage:
    """A kind of stage; `define_stage` makes one.

    Attributes:
        run: gets the context of this stage and the learner. It returns the learner for the next stage: the same one, or
            that of the checkpoint which it saved. The options of a stage without a `section` are its keyword arguments.
        section: of the recipe, whose keys the stage's options replace; None if the stage has options of its own.
        checkpoint: the name of the checkpoint that it leaves once it is done; None if it trains nothing.
        check: gets how the stage is called in messages, its options, and the kind of each stage before it by name,
            before anything is trained. It raises RecipeError for what cannot work. None if nothing can be checked then.
    """

    run: RunStage
    section: str | None = None
    checkpoint: str | None = None
    check: StageCheck | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.run.__doc__)  # what `agentgym list` shows

    def is_done(self, context: RunContext) -> bool:
        """Whether its checkpoint is there. A stage without one is run again; it finds its own result."""
        return self.checkpoint is not None and (context.folder.checkpoints / self.checkpoint).is_dir()


def define_stage(
    *, section: str | None = None, checkpoint: str | None = None, check: StageCheck | None = None
) -> Callable[[RunStage], Stage]:
    """Decorate the function of a stage, to be registered under the kind `stages`.

    A stage leaves its result in `context.folder`, complete or not at all, so that a run that was interrupted goes on
    with the first stage that has none.

    Args:
        section, checkpoint, check: see Stage.
    """
    return lambda run: Stage(run, section, checkpoint, check)
