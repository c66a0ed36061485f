"""The common parts of the APIs: parts of requests, finish reasons, and events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from agentgym import strict_json
from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.messages import Call, Content, ImagePart, Message, Part, TextPart
from agentgym.policy.contract import Constraints
from agentgym.tools.arguments import replace_lone_surrogates

from .chat import Answer, AnsweredRequest, Chat, ToolForm, invalid, list_of, object_of, text_of
from .fields import ToolChoice, asked_sampling

COMMENT = ": the policy is writing\n\n"
"""A comment among server-sent events."""
MAX_MESSAGES, MAX_TOOLS, MAX_IMAGES = 4096, 256, 64


class Api(Protocol):
    """One API.

    Attributes:
        path: the URL path that serves it.
        keep_alive: text sent in a stream while its client waits. Clients of the API skip it.
    """

    path: str
    keep_alive: str

    def read(self, body: Mapping[str, Any], earlier: Mapping[str, AnsweredRequest] = {}) -> Chat:
        """Read a request. Raises: ServerRefusal naming what cannot be read.

        Args:
            earlier: the answered requests of the episode, by the id of the answer.
        """
        ...

    def write(self, answer: Answer, model: str) -> dict[str, Any]:
        """Return the complete answer. `model`: the model's name."""
        ...

    def events(self, answer: Answer, model: str, *, with_usage: bool) -> Iterator[str]:
        """Return the answer as server-sent events. `with_usage`: include token counts where they are optional."""
        ...

    def error(self, refused: ServerRefusal) -> dict[str, Any]:
        """Return a refusal as the program expects it."""
        ...

    def error_event(self, refused: ServerRefusal) -> str:
        """Return a refusal as the end of a stream that has begun."""
        ...


def chat_of(
    body: Mapping[str, Any],
    messages: list[Message],
    tools: Tools,
    max_tokens: Any,
    *,
    choice: ToolChoice,
    constraints: Constraints,
    sampling: Mapping[str, Any],
    logprobs: bool = False,
) -> Chat:
    """Build a request from its parts.

    Args:
        sampling: the object that holds the fields of sampling.
    Raises: ServerRefusal for no messages; too many messages, tools or images; an invalid token limit; or a choice of
        tools that are not offered.
    """
    if not messages or len(messages) > MAX_MESSAGES or len(tools.schemas) > MAX_TOOLS:
        raise invalid(f"A request must have 1 to {MAX_MESSAGES} messages and at most {MAX_TOOLS} tools.")
    if sum(len(message.images) for message in messages) > MAX_IMAGES:
        raise invalid(f"A request must have at most {MAX_IMAGES} images.")
    if max_tokens is not None and (type(max_tokens) is not int or max_tokens < 1):
        raise invalid(f"The limit of an answer's tokens is {max_tokens!r:.40}. Give a whole number above 0.")
    named = tools.names if choice.names is None else tools.policy_names(choice.names)
    if choice.required and not named:
        raise invalid("The request demands a call, but offers no tool. Give tools, or leave tool_choice out.")
    model = body.get("model")
    return Chat(
        tuple(messages),
        tuple(tools.schemas if choice.required else tools.only(named)),
        tools.forms if named else {},
        max_tokens,
        body.get("stream") is True,
        model=model if isinstance(model, str) else "",
        constraints=replace(constraints, tool_choice=tuple(named)) if choice.required else constraints,
        logprobs=logprobs,
        asked_sampling=asked_sampling(sampling),
    )


