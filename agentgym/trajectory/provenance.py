"""How an episode was produced, and what happened during it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The point where a branch left another trajectory: its id, and the first turn that the branch does not repeat."""

    trajectory: str
    turn: int


@dataclass(frozen=True, slots=True)
class ReplayedTurns:
    """The turns of another trajectory, given by its id, that were replayed without the others."""

    trajectory: str
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptAddition:
    """A text that the agent reads in addition to the environment's own messages."""

    kind: str
    """The kind of text: "instruction", "knowledge" (learned from earlier episodes), or a kind of help: "hint",
    "rubric", "critique", "feedback"; "guide" if another policy began the episode; "partner" if another agent's answer
    was read."""
    text: str = ""
    """The text itself; empty if the help is not a text."""
    where: Literal["system", "user"] = "user"
    """The position of the text: at the beginning of the system message, or at the end of the task."""
    is_help: bool = False
    """Whether the addition helps the agent. Only training tasks are played with help; evaluations reject episodes
    with help."""
    share: float = 1.0
    """The share of the available help of this kind that was given, 0 to 1."""
    role: str = ""
    """The role that the addition gives the agent, in an environment that has no roles."""

    @classmethod
    def training_help(cls, kind: str, text: str = "", share: float = 1.0, role: str = "") -> PromptAddition:
        """Return an addition that helps an agent in a training episode. Args: see the fields."""
        return cls(kind, text, is_help=True, share=share, role=role)


@dataclass(slots=True)
class Provenance:
    """How an episode was produced, and what happened during it. Unknown values are None or empty."""

    agentgym: str | None = None
    """The version of agentgym that played the episode."""
    seed: int | None = None
    """The seed of the rollout config."""
    temperature: float | None = None
    """The sampling temperature of the rollout config."""
    top_p: float | None = None
    """The `top_p` of the rollout config."""
    max_turn_tokens: int | None = None
    """The maximum number of tokens per message."""
    hooks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The options of each named episode hook, by name; empty for nearly every episode."""
    policy: str | None = None
    """The name of the policy."""
    environment: str | None = None
    """The environment's class with its module."""
    image_digests: list[str] = field(default_factory=list)
    """The digests of the images that its sandboxes ran on."""
    weaker_limits: list[str] = field(default_factory=list)
    """The limits that its sandboxes or its judges' did not enforce, which was accepted (`--accept-weaker`)."""
    reset_usage: dict[str, float] = field(default_factory=dict)
    """The resources that the reset used, by name as in `Turn.usage`."""
    retries: list[str] = field(default_factory=list)
    """Each infrastructure failure that was retried, with the activity that failed."""
    close_error: str | None = None
    """The error raised while closing the environment."""
    hopeless: str | None = None
    """The reason of the stop rule that ended the episode."""
    branch: ForkPoint | None = None
    """For a branch, the point where it left the original trajectory."""
    replay: ReplayedTurns | None = None
    """For a replay of single turns, the turns replayed."""
    additions: tuple[PromptAddition, ...] = ()
    """The texts that the agent read in addition to the environment's messages."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Anything else, as JSON data; agentgym writes nothing here."""

    @property
    def attempts(self) -> Mapping[str, Any]:
        """The options of the hook `attempts`, which allows several attempts at the task; empty for a single one."""
        return self.hooks.get("attempts", {})

    @property
    def assistance(self) -> PromptAddition | None:
        """The addition that helped the agent; None for nearly every episode."""
        return next((addition for addition in self.additions if addition.is_help), None)

    @property
    def instruction(self) -> str | None:
        """The instruction that preceded the task, if the rollout config has one."""
        return self._text("instruction")

    @property
    def knowledge(self) -> str | None:
        """The knowledge from earlier episodes, as shown to the agent."""
        return self._text("knowledge")

    def _text(self, kind: str) -> str | None:
        return next((addition.text for addition in self.additions if addition.kind == kind), None)
