"""What happens beside the optimisation: metrics to file, a progress bar, validation, complete checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.progress import Progress, TaskID
from transformers import TrainerCallback

from agentgym.episode.run_folder import RunFolder
from agentgym.training.curriculum import Curriculum

COMPLETE = "complete"
"""Name of the empty file that a checkpoint folder gets last: without it, it was cut short and is not resumed from."""


class Logged(TrainerCallback):
    """Every number TRL logs goes to the run's metrics file and onto the progress bar."""

    def __init__(self, folder: RunFolder, phase: str, progress: Progress, bar: TaskID, show: dict[str, str]) -> None:
        self._folder, self._phase, self._progress, self._bar, self._show = folder, phase, progress, bar, show

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        numbers = {k: float(v) for k, v in (logs or {}).items() if isinstance(v, (int, float)) and math.isfinite(v)}
        if "train_runtime" in numbers:
            return  # the closing summary of a stage, not a step of it
        self._folder.log(state.global_step, self._phase, **numbers)
        told = [f"{word} {numbers[key]:.3f}" for key, word in self._show.items() if key in numbers]
        self._progress.update(self._bar, note="  ".join(told))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._progress.update(self._bar, completed=state.global_step, total=state.max_steps)


class Validated(TrainerCallback):
    """Plays validation tasks every few steps; may end the training when they succeed often enough.

    Args:
        play: plays them with the current weights and returns their metrics; gets the step.
        every: optimiser steps between two looks.
        until: success at which to stop, None to go on.
    """

    def __init__(self, play: Callable[[int], dict[str, float]], *, every: int, until: float | None = None) -> None:
        self._play, self._every, self._until = play, every, until
        self.last: dict[str, float] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.global_step % self._every and state.global_step != state.max_steps:
            return control
        self.last = self._play(state.global_step)
        if self._until is not None and self.last.get("success", 0.0) >= self._until:
            control.should_training_stop = True
        return control


class Marked(TrainerCallback):
    """Marks a checkpoint as complete once everything in it is written, a curriculum's state included."""

    def __init__(self, curriculum: Curriculum | None = None) -> None:
        self._curriculum = curriculum

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self._curriculum is not None:
            self._curriculum.save_in(folder)
        (folder / COMPLETE).touch()


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint in a folder; one that was cut short is passed over."""
    found = [path for path in folder.glob("checkpoint-*") if (path / COMPLETE).is_file()]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)
