"""Connect the stream to the training loop: publish weights, log metrics, and save the stream in checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import TrainerCallback

from agentgym.task.definition import Task
from agentgym.training.asynchronous.stream import GroupStream
from agentgym.training.processes import Processes
from agentgym.training.samplers import Sampler
from agentgym.trajectory.record import Trajectory

FILE = "stream.json"


class StreamCallback(TrainerCallback):
    """Publish the weights after every optimiser step, and end the training when no group is left.

    This callback must come before the logging callbacks and before CheckpointCompleteCallback.

    Args:
        stream: None in a process that does not play.
        tasks: the training tasks. `checkpoint`: where the training resumes; None at the start.
        console: where the exhaustion of the tasks is printed.
    """

    def __init__(
        self,
        stream: GroupStream | None,
        tasks: Sequence[Task],
        checkpoint: Path | None,
        console: Console,
        processes: Processes,
        groups_per_step: int,
    ) -> None:
        self._stream, self._tasks, self._checkpoint = stream, tasks, checkpoint
        self._console, self._processes, self._groups_per_step = console, processes, groups_per_step

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if self._stream is not None:
            if self._checkpoint is not None and (file := self._checkpoint / FILE).is_file():
                self._stream.resume(json.loads(file.read_text(encoding="utf-8")), self._tasks)
            self._stream.limit(math.ceil((state.max_steps - state.global_step) / args.num_iterations))
            self._stream.publish(state.global_step, progress=_progress(state))
        return control

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if self._stream is not None:
            self._stream.raise_error()
        return control

    on_substep_end = on_step_begin

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if self._processes.share(lambda: self._step_ended(state)):
            control.should_training_stop = True
        return control

    def _step_ended(self, state: Any) -> bool:
        """Publish the weights. Returns: whether no further batch will come."""
        stream = self._stream
        if stream is None:
            return False
        stream.step_ended()
        stream.publish(state.global_step, progress=_progress(state))
        is_over = stream.is_exhausted and stream.outstanding < self._groups_per_step
        if is_over and state.global_step < state.max_steps:
            self._console.print(
                f"Step {state.global_step}: the source of tasks is exhausted, so the training ends here.", markup=False
            )
        return is_over

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if logs is not None and self._stream is not None and "train_runtime" not in logs:
            logs.update(self._stream.metrics)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._stream is not None:
            file = Path(args.output_dir) / f"checkpoint-{state.global_step}" / FILE
            file.write_text(json.dumps(self._stream.state()), encoding="utf-8")


class StreamedSampler:
    """Wrap a recipe's sampler for a trainer with a stream; the stream draws the tasks ahead of the trainer."""

    def __init__(self, sampler: Sampler, tasks: Sequence[Task]) -> None:
        self._sampler, self._tasks = sampler, tasks

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Return `count` placeholder tasks: the stream gathers its own."""
        return [self._tasks[0]] * count

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        return self._sampler.update(groups)

    def state(self) -> dict[str, Any]:
        return self._sampler.state()

    def load(self, state: Mapping[str, Any]) -> None:
        self._sampler.load(state)


def _progress(state: Any) -> float:
    return float(min(state.global_step / max(state.max_steps, 1), 1.0))
