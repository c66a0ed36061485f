"""Report where and why training failed: memory ran out, or the weights diverged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback

from agentgym.errors import PolicyError
from agentgym.policy.batching import is_out_of_memory
from agentgym.training.model.memory_watch import stopped_before_memory_runs_out


@contextmanager
def out_of_memory_named(stage: str, remedy: str) -> Iterator[None]:
    """Report an out-of-memory error in one line, and stop before the kernel kills the process.

    Raises: PolicyError that names the stage and the remedy.
    """
    try:
        with stopped_before_memory_runs_out(stage, remedy):
            yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, PolicyError) or not is_out_of_memory(error):
            raise
        raise PolicyError(f"The memory ran out in {stage}. {remedy} {str(error).partition('. ')[0]}.") from error


class DivergenceCallback(TrainerCallback):
    """Stop a stage whose loss or gradient is no longer finite.

    Transformers filters non-finite values out of the logged loss, but not out of the logged gradient norm.

    Args:
        stage: the stage, for the message. `learning_rate`: the recipe's key of its learning rate.
    """

    def __init__(self, stage: str, learning_rate: str) -> None:
        self._stage, self._learning_rate = stage, learning_rate

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        for name in ("loss", "grad_norm"):
            if not math.isfinite(value := float((logs or {}).get(name, 0.0))):
                raise PolicyError(
                    f"The {self._stage} diverged: {name} was {value} at step {state.global_step}. "
                    f"Lower {self._learning_rate}."
                )
