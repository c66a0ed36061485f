"""The policy contract. A policy is anything that answers a conversation: a served or local model, an API, a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.options import kept_arguments
from agentgym.policy.served_weights import ServedWeights
from agentgym.trajectory import TokenMask

REPLY_S = 3600.0
"""The default limit of one message, in seconds: much longer than a slow model takes."""
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
            raise ValueError(
                f"{self} is not valid: Sampling needs temperature >= 0, 0 < top_p <= 1 and max_tokens > 0."
            )


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a message must be like, as programs ask of a model's API.

    Attributes:
        stop: the message ends before the first of these texts in its speech. What follows is not sent, so a policy
            need not stop there.
        one_call: the message ends with its first call. A policy need not stop there either.
        tool_choice: one of these tools must be called first; empty for no such constraint.
        response_format: the JSON Schema of the message's text, {} for any object; None for any text.
    """

    stop: tuple[str, ...] = ()
    one_call: bool = False
    tool_choice: tuple[str, ...] = ()
    response_format: Mapping[str, Any] | None = None

    @property
    def is_binding(self) -> bool:
        """Whether a constraint is set that only the policy can enforce, see `Policy.check`."""
        return bool(self.tool_choice) or self.response_format is not None


FREE = Constraints()


@dataclass(slots=True)
class Request:
    """One request to a policy.

    Attributes:
        messages: the conversation so far; read-only.
        tools: schemas of the tools in the OpenAI function-call shape.
        prefix_ids: the exact token ids so far, which the reply continues; None if the policy has no renderer.
        sampling: how to sample; the seed already differs by episode and turn.
        episode, turn: the id of the requesting episode, and the number of the turn.
        role: the agent's role in the turn, if the episode has several; else empty.
        start: the first turn in the current environment: 0 unless a hook renewed the environment, for example for
            another attempt at the task.
        attempt: the conversation as if the episode had begun at `start`; None if `start` is 0.
        constraints: what the message must be like; see `Policy.check`.
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
    constraints: Constraints = FREE

    def with_call_ids(self, message: Message, renderer: Renderer) -> Message:
        """Return a reply's message with the call ids of the renderer's model; unchanged if the model has none."""
        return with_call_ids(renderer, message, self.messages)


@dataclass(slots=True)
class Reply:
    """The answer of a policy.

    Attributes:
        message: the assistant message, with its calls parsed; a call that cannot be parsed has `error` set.
        token_ids: the tokens exactly as sampled, including the end-of-turn token; None without a renderer.
        logprobs: natural-log probability of each token under the sampling distribution, after temperature and
            top-p; at temperature 0 under the model's own distribution. One for each of token_ids.
        finish_reason: `length` if the turn's or the context's token limit ended the message; `content_filter` if the
            server blocked the message.
        policy_version: version of the weights that sampled the message, or the first token if they changed meanwhile.
        version_changes: (token, version) pairs: from that token on, weights of this version sampled.
        prompt_tokens, completion_tokens: as counted by the model, for cost.
        policy: the name of the policy that wrote the message, if it is not the one that was asked; see agentgym.Turn.
        masks: where a logit hook restricted sampling, see agentgym.Turn.
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
    """Converts messages to token ids and back for one model, so that the loop can be token in, token out.

    Text from outside (prompts, tool results) is encoded with special tokens disabled: such text can never
    forge a turn.
    """

    def prompt(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, up to where the agent begins to write."""
        ...

    def observation(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids after the agent's end-of-turn token, through the results, up to where it writes again."""
        ...

    def parse(self, token_ids: Sequence[int]) -> Message:
        """Return the assistant message that the sampled ids encode. Never raises on model output."""
        ...

    def encode(self, message: Message) -> list[int]:
        """Return the ids that the agent would have sampled for this message, including the end-of-turn token."""
        ...


def with_call_ids(renderer: Renderer, message: Message, earlier: Sequence[Message]) -> Message:
    """Return an assistant's message with the call ids of the renderer's model; unchanged if the model has none.

    Args:
        earlier: the conversation before the message.
    """
    number = getattr(renderer, "numbered", None)
    if number is None:
        return message
    with_ids: Message = number(message, sum(len(each.calls) for each in earlier))
    return with_ids


def check_prefix(prefix_ids: Sequence[int]) -> None:
    """Raise PolicyError for an empty prefix, which cannot be scored: nothing predicts the very first token."""
    if not prefix_ids:
        raise PolicyError("prefix_ids is empty: give at least one token, because nothing predicts the very first one.")


class Policy:
    """Base of every policy. Override `generate`; thousands of calls may be in flight at once.

    Attributes:
        name: for logs and reports.
        renderer: set if token ids are known; trajectories are then token-exact and usable for training.
        version: the version of the weights; the trainer increments it.
        context_tokens: the size of the context window in tokens; None if unknown.
        running: the number of tokens that each running request has so far, for progress; empty if unknown.
        repeats: whether log-probabilities depend on the requests sampled together, and these are the same in every run;
            then `repeat` is called for the recorded replies of a step that resumes.
        served_weights: what copies of the policy follow, in the same order in every copy; see `copier`.
    """

    name: str = "policy"
    renderer: Renderer | None = None
    version: int = 0
    context_tokens: int | None = None
    repeats: bool = False
    served_weights: Sequence[ServedWeights] = ()

    @property
    def running(self) -> Sequence[int]:
        return ()

    async def check(self, request: Request) -> None:
        """Check, before a request with binding constraints is sent, that the policy can enforce them.

        Raises: PolicyError naming a constraint that it cannot enforce.
        """
        if request.constraints.is_binding:
            raise PolicyError(
                f"The policy {self.name} cannot be made to call a tool, or to write JSON. Ask without tool_choice and "
                "response_format, or sample with transformers."
            )

    async def generate(self, request: Request) -> Reply:
        """Answer a request.

        Raises: PolicyError if the model or its server failed; ContextFull if the conversation does not fit; PolicyLeft
            if the external program that plays the episode has disconnected; the episode then ends as it stands.
        """
        raise NotImplementedError

    async def repeat(self, request: Request, token_ids: Sequence[int]) -> None:
        """Compute a recorded reply again, so that the requests of other episodes are sampled beside it once more.

        Args:
            request: as it was answered, but without messages, tools and constraints.
            token_ids: the reply.
        """

    async def generate_in_time(self, request: Request, reply_s: float = REPLY_S) -> Reply:
        """Answer a request by `generate`, with a time limit. Call this, not `generate`: a server may hang for ever.

        Args:
            reply_s: the seconds that the reply may take, including time in a queue.
        Raises: PolicyError if the reply takes longer; as `generate`.
        """
        try:
            async with asyncio.timeout(reply_s) as limit:
                return await self.generate(request)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise self.no_reply_in(reply_s) from error

    def no_reply_in(self, reply_s: float) -> PolicyError:
        """Return the error for a reply that takes longer than `reply_s`, for callers that measure time themselves."""
        return PolicyError(
            f"{self.name!r} gave no reply within {reply_s:g} s. If it hangs, restart it. If it is slow, raise reply_s."
        )

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        """Return the natural-log probability of each continuation token after the prefix, teacher-forced."""
        raise PolicyError(
            f"The policy {self.name} cannot compute log-probabilities of a given text, so it cannot score tokens. Use "
            "a local model, or one on a vLLM server."
        )

    async def entropies(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int], top: int) -> list[float]:
        """Return the entropy in nats at temperature 1 before each continuation token, teacher-forced.

        The entropy is -sum of p log p over the `top` likeliest tokens, at most 20.
        """
        raise PolicyError(
            f"The policy {self.name} cannot compute log-probabilities of a given text, so it cannot measure "
            "entropies. Use a local model."
        )

    async def refresh(self) -> None:
        """Load the current weights of the trained model; called in training before each batch of episodes or scores.

        Raises: PolicyError if the weights are not available.
        """

    def identity(self) -> dict[str, Any]:
        """Return everything that affects the answers, by name; the ledger compares it when a run resumes.

        Settings that do not affect answers, such as the number of connections, are omitted by the policies that define
        this method. Any other policy is identified by the constructor arguments that it stores under their own names,
        and also by its class if it has no own name.
        """
        is_own = type(self).identity is not Policy.identity
        class_name = {"class": type(self).__qualname__} if self.name == Policy.name else {}
        return {**({} if is_own else kept_arguments(self)), "name": self.name, **class_name}

    def copier(self) -> Callable[[], Policy] | None:
        """Return a function that makes a copy on another node, which asks the policy's server itself.

        The function can be pickled. It raises PolicyError where no copy can work. None: only this process can ask.
        """
        return None

    async def check_reach(self) -> None:
        """Raise PolicyError if this process does not reach the policy's server. Called once for each copy."""

    def episode_started(self, episode: str) -> None:
        """Record that an episode begins, so that a batching policy knows how many requests to wait for."""

    def episode_ended(self, episode: str) -> None:
        """Record that an episode has ended, in whatever way."""

    async def close(self) -> None:
        """Free the model, sockets and threads."""
