"""The recipe's [machine]: the hardware that trains and samples."""

from __future__ import annotations

from typing import Literal

from agentgym.options import Count, Section


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
    """How many requests one forward pass may hold."""
    max_batch_tokens: Count = 131_072
    """How many tokens, whose keys and values are in memory, one forward pass may hold."""
    gradient_checkpointing: bool = False
    """Compute activations a second time for the gradient instead of keeping them. It takes about a third more time, and
    much less memory."""
    sharding: Literal["fsdp"] | None = None
    """With "fsdp", weights, gradients and the optimiser's state are shared out among the processes that torchrun
    starts. It needs [vllm]."""
    engine: str = "local"
    """Where episodes are played: `local`, or `ray` for the nodes of a cluster."""
    address: str | None = None
    """The address of the cluster. By default it is the cluster that runs on this host."""
    nodes: Count | None = None
    """How many nodes the cluster must have at least when the run begins."""
