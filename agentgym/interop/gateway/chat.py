"""A program's requests to the gateway and the answers, independent of the API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy.contract import FREE, Constraints, FinishReason, Policy, Renderer, Reply, Request
from agentgym.tools.arguments import replace_lone_surrogates

Key = tuple[Any, ...]
"""Identifies a message: messages that a policy cannot tell apart have equal keys."""


@dataclass(frozen=True, slots=True)
class ToolForm:
    """How a program calls a tool that is not a plain function. The policy sees a plain function with another name.

    Attributes:
        name, namespace: the program's names.
        takes_text: whether the tool takes a text in place of arguments. The policy gives it as the argument `input`.
    """

    name: str
    namespace: str = ""
    takes_text: bool = False

    @property
    def policy_name(self) -> str:
        """The name under which the policy sees the tool."""
        return f"{self.namespace}__{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Chat:
    """A request for the next message.

    Attributes:
        messages: the conversation. tools: schemas in the OpenAI function-call shape.
        forms: by the policy's name, the tools that the program calls in another form.
        max_tokens: the program's own limit for the message, or None.
        stream: whether to answer as events. stream_usage: whether the events include token counts.
        model: the program's name for the model.
        constraints: what the message must be like.
        logprobs: whether the answer holds the log-probability of each token.
        asked_sampling: the sampling that the program asks for; the run's is used.
        is_retry: the client says that it has sent this request before.
        instructed: whether the first message is the instructions, which hold for this request alone.
    """

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    forms: Mapping[str, ToolForm] = field(default_factory=dict)
    max_tokens: int | None = None
    stream: bool = False
    stream_usage: bool = False
    model: str = ""
    constraints: Constraints = FREE
    logprobs: bool = False
    asked_sampling: Mapping[str, float] = field(default_factory=dict)
    is_retry: bool = False
    instructed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The next message with token counts.

    Attributes:
        id: unique on the server.
        message: as far as the program asked for it, see `as_asked`.
        forms: as in Chat.
        stop: the text of `Constraints.stop` before which the message ends; "" if none.
        tokens: the text and log-probability of each sampled token; None unless the program asked for them.
    """

    id: str
    message: Message
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    forms: Mapping[str, ToolForm] = field(default_factory=dict)
    stop: str = ""
    tokens: Sequence[tuple[str, float]] | None = None

    def calls(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the id, name and arguments of each call; see `as_sent`."""
        return [(call.id, *as_sent(call)) for call in self.message.calls]


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """An answered request of an episode."""

    chat: Chat
    answer: Answer


def as_asked(message: Message, constraints: Constraints) -> tuple[Message, str]:
    """Cut a message before the first stop text; without one, after the first call if only one is asked for.

    Returns: the cut message, and the stop text or "". The record keeps the whole message.
    """
    text = message.text
    stops = [(text.index(stop), stop) for stop in constraints.stop if stop in text]
    if stops:
        at, stop = min(stops)
        return Message("assistant", text[:at], reasoning=message.thought), stop
    if constraints.one_call:
        message = replace(message, calls=message.calls[:1])
    return message, ""


async def check_policy(policy: Policy, chat: Chat, episode: str) -> None:
    """Check that a policy can answer a request as it asks. Raises: ServerRefusal."""
    if chat.logprobs and not hasattr(policy.renderer, "token_texts"):
        raise invalid(f"The policy {policy.name} gives no log-probabilities. Ask without logprobs.")
    try:
        await policy.check(Request(chat.messages, chat.tools, episode=episode, constraints=chat.constraints))
    except PolicyError as error:
        raise invalid(str(error)) from error


def answer_of(identity: str, chat: Chat, reply: Reply, read: int, renderer: Renderer | None) -> Answer:
    """Return a policy's reply as the answer to a request.

    Args:
        read: the number of tokens of the prompt; 0 if only the policy knows it.
    """
    token_ids, tokens = reply.token_ids or [], None
    if chat.logprobs:
        texts = renderer.token_texts(token_ids)  # type: ignore[union-attr]  # checked before the request was sent
        tokens = list(zip(texts, reply.logprobs or (), strict=False))  # none if another policy wrote it
    message, stop = as_asked(reply.message, chat.constraints)
    finish: FinishReason = "stop" if stop else reply.finish_reason
    written = len(token_ids) or reply.completion_tokens
    return Answer(identity, message, finish, read or reply.prompt_tokens, written, chat.forms, stop, tokens)


def as_sent(call: Call) -> tuple[str, dict[str, Any]]:
    """Return a call's name and arguments as sent to programs. An unreadable call gets the reason as its argument."""
    return call.name or "unreadable", call.arguments if call.error is None else {"error": call.error}


def is_call_of(call: Call, name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call of the policy is a call of a tool that programs may rename, as in `mcp__gym__guess`."""
    is_named = call.name == name or (call.name or "").endswith(("_" + name, "." + name, "/" + name))
    return is_named and call.arguments == arguments


def text_input(arguments: Mapping[str, Any]) -> str:
    """Return the text that a call passes to a tool that takes a text: its `input`, or else all arguments as JSON."""
    if set(arguments) == {"input"} and isinstance(arguments["input"], str):
        return arguments["input"]
    return json.dumps(arguments, sort_keys=True)


def key_of(message: Message) -> Key:
    """Return the key of a message: role, text, calls, and the call that it answers."""
    content = message.text if not message.images else message.content
    sent = map(as_sent, message.calls)  # a program sends back what it received
    calls = tuple((name, text_input(arguments)) for name, arguments in replace_lone_surrogates([*sent]))
    if message.role == "assistant" and isinstance(content, str):
        content = replace_lone_surrogates(content).strip()  # as programs send it back
    return message.role, content, calls, message.call_id


def keys_of(messages: Sequence[Message]) -> list[Key]:
    """Return the key of each message."""
    return [key_of(message) for message in messages]


def object_of(value: Any, what: str) -> Mapping[str, Any]:
    """Return a part of a request as an object. Raises: ServerRefusal if it is not an object."""
    if not isinstance(value, Mapping):
        raise invalid(f"{what} must be an object, not {value!r:.80}.")
    return value


def list_of(value: Any, what: str) -> Sequence[Any]:
    """Return a part of a request as a list. Raises: ServerRefusal if it is not a list."""
    if not isinstance(value, list):
        raise invalid(f"{what} must be a list, not {value!r:.80}.")
    return value


def text_of(value: Any, what: str) -> str:
    """Return a part of a request as text. Raises: ServerRefusal if it is not text."""
    if not isinstance(value, str):
        raise invalid(f"{what} must be text, not {value!r:.80}.")
    return value


def invalid(message: str) -> ServerRefusal:
    """Return the refusal of a request that cannot be read."""
    return ServerRefusal(400, "invalid_request_error", message)
