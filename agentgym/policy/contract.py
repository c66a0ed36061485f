"""The policy contract. A policy is anything that answers a conversation: a served or local model, an API, a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.trajectory import TokenMask

FinishReason = Literal["stop", "length", "content_filter"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample. `max_tokens` is per turn; `temperature` 0 is greedy; `seed` None is not reproducible."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and 0 < self.top_p <= 1 and self.max_tokens > 0):
            raise ValueError(f"Sampling needs temperature >= 0, 0 < top_p <= 1, max_tokens > 0, not {self}.")


@dataclass(slots=True)
class Request:
    """One request to a policy.

    Attributes:
        messages: the conversation so far. Read it, never change it.
        tools: schemas of the tools in the OpenAI function-call shape.
        prefix_ids: the exact token ids so far, where the policy has a renderer; the reply continues them.
        sampling: how to sample; the seed already differs by episode and turn.
        episode, turn: which episode and which of its turns asks.
        role: that the agent has in the turn, where an episode has several; else empty.
        start: the first turn in the present environment: 0 unless a hook renewed it, as for another
            attempt at the task.
        attempt: the conversation as it would be if the episode had begun there; None where it did.
    """

    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] = ()
    prefix_ids: Sequence[int] | None = None
    sampling: Sampling = Sampling()
    episode: str = ""
    turn: int = 0
    role: str = ""
    start: int = 0
    attempt: Sequence[Message] | None = None


@dataclass(slots=True)
class Reply:
    """The answer of a policy.

    Attributes:
        message: the assistant message, calls parsed; a call that cannot be understood has `error` set.
        token_ids: exactly what was sampled, its end-of-turn token included; None without a renderer.
        logprobs: natural-log probability of each token under the distribution that it was sampled from, after
            temperature and top-p; at temperature 0 under the model's own. As many as token_ids.
        finish_reason: `length` if the limit of the turn or of the context ended it; `content_filter` if the server
            would not let the model say it.
        policy_version: version of the weights that sampled it, or its first token if they changed meanwhile.
        version_changes: (token, version) where they changed: from that token on, weights of this version sampled.
        prompt_tokens, completion_tokens: as counted by the model, for cost.
        policy: the name of who wrote it, where that is not the policy that was asked; see agentgym.Turn.
        masks: where a logit hook restricted what could be sampled, see agentgym.Turn.
    """

    message: Message
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    finish_reason: FinishReason = "stop"
    policy_version: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    masks: Sequence[tuple[int, int, TokenMask]] = ()
    version_changes: Sequence[tuple[int, int]] = ()
    policy: str = ""


class Renderer(Protocol):
    """Turns messages into token ids and back for one model, so that the loop can be token in, token out.

    Text that comes from outside (prompts, tool results) is encoded with special tokens disabled:
    it can never forge a turn.
    """

    def prompt(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Ids of the opening messages up to where the agent begins to write."""
        ...

    def observation(self, messages: Sequence[Message]) -> list[int]:
        """Ids from right after the agent's end-of-turn token through results to where it writes again."""
        ...

    def parse(self, token_ids: Sequence[int]) -> Message:
        """Return the assistant message that the sampled ids spell. Never raises on model output."""
        ...

    def encode(self, message: Message) -> list[int]:
        """Return the ids that the agent would have sampled to write this message, its end-of-turn token included."""
        ...


class Policy:
    """Base of every policy. Override `generate`; thousands of calls may be in flight at once.

    Attributes:
        name: for logs and reports.
        renderer: set where token ids are known; then trajectories are token-exact and can train.
        version: the version of the weights; the trainer counts it up.
        context_tokens: how many tokens fit, None if unknown.
    """

    name: str = "policy"
    renderer: Renderer | None = None
    version: int = 0
    context_tokens: int | None = None

    async def generate(self, request: Request) -> Reply:
        """Answer.

        Raises: PolicyError when the model or its server failed; ContextFull when it does not fit; PolicyLeft when the
            program that plays has gone away, which ends the episode where it is.
        """
        raise NotImplementedError

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        """Natural-log probability of each continuation token after the prefix, teacher-forced."""
        raise PolicyError(f"{self.name} cannot score given tokens: it offers no log-probabilities of a given text.")

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        """In nats and at temperature 1, how unsure the policy is before each continuation token, teacher-forced.

        Returns: -sum of p log p over the `top` likeliest tokens, at most 20.
        """
        raise PolicyError(f"{self.name} cannot measure entropies: it offers no log-probabilities of a given text.")

    async def refresh(self) -> None:
        """Load the current weights of the trained model; called in training before each batch of episodes or scores.

        Raises: PolicyError if they cannot be had.
        """

    def identity(self) -> dict[str, Any]:
        """Return what decides the answers, by name, for the ledger to compare when a run goes on under the same label.

        What changes no answer, such as the number of connections, is left out. A policy without a name of its own is
        told from others by its class.
        """
        return {"name": self.name} | ({"class": type(self).__qualname__} if self.name == Policy.name else {})

    def episode_started(self, episode: str) -> None:
        """Told when an episode begins, so that a batching policy knows how many requests to wait for."""

    def episode_ended(self, episode: str) -> None:
        """Told when an episode is over, however it ended."""

    async def close(self) -> None:
        """Free the model, sockets and threads."""
