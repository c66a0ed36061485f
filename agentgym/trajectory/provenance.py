"""What made an episode, and what befell it on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


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
class PromptAddition:
    """A text that the agent reads beside the words of its environment."""

    kind: str
    """The kind of text: "instruction", "knowledge" (what earlier episodes have taught), or a kind of help: "hint",
    "rubric", "critique", "feedback"; "guide" where another policy began; "partner" where another agent's answer was
    read."""
    text: str = ""
    """The text itself; empty where the help is not a text."""
    where: Literal["system", "user"] = "user"
    """Where it stands: at the beginning of the system message, or at the end of the task."""
    is_help: bool = False
    """Whether it helps the agent. Only training tasks are played with help, and no evaluation accepts an episode with
    any."""
    share: float = 1.0
    """The share of all the help of this kind that there was, 0 to 1."""
    role: str = ""
    """The role that the agent has with it, in an environment without roles of its own."""


def training_help(kind: str, text: str = "", share: float = 1.0, role: str = "") -> PromptAddition:
    """Make the addition that helps an agent in a training episode. Arguments: as the fields of PromptAddition."""
    return PromptAddition(kind, text, is_help=True, share=share, role=role)


@dataclass(slots=True)
class Provenance:
    """What made an episode, and what befell it on the way. What is not known is None or empty."""

    agentgym: str | None = None
    """The version of agentgym that played the episode."""
    seed: int | None = None
    """The seed of the rollout config."""
    temperature: float | None = None
    """The sampling temperature of the rollout config."""
    top_p: float | None = None
    """The `top_p` of the rollout config."""
    max_turn_tokens: int | None = None
    """The tokens that one message might have."""
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The options of each episode hook that has a name, by that name; empty for nearly every episode."""
    policy: str | None = None
    """The name of the policy."""
    environment: str | None = None
    """The environment's class with its module."""
    image_digests: list[str] = field(default_factory=list)
    """The digests of the images that its sandboxes ran on."""
    reset_usage: dict[str, float] = field(default_factory=dict)
    """What the reset took, by name as in `Turn.usage`."""
    retries: list[str] = field(default_factory=list)
    """Each failure of the infrastructure that was tried again, and what was being done."""
    close_error: str | None = None
    """What went wrong in closing the environment."""
    hopeless: str | None = None
    """Why a stop rule ended the episode."""
    branch: ForkPoint | None = None
    """Where the episode left the trajectory that it continues."""
    replay: ReplayedTurns | None = None
    """What the episode replays."""
    additions: tuple[PromptAddition, ...] = ()
    """What the agent read beside the words of its environment."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Anything else, as JSON data; agentgym writes nothing here."""

    @property
    def attempts(self) -> Mapping[str, Any]:
        """The options of the hook `attempts`, which says how often the agent might try its task; empty for once."""
        return self.hooks.get("attempts", {})

    @property
    def assistance(self) -> PromptAddition | None:
        """The addition that helped the agent; None for nearly every episode."""
        return next((addition for addition in self.additions if addition.is_help), None)

    @property
    def instruction(self) -> str | None:
        """The text that preceded the task, where the rollout config has one."""
        return self._text("instruction")

    @property
    def knowledge(self) -> str | None:
        """What earlier episodes had taught, as the agent read it."""
        return self._text("knowledge")

    def _text(self, kind: str) -> str | None:
        return next((addition.text for addition in self.additions if addition.kind == kind), None)
