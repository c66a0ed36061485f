"""How the world stands before a turn: what the record says of it, and what a retry starts from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from agentgym.environment import Checkpoint, Environment


@dataclass(frozen=True, slots=True)
class Standing:
    """State key, progress and checkpoint before a turn; None for what the environment does not offer."""

    state_key: str | None = None
    potential: float | None = None
    checkpoint: Checkpoint | None = None


class Lookout:
    """Asks an environment for what its class offers, and for nothing else."""

    def __init__(self, environment: Environment, *, checkpoints: bool) -> None:
        kind = type(environment)
        self._state = kind.state_key is not Environment.state_key
        self._progress = kind.potential is not Environment.potential
        self._checkpoint = checkpoints and kind.checkpoint is not Environment.checkpoint

    async def look(self, world: Environment, turn: int, say: Callable[[str], None]) -> Standing:
        """How the world stands. `say` is told what is being asked. Raises: what the environment raises; ValueError."""
        key = potential = checkpoint = None
        if self._state:
            say(f"reading the state before turn {turn}")
            key = await world.state_key()
        if self._progress:
            say(f"asking for the progress before turn {turn}")
            potential = await world.potential()
            if potential is not None and not math.isfinite(potential):
                raise ValueError(
                    f"{type(world).__name__}.potential() gave {potential!r}: it is a finite number, or None."
                )
        if self._checkpoint:
            say(f"taking a checkpoint before turn {turn}")
            checkpoint = await world.checkpoint()
        return Standing(key, potential, checkpoint)
