"""Reinforcement whose episodes are played in the background, where the recipe asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import PolicyError
from agentgym.policy.transformers import TransformersPolicy
from agentgym.training.asynchronous.callback import StreamCallback, StreamedSampler
from agentgym.training.asynchronous.capacity import Capacity
from agentgym.training.asynchronous.sampling_copy import sampling_copy
from agentgym.training.asynchronous.stream import GroupStream
from agentgym.training.asynchronous.task_order import shuffled
from agentgym.training.gatherers import Gatherer, play_groups
from agentgym.training.samplers import Sampler
from agentgym.training.stages.context import Learner, RunContext


@dataclass(frozen=True, slots=True)
class Streaming:
    """What a trainer is given instead of what plays a step when it is asked to.

    Attributes:
        gather: hands over groups that are finished. `callback`: publishes weights and logs.
        sampler: learns from the groups; their tasks were drawn ahead.
    """

    gather: Gatherer
    callback: StreamCallback
    sampler: Sampler | None


@contextmanager
def streaming(
    context: RunContext, learner: Learner, sampler: Sampler | None, checkpoint: Path | None
) -> Iterator[Streaming | None]:
    """Open a player that runs until this is left; None where the recipe has each step played when it is trained.

    The player has a copy of the model, made before a trainer changes how the model computes.
    """
    section, processes = context.recipe.train, context.processes
    if not section.is_streamed:
        yield None
        return
    tasks = list(context.task_set["train"])
    known_sampler = None if sampler is None else StreamedSampler(sampler, tasks)
    groups = section.tasks_per_step
    after = (tasks, checkpoint, context.console, processes, groups)
    if not processes.is_first:
        yield Streaming(play_groups, StreamCallback(None, *after), known_sampler)
        return
    waits_for_all = not section.staleness and section.group_quorum is None  # else one slow tool would hold up all
    copy = context.learner(sampling_copy(learner.model), learner.processing_class, lockstep=waits_for_all)
    if not isinstance(copy.policy, TransformersPolicy):
        raise PolicyError("Playing in the background samples in this process: leave [vllm] out.")
    stream = GroupStream(
        context.rollouts,
        copy.policy,
        learner.model,
        draw=shuffled(tasks, context.recipe.seed) if sampler is None else sampler.draw,
        label=context.folder.phase("train"),
        capacity=Capacity(section.staleness, groups),
        group_size=section.group_size,
        quorum=section.group_quorum,
        iterations=section.iterations,
        budgets_at=context.recipe.episode.budgets_at,
    )
    with context.rollouts.loop.in_thread():
        try:
            yield Streaming(stream.gather, StreamCallback(stream, *after), known_sampler)
        finally:
            stream.close()
            context.rollouts.finish(copy.policy.close())
