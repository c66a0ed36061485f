"""The recipe's [machine]: the hardware that trains and samples."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

from pydantic import model_validator

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.number_types import Positive
from agentgym.options import Count, Section
from agentgym.rollout.engine import Engine, LocalEngine, engine_of
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection


class VllmSection(Section):
    """A vLLM server, or several, that samples every reply of the agent, in training and in measurements.

    Without `url`, a server is started for the run, on a socket that only this user can reach, and ends with the run.
    """

    url: str | list[str] | None = None
    """The address of a server that runs already, for example "http://10.0.0.5:8000", or a list of addresses. An episode
    stays on one of several servers, and a server that fails or hangs is left out (see PolicyPool)."""
    model: str | None = None
    """The name by which a running server serves the model. By default it is the first model that the server lists."""
    folder: str | None = None
    """The folder in which the server reads new weights. It must be the same folder on all machines. By default it is in
    the run's folder.
    """
    python: str | None = None
    """The interpreter of an environment that has vLLM, to start the server with. By default it is the interpreter that
    trains."""
    gpus: str | None = None
    """Which GPUs the started server uses, for example "1" or "2,3". By default it uses all, and 40% of their memory."""
    options: list[str] = []
    """Further arguments of the started server, as `vllm serve` takes them, for example ["--max-model-len=4096"]."""
    start_s: Positive = 600.0
    """The seconds within which a started server must be ready."""
    deadline_s: Positive = 300.0
    """The number of seconds in which one of several servers must answer a request or load new weights. A slower server
    is left out.
    """

    @property
    def urls(self) -> list[str]:
        """The addresses of servers that run already."""
        return [self.url] if isinstance(self.url, str) else list(self.url or ())

    @model_validator(mode="after")
    def _one_server(self) -> VllmSection:
        of_started = [key for key in ("python", "gpus", "options") if getattr(self, key)]
        if self.url is not None and not self.urls:
            raise ValueError("url is an empty list: name a server, or leave url out to have one started")
        if twice := [url for url, count in Counter(self.urls).items() if count > 1]:
            raise ValueError(f"url lists {twice[0]!r} twice: give each server once")
        if self.url is not None and of_started:
            raise ValueError(
                f"{of_started[0]} applies to a server that the run starts, but url names one that is already running: "
                "leave out one of them"
            )
        if self.url is None and self.model is not None:
            raise ValueError("model names the model of a server that is already running: give its url as well")
        return self


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
    engine: str = "local"
    """Where episodes are played: `local`, or `ray` for the nodes of a cluster."""
    address: str | None = None
    """The address of the cluster. By default it is the cluster that runs on this host."""
    nodes: Count | None = None
    """The minimum number of nodes that the cluster must have when the run begins."""

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
        return engine_of(self.engine, program=episode.program.options, **options)
