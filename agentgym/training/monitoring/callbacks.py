"""Trainer callbacks: they log metrics to a file and a progress bar, validate, mark complete checkpoints, and run the
collapse guard.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import TaskID
from transformers import TrainerCallback

from agentgym.evaluation.collapse_guard import Alarm, CollapseGuard
from agentgym.evaluation.cuts import format_cuts, recipe_option
from agentgym.evaluation.diagnostics import CUT
from agentgym.evaluation.guard_section import GuardSection
from agentgym.rollout.progress import PhaseProgress
from agentgym.storage.checkpoints import COMPLETE, HEALTHY, healthy_step, keep_healthy
from agentgym.storage.run_folder import RunFolder
from agentgym.training.loss.shared_prefixes import why_unshared
from agentgym.training.parts import TrainingPart
from agentgym.training.processes import ALONE, Processes


class LoggingCallback(TrainerCallback):
    """Writes every number that TRL logs to the run's metrics file, and shows some next to the progress bar.

    Only the first process writes.
    """

    def __init__(
        self, folder: RunFolder, phase: str, progress: PhaseProgress, bar: TaskID, titles: dict[str, str]
    ) -> None:
        self._folder, self._phase, self._progress, self._bar, self._titles = folder, phase, progress, bar, titles

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        numbers = {k: float(v) for k, v in (logs or {}).items() if isinstance(v, (int, float)) and math.isfinite(v)}
        if "train_runtime" in numbers or not state.is_world_process_zero:
            return  # a stage's closing summary is not a step
        self._folder.log(state.global_step, self._phase, **numbers)
        notes = [f"{title} {numbers[key]:.3f}" for key, title in self._titles.items() if key in numbers]
        cuts = {key.removeprefix(CUT): number for key, number in numbers.items() if key.startswith(CUT)}
        notes += [text] if (text := format_cuts(cuts, recipe_option)) else []
        self._progress.update(self._bar, note="  ".join(notes))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._progress.update(self._bar, completed=state.global_step, total=state.max_steps)


class ValidationCallback(TrainerCallback):
    """Plays validation tasks every few steps, and may stop the training when success reaches a rate.

    Args:
        play: called with the step, plays the tasks with the current weights, and returns the metrics.
        every: number of optimiser steps between two validations.
        until: success rate at which training stops; None never stops it.
        before: whether to also validate before the first step.
    """

    def __init__(
        self,
        play: Callable[[int], dict[str, float]],
        *,
        every: int,
        until: float | None = None,
        before: bool = False,
    ) -> None:
        self._play, self._every, self._until, self._before = play, every, until, before
        self.last: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._before and state.global_step == 0:
            self.last = self._play(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.global_step % self._every and state.global_step != state.max_steps:
            return control
        self.last = self._play(state.global_step)
        if self._until is not None and self.last.get("success", 0.0) >= self._until:
            control.should_training_stop = True
        return control


def success_reached_at(folder: RunFolder, until: float | None) -> int | None:
    """Return the step of a run's last validation if it reached `until` and so stopped the training; else None.

    A validation before the first step never stops the training.
    """
    validations = [row for row in folder.metrics("validation") if row["step"] > 0]
    if until is None or not validations or validations[-1].get("success", 0.0) < until:
        return None
    return int(validations[-1]["step"])


class UnsharedPromptsCallback(TrainerCallback):
    """After the first step, shows why shared prompts are computed separately for each row, if they are.

    Args:
        show: called with the reason.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show, self._is_said = show, False

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if not self._is_said and (reason := why_unshared(model)) is not None:
            self._show(f"A prompt that several rows share is computed for each of them, because {reason}.")
        self._is_said = True


class CheckpointCompleteCallback(TrainerCallback):
    """Marks a checkpoint as complete after everything is written, including the states of the training's parts."""

    def __init__(self, parts: Sequence[TrainingPart] = ()) -> None:
        self._parts = parts

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        for part in self._parts:
            part.save(folder)
        (folder / COMPLETE).touch()


class CollapseGuardCallback(TrainerCallback):
    """Passes every logged step to a collapse guard, keeps the last healthy checkpoint, and stops the run if configured.

    This callback must come after CheckpointCompleteCallback. Alarms are written to guard.json in the run folder. In a
    resumed run, the guard first observes the earlier logged steps.

    Args:
        section: the recipe's [guard].
        console: where each alarm is printed.
        processes: the processes that train together; the first process's guard decides.
    """

    def __init__(
        self,
        section: GuardSection,
        folder: RunFolder,
        console: Console,
        processes: Processes = ALONE,
    ) -> None:
        self._guard, self._folder, self._console, self._processes = CollapseGuard(section), folder, console, processes
        self._healthy = folder.checkpoints / HEALTHY
        self.stopped = self._must_stop = False
        for row in folder.metrics("train"):
            self._guard.observe(int(row["step"]), row)
        for row in folder.metrics("validation"):
            self._guard.observe_validation(int(row["step"]), row.get("success", math.nan))

    def note_validation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Pass the metrics of a validation to the guard. Called in the first process."""
        self._must_stop |= self._tell(self._guard.observe_validation(step, metrics.get("success", math.nan)))

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> Any:
        if "train_runtime" in (logs or {}):
            return control
        if self._processes.share(lambda: self._observe(state.global_step, logs or {})):
            self.stopped = control.should_training_stop = True
        return control

    def _observe(self, step: int, logs: dict[str, Any]) -> bool:
        """Check a step. Returns: whether the training must stop."""
        return self._tell(self._guard.observe(step, logs)) or self._must_stop

    def _tell(self, raised: Sequence[Alarm]) -> bool:
        """Print and record alarms. Returns: whether the training must stop."""
        stop = bool(raised) and self._guard.settings.on_alarm == "stop"
        for alarm in raised:
            last_healthy = healthy_step(self._healthy)
            healthy = f"that of step {last_healthy}" if last_healthy else "none"
            text = f"Collapse guard, step {alarm.step}: {alarm.reason}. Last healthy checkpoint: {healthy}."
            self._console.print(text, style="yellow", markup=False)
        if raised:
            alarms = [
                asdict(alarm) | {"value": str(alarm.value), "limit": str(alarm.limit)} for alarm in self._guard.alarms
            ]
            self._folder.write_json("guard.json", {"stopped": stop, "alarms": alarms})
        return stop

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and self._guard.healthy and not self.stopped:
            keep_healthy(Path(args.output_dir) / f"checkpoint-{state.global_step}", self._healthy)
