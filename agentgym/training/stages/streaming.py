"""Reinforcement whose episodes are played in the background, where the recipe asks for it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.policy.contract import Policy
from agentgym.policy.transformers import TransformersPolicy
from agentgym.training.asynchronous.callback import StreamCallback, StreamedSampler
from agentgym.training.asynchronous.stream import Capacity, GroupStream, shuffled
from agentgym.training.gatherers import Gatherer, play_groups
from agentgym.training.model.sharding import plain_forward
from agentgym.training.samplers import Sampler
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.vllm.engine import TrainedVllmPolicy, TrainedVllmPool


def sampling_copy(model: Any) -> Any:
    """Return a copy to sample from, in eval mode, for `TransformersPolicy.update_weights`.

    A trainer changes the mode of its model, its hooks and, in the middle of an optimiser step, its weights. A copy
    costs the memory of the weights that are trained; those that are not, as beneath a LoRA adapter, are shared.

    Its parameters require gradients as the model's do, though none is computed: torch multiplies by a matrix that
    requires a gradient in another way, and the last bits differ.
    """
    shared = {id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad}
    with plain_forward(model):
        return copy.deepcopy(model, shared).eval()


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
    """Open a player that runs until this is left; None where the recipe has each step played when it is trained."""
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
    policy, take_weights = _sampler(context, learner)
    stream = GroupStream(
        context.rollouts,
        policy,
        take_weights,
        draw=shuffled(tasks, context.recipe.seed) if sampler is None else sampler.draw,
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
    """Return what plays, and what gives it the weights of the model.

    In this process it has a copy of the model, made before a trainer changes how the model computes. A vLLM server has
    one anyhow.
    """
    section, served = context.recipe.train, learner.policy
    if isinstance(served, TrainedVllmPolicy | TrainedVllmPool):
        return served, lambda version: context.rollouts.loop.run(served.refresh(version))
    waits_for_all = not section.staleness and section.group_quorum is None  # else one slow tool would hold up all
    policy = context.learner(sampling_copy(learner.model), learner.processing_class, lockstep=waits_for_all).policy
    assert isinstance(policy, TransformersPolicy)
    return policy, lambda version: policy.update_weights(learner.model, version=version)