@dataclass(slots=True)
class Tools:
    """The tools of a request, as the policy sees them. Tools that only the program's provider runs are left out.

    Attributes:
        schemas: in the OpenAI function-call format. forms: as in Chat.
    """

    schemas: list[dict[str, Any]] = field(default_factory=list)
    forms: dict[str, ToolForm] = field(default_factory=dict)

    def add(self, function: Mapping[str, Any], form: ToolForm | None = None) -> None:
        """Add a tool. `form`: how the program calls it; None: as a plain function. Raises: ServerRefusal."""
        if form is not None:
            self.forms[form.policy_name] = form
            function = {**function, "name": form.policy_name}
        self.schemas.append(function_of(function))

    @property
    def names(self) -> list[str]:
        """The policy's names of the tools."""
        return [str(schema["function"]["name"]) for schema in self.schemas]

    def only(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the schemas of these tools, by the policy's names."""
        return [schema for schema in self.schemas if schema["function"]["name"] in names]

    def policy_names(self, names: Sequence[str]) -> list[str]:
        """Return the policy's names of tools that the program names. Raises: ServerRefusal if one is not offered."""
        forms = {form.name: form.policy_name for form in self.forms.values()}
        policy_names = [name if name in self.names else forms.get(name, "") for name in names]
        if "" in policy_names:
            raise invalid(f"tool_choice names {names[policy_names.index('')]!r:.80}, which is none of the tools.")
        return policy_names

    def add_text_tool(self, tool: Mapping[str, Any], namespace: str = "") -> None:
        """Add a tool that takes a text, possibly in a grammar. Raises: ServerRefusal."""
        form = ToolForm(text_of(tool.get("name"), "The name of a tool"), namespace, takes_text=True)
        given = tool.get("format")
        grammar = given.get("definition") or "" if isinstance(given, Mapping) else ""
        described = f"The text, in this grammar:\n{grammar}" if grammar else "The text."
        properties = {"input": {"type": "string", "description": described}}
        parameters = {"type": "object", "properties": properties, "required": ["input"]}
        self.add({"description": tool.get("description"), "parameters": parameters}, form)


def tools_of(body: Mapping[str, Any]) -> Sequence[Any]:
    """Return the tools as the program gives them. Raises: ServerRefusal."""
    return list_of(body.get("tools") or [], "tools")


def function_of(given: Any) -> dict[str, Any]:
    """Return the schema of a tool in the OpenAI function-call format. Raises: ServerRefusal."""
    function = object_of(given, "A tool")
    parameters = function.get("parameters") or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {
            "name": text_of(function.get("name"), "The name of a tool"),
            "description": text_of(function.get("description") or "", "The description of a tool"),
            "parameters": dict(object_of(parameters, "parameters")),
        },
    }


def call_of(name: Any, tool: Any, arguments: Any) -> Call:
    """Return a call that the program sends back. Raises: ServerRefusal if its arguments are not an object."""
    if isinstance(arguments, str):
        try:
            arguments = replace_lone_surrogates(strict_json.loads(arguments or "{}", allow_surrogates=True))
        except ValueError as error:
            raise invalid(f"The arguments of a call cannot be read: {error}") from error
    return Call(text_of(tool, "The name of a call"), dict(object_of(arguments, "arguments")), text_of(name, "An id"))


def content_of(given: Any, texts: str | tuple[str, ...], image: Any) -> Content:
    """Return text, or parts of text and images. Raises: ServerRefusal for other parts."""
    if given is None or isinstance(given, str):
        return given or ""
    names = (texts,) if isinstance(texts, str) else texts
    parts: list[Part] = []
    for part in list_of(given, "content"):
        kind = object_of(part, "A part of content").get("type")
        if kind in (*names, "text"):
            parts.append(TextPart(text_of(part.get("text"), "text")))
        elif kind == "refusal":
            parts.append(TextPart(text_of(part.get("refusal"), "refusal")))
        else:
            parts.append(image(part))
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return tuple(parts)


def image_of_data(url: Any, part: Mapping[str, Any]) -> ImagePart:
    """Return an image from a data URL. Raises: ServerRefusal for any other part."""
    head, _, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not (head.startswith("data:image/") and head.endswith(";base64") and data):
        raise invalid(
            f"A part has the type {part.get('type')!r:.40}, which is not supported. Give text, or an image as a data "
            "URL."
        )
    return ImagePart(data, head.removeprefix("data:").removesuffix(";base64"))


def finish_of(answer: Answer, calls: str, stop: str) -> str:
    """Return why a message ended, in the API's words."""
    if answer.finish_reason != "stop":
        return answer.finish_reason
    return calls if answer.message.calls else stop


def openai_tokens(answer: Answer) -> list[dict[str, Any]] | None:
    """Return the log-probabilities of an answer's tokens in OpenAI's form; None if not requested."""
    if answer.tokens is None:
        return None
    return [
        {"token": text, "logprob": value, "bytes": list(text.encode("utf-8", "replace")), "top_logprobs": []}
        for text, value in answer.tokens
    ]


def event_of(data: Mapping[str, Any], name: str = "") -> str:
    """Return a server-sent event."""
    return (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
