"""Background play of a reinforcement: makes the stream, and connects it to the training loop and the checkpoints."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import TrainerCallback

from agentgym.policy.contract import Policy
from agentgym.policy.transformers import TransformersPolicy
from agentgym.policy.vllm_training import TrainedVllmPolicy, TrainedVllmPool
from agentgym.task.definition import Task
from agentgym.training.asynchronous.stream import Capacity, GroupStream
from agentgym.training.gatherers import Gatherer, play_groups
from agentgym.training.model.sharding import plain_forward
from agentgym.training.processes import Processes
from agentgym.training.samplers import Sampler
from agentgym.training.stages.context import Learner, RunContext
from agentgym.trajectory.record import Trajectory

FILE = "stream.json"


class StreamCallback(TrainerCallback):
    """Publishes the weights after every optimiser step, and ends the training when no group is left.

    This callback must come before the logging callbacks and before CheckpointCompleteCallback.

    Args:
        stream: None in a process that does not play.
        tasks: the training tasks. `checkpoint`: the checkpoint from which the training resumes; None at the start.
        console: prints that the tasks are exhausted.
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


class StreamedSampler(Sampler):
    """Wraps a recipe's sampler for a trainer with a stream, which draws the tasks ahead of the trainer.

    The state that a checkpoint saves is that of the recipe's own sampler.
    """

    def __init__(self, sampler: Sampler, tasks: Sequence[Task]) -> None:
        self._sampler, self._tasks = sampler, tasks

    def draw(self, count: int, step: int, further: int = 0) -> list[Task]:
        """Return `count` placeholder tasks: the stream gathers its own."""
        return [self._tasks[0]] * count

    def update(self, groups: Sequence[Sequence[Trajectory]]) -> Mapping[str, float]:
        return self._sampler.update(groups)


def _progress(state: Any) -> float:
    return float(min(state.global_step / max(state.max_steps, 1), 1.0))


def sampling_copy(model: Any) -> Any:
    """Return a copy to sample from, in eval mode, for `TransformersPolicy.update_weights`.

    A trainer changes its model's mode, hooks and, during an optimiser step, weights. The copy needs memory for the
    trained weights; frozen weights, as below a LoRA adapter, are shared.

    The copy's parameters keep `requires_grad`, though no gradient is computed. Torch multiplies differently by a matrix
    that requires a gradient, so without this the last bits would differ.
    """
    shared = {id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad}
    with plain_forward(model):
        return copy.deepcopy(model, shared).eval()


@dataclass(frozen=True, slots=True)
class Streaming:
    """The trainer's components for background play, instead of playing each step on request.

    Attributes:
        gather: returns finished groups. `callback`: publishes weights and logs.
        sampler: learns from the groups; their tasks were drawn ahead.
    """

    gather: Gatherer
    callback: StreamCallback
    sampler: Sampler


@contextmanager
def streaming(
    context: RunContext, learner: Learner, sampler: Sampler, checkpoint: Path | None
) -> Iterator[Streaming | None]:
    """Run a background player inside the block; yield None if the recipe plays each step when it is trained."""
    section, processes = context.recipe.train, context.processes
    if not section.is_streamed:
        yield None
        return
    tasks = list(context.task_set["train"])
    known_sampler = StreamedSampler(sampler, tasks)
    groups = section.tasks_per_step
    after = (tasks, checkpoint, context.console, processes, groups)
    if not processes.is_first:
        yield Streaming(play_groups, StreamCallback(None, *after), known_sampler)
        return
    policy, take_weights = _sampler(context, learner)
    stream = GroupStream(
        context.rollouts,
        policy,
        take_weights,
        draw=sampler.draw,
        label=context.folder.phase("train"),
        capacity=Capacity(section.staleness, groups),
        group_size=section.group_size,
        quorum=section.group_quorum,
        iterations=section.passes,
    )
    with context.rollouts.loop.in_thread():
        try:
            yield Streaming(stream.gather, StreamCallback(stream, *after), known_sampler)
        finally:
            stream.close()
            if policy is not learner.policy:
                context.rollouts.finish(policy.close())


def _sampler(context: RunContext, learner: Learner) -> tuple[Policy, Callable[[int], None]]:
    """Return the policy that plays, and the function that gives the model's weights to it.

    In this process, the policy gets a copy of the model, made before the trainer changes how the model computes. A vLLM
    server has its own copy.
    """
    section, served = context.recipe.train, learner.policy
    if isinstance(served, TrainedVllmPolicy | TrainedVllmPool):
        return served, lambda version: context.rollouts.loop.run(served.refresh(version))
    waits_for_all = not section.staleness and section.group_quorum is None  # otherwise one slow tool would delay all
    policy = context.learner(sampling_copy(learner.model), learner.processing_class, lockstep=waits_for_all).policy
    assert isinstance(policy, TransformersPolicy)
    return policy, lambda version: policy.update_weights(learner.model, version=version)
