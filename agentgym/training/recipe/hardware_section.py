"""The recipe's [machine]: the hardware that trains and samples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.options import Count, Section, Weight
from agentgym.rollout.engine import Engine, LocalEngine, engine_of
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection


class HardwareSection(Section):
    """The hardware that trains and samples, and where episodes are played."""

    device: str = "auto"
    """cpu, cuda or cuda:N. auto takes a GPU if there is one."""
    threads: Count | None = None
    """How many threads torch uses. By default torch chooses."""
    lockstep: bool = True
    """Wait for every live episode before a batch is sampled, so that batches, and with them every float, are the same
    in every run on a CPU."""
    max_batch: Count = 256
    """The maximum number of requests in one forward pass."""
    max_batch_tokens: Count = 131_072
    """The maximum number of tokens in one forward pass. The keys and values of all tokens are in memory."""
    gradient_checkpointing: bool = False
    """Compute activations a second time for the gradient instead of keeping them. This takes about a third more time,
    and much less memory."""
    sharding: Literal["fsdp"] | None = None
    """With "fsdp", weights, gradients and the optimiser's state are divided among the processes that torchrun starts.
    It needs [vllm].
    """
    silence_s: Annotated[float, Field(gt=0)] = 300.0
    """The training ends if one of the processes that torchrun started does not answer for this many seconds."""
    engine: str = "local"
    """Where episodes are played: `local`, or `ray` for the nodes of a cluster."""
    address: str | None = None
    """The address of the cluster. By default it is the cluster that runs on this host."""
    nodes: Count | None = None
    """The minimum number of nodes that the cluster must have when the run begins."""
    wait_for_nodes_s: Weight | None = None
    """How many seconds a run waits for a node when its cluster has none left. By default it waits 300."""

    @property
    def torch_device(self) -> str:
        """Torch's name of the device. Raises: PolicyError for a device that is not available."""
        from agentgym.policy.device import device_of

        return device_of(self.device)

    def make_engine(self, episode: EpisodeSection, task_set: TaskSet) -> Engine | None:
        """Make the engine that plays the episodes; a cluster must offer sandboxes if the tasks need them.

        Raises: RecipeError for a program in the sandbox of an environment that has none.
        """
        backend, in_sandbox = None, episode.program.where == "sandbox"
        if in_sandbox or (self.engine != LocalEngine.name and episode.environment is None):
            names = [episode.environment] if episode.environment else [task.environment for task in task_set["train"]]
            sandboxed = {name: registry.prototype(name).sandbox is not None for name in dict.fromkeys(names)}
            if in_sandbox and not all(sandboxed.values()):
                name = next(name for name, has_sandbox in sandboxed.items() if not has_sandbox)
                raise RecipeError(
                    f"The environment {name!r} has no sandbox for episode.program. Set its where to 'host', or choose "
                    "tasks of another environment."
                )
            if any(sandboxed.values()):
                backend = episode.backend or registry.DEFAULT_BACKEND
        options: dict[str, Any] = {"address": self.address, "nodes": self.nodes, "backend": backend}
        program, wait_s = episode.program.options, self.wait_for_nodes_s
        return engine_of(self.engine, program=program, wait_for_nodes_s=wait_s, **options)
