"""What made an episode, and what befell it on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Where a branch left another trajectory: its id, and the first turn that the branch does not repeat."""

    trajectory: str
    turn: int


@dataclass(frozen=True, slots=True)
class ReplayedTurns:
    """Which turns of another trajectory, by its id, were replayed alone."""

    trajectory: str
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assistance:
    """What helped an agent in a training episode. No evaluation accepts an episode with any.

    Attributes:
        kind: "hint", "rubric" or "critique", of what stood in the prompt; "guide" where another policy began; "partner"
            where another agent's answer was read.
        text: added to the opening messages.
        share: of all the help of this kind that there was, 0 to 1.
        role: that the agent has with it, in an environment without roles of its own.
    """

    kind: str
    text: str = ""
    share: float = 1.0
    role: str = ""


@dataclass(slots=True)
class Provenance:
    """What made an episode, and what befell it on the way. What is not known is None or empty.

    Attributes:
        agentgym: version that played it.
        seed, temperature, top_p, max_turn_tokens: of the rollout config.
        assistance: what helped the agent; None for nearly every episode.
        instruction: what preceded the task, where the rollout config has one.
        knowledge: what earlier episodes had taught, as the agent read it (see agentgym.knowledge).
        attempts: how often it might try its task, by the names of agentgym.Attempts; empty for once.
        policy: its name. `environment`: its class with its module.
        image_digests: of the images that its sandboxes ran on.
        reset_usage: what the reset took, by name as in `Turn.usage`.
        retries: each failure of the infrastructure that was tried again, and what was being done.
        close_error: what went wrong in closing the environment.
        hopeless: why a stop rule ended it.
        branch: where it left the trajectory that it continues. `replay`: what it replays.
        extra: anything else, as JSON data; agentgym writes nothing here.
    """

    agentgym: str | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_turn_tokens: int | None = None
    attempts: Mapping[str, Any] = field(default_factory=dict)
    policy: str | None = None
    environment: str | None = None
    image_digests: list[str] = field(default_factory=list)
    reset_usage: dict[str, float] = field(default_factory=dict)
    retries: list[str] = field(default_factory=list)
    close_error: str | None = None
    hopeless: str | None = None
    branch: ForkPoint | None = None
    replay: ReplayedTurns | None = None
    assistance: Assistance | None = None
    instruction: str | None = None
    knowledge: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
