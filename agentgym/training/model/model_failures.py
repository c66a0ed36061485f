"""Say where and why a model that is trained has failed: its memory ran out, or its weights diverged."""

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
    """Turn the lack of memory into one line, and stop before the kernel would end the process.

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
    """Ends a stage whose loss or gradient is no longer finite.

    Transformers leaves such a loss out of the one that it logs, but not such a gradient.

    Args:
        stage: for people. `learning_rate`: the recipe's key of its rate.
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
