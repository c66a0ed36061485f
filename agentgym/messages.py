"""What agents and environments exchange: messages, calls, results, stop reasons."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from agentgym.strict_json import encodable
from agentgym.thoughts import split_thoughts

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text inside a message with several parts."""

    text: str
    type: Literal["text"] = "text"

    def to_json(self) -> dict[str, str]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image inside a message: encoded bytes in base64 and their media type, e.g. image/png."""

    data: str
    media_type: str = "image/png"
    type: Literal["image"] = "image"

    @property
    def digest(self) -> str:
        """SHA-256 of the base64 data, in hexadecimal: equal digests mean the same image."""
        return hashlib.sha256(self.data.encode("utf-8", "surrogatepass")).hexdigest()

    def to_json(self) -> dict[str, str]:
        return {"type": "image", "data": self.data, "media_type": self.media_type}


Part = TextPart | ImagePart
Content = str | tuple[Part, ...]


def _part_from_json(part: Any) -> Part:
    """Build a part. Raises: ValueError; its text continues a sentence about the message."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return TextPart(part["text"])
    if kind == "image" and isinstance(part.get("data"), str):
        return ImagePart(part["data"], str(part.get("media_type", "image/png")))
    raise ValueError(
        f"has the part {str(part)[:60]!r}. Write a part as {{type: text, text: ...}} or {{type: image, data: base64, "
        "media_type: ...}."
    )


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool, as the agent wrote it."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments by name, as JSON data."""
    id: str = "call_0"
    """The id that links the call to its result."""
    error: str | None = None
    """Set when the text could not be parsed as a call. It tells the model what was wrong, and becomes the call's
    result; no tool is run."""

    @property
    def is_encodable(self) -> bool:
        """Return whether every text in the arguments can be encoded as UTF-8, so has no lone surrogate."""
        return encodable(self.arguments)

    def in_one_line(self) -> str:
        """Return the call in Python syntax: `turn(key=3)`."""
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"

    def to_json(self) -> dict[str, Any]:
        """Return the call as JSON-able data, which `from_json` reads back equal."""
        row = {"name": self.name, "arguments": self.arguments, "id": self.id}
        return row if self.error is None else row | {"error": self.error}

    @classmethod
    def from_json(cls, row: Any) -> Call:
        """Build a call from JSON data. Raises: ValueError; its text continues a sentence about the message."""
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise ValueError(f"has the call {str(row)[:60]!r}. Write a call as {{name: ..., arguments: {{...}}}}.")
        arguments = row.get("arguments", {})
        if not isinstance(arguments, dict):
            raise ValueError(f"has a call of {row['name']!r} whose arguments must be an object, not {arguments!r}.")
        return cls(row["name"], dict(arguments), str(row.get("id", "call_0")), row.get("error"))


class ResultStatus(StrEnum):
    """The outcome of a call. Every status but `infra_error` is the agent's own doing, and is scored."""

    OK = "ok"
    TOOL_ERROR = "tool_error"  # the tool raised ToolError
    MALFORMED = "malformed"  # the text could not be parsed as a call
    UNKNOWN_TOOL = "unknown_tool"
    WRONG_ARGUMENTS = "wrong_arguments"
    TIMEOUT = "timeout"
    OVER_BUDGET = "over_budget"  # a budget of the episode was used up before this call ran
    BY_PROGRAM = "by_program"  # answered by the agent's own program or team, not by the environment


@dataclass(slots=True)
class Result:
    """What came back from a call."""

    content: Content
    """What the agent reads."""
    status: ResultStatus = ResultStatus.OK
    """The outcome of the call."""
    name: str = ""
    """The name of the tool."""
    call_id: str = "call_0"
    """The id of the call."""
    final: bool = False
    """Whether the call ended the episode."""
    truncated: bool = False
    """Whether the content was truncated to `max_output_chars`."""
    duration_s: float = 0.0
    """The wall time of the tool in seconds."""
    usage: Mapping[str, float] = field(default_factory=dict, compare=False)
    """The sandbox resources that the call used, by name as in `agentgym.sandbox.Usage`; empty if none."""

    @property
    def ok(self) -> bool:
        """Whether the call returned without an error."""
        return self.status in (ResultStatus.OK, ResultStatus.BY_PROGRAM)

    def message(self) -> Message:
        """Return the result as the message that the policy reads."""
        return Message("tool", self.content, call_id=self.call_id, name=self.name)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role
    """system, user, assistant or tool."""
    content: Content = ""
    """A text, or a sequence of texts and images. An assistant's text may contain marked thoughts, as written."""
    calls: tuple[Call, ...] = ()
    """The calls of an assistant's message."""
    call_id: str | None = None
    """In a tool's message, the id of the call that the message answers."""
    name: str | None = None
    """In a tool's message, the name of the tool."""
    reasoning: str = ""
    """The assistant's thoughts, if its server returns them separately from the content."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that an assistant's server wants back with the message, by name, for example thought signatures."""

    @property
    def text(self) -> str:
        """The text of the message, without an assistant's thoughts and without images."""
        written = self.content if isinstance(self.content, str) else self._content_text
        return split_thoughts(written)[1] if self.role == "assistant" else written

    @property
    def thought(self) -> str:
        """All thoughts of an assistant's message, at any position in it; "" without a thought."""
        if self.role != "assistant":
            return ""
        return "\n".join(filter(None, (self.reasoning, split_thoughts(self._content_text)[0])))

    @property
    def written(self) -> str:
        """An assistant's whole text except its calls: speech, and thoughts with their marks."""
        thought = f"<think>\n{self.reasoning}\n</think>\n\n" if self.reasoning else ""
        return thought + self._content_text

    @property
    def speaks(self) -> bool:
        """Whether the message has text or images; thoughts do not count."""
        return bool(self.text or self.images)

    def spoken(self) -> Message:
        """Return the message as other participants see it: without an assistant's thoughts."""
        if self.role != "assistant":
            return self
        content = self.content
        if not isinstance(content, str):
            parts = (TextPart(split_thoughts(p.text)[1]) if isinstance(p, TextPart) else p for p in content)
            return replace(self, content=tuple(parts), reasoning="", extra={})
        return replace(self, content=self.text, reasoning="", extra={})

    @property
    def _content_text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images of the message, in order."""
        return () if isinstance(self.content, str) else tuple(p for p in self.content if isinstance(p, ImagePart))

    def to_json(self) -> dict[str, Any]:
        """Return the message as JSON-able data, which `from_json` reads back. Empty fields are left out.

        A content with images is a list of parts in the format of model hubs. Several texts become one.
        """
        row: dict[str, Any] = {"role": self.role, "content": self._content_text}
        if self.images:
            row["content"] = [part.to_json() for part in self.content if not isinstance(part, str)]
        if self.calls:
            row["calls"] = [call.to_json() for call in self.calls]
        if self.role == "tool":
            row |= {"call_id": self.call_id, "name": self.name}
        if self.reasoning:
            row["reasoning"] = self.reasoning
        return row | {"extra": dict(self.extra)} if self.extra else row

    @classmethod
    def from_json(cls, row: Any) -> Message:
        """Build a message from JSON data. Raises: ValueError; its text continues a sentence about the message."""
        if not isinstance(row, dict) or row.get("role") not in ROLES:
            raise ValueError("needs a role: system, user, assistant or tool.")
        if row["role"] == "tool" and not isinstance(row.get("name"), str):
            raise ValueError("has the role tool, but no `name` of the tool that it comes from.")
        content = row.get("content", "")
        return cls(
            row["role"],
            tuple(map(_part_from_json, content)) if isinstance(content, list) else str(content),
            tuple(map(Call.from_json, row.get("calls", ()))),
            row.get("call_id"),
            row.get("name"),
            str(row.get("reasoning", "")),
            dict(row.get("extra", {})),
        )


def images_of(messages: Iterable[Message]) -> list[ImagePart]:
    """Return every image of a conversation, in reading order."""
    return [image for message in messages for image in message.images]


class StopReason(StrEnum):
    """Why an episode ended. `terminated`, `truncated` and `failed` follow from it and are never merged."""

    ANSWERED = "answered"  # a final tool was called, or no other actor answers the agent's message
    ENVIRONMENT = "environment"  # the environment ended the episode
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    MAX_CALLS = "max_calls"
    CONTEXT_FULL = "context_full"
    TIME = "time"
    REPEATED_VOID = "repeated_void"  # several turns in a row without a call that can be parsed
    LEFT = "left"  # the external program that plays the agent has disconnected
    HOPELESS = "hopeless"  # a stop rule found that the episode can no longer succeed
    INFRA_ERROR = "infra_error"
    CANCELLED = "cancelled"

    @property
    def terminated(self) -> bool:
        """Whether the agent's answer or the environment ended the episode."""
        return self in (StopReason.ANSWERED, StopReason.ENVIRONMENT)

    @property
    def ends_attempt(self) -> bool:
        """Whether another attempt may follow, if there is one left: the episode did not end by a budget."""
        return self.terminated or self is StopReason.HOPELESS

    @property
    def failed(self) -> bool:
        """Whether the infrastructure failed or the run was cancelled: not scored and not trained on."""
        return self in (StopReason.INFRA_ERROR, StopReason.CANCELLED)

    @property
    def truncated(self) -> bool:
        """Whether a budget or a stop rule ended the episode, which is scored as it is."""
        return not (self.terminated or self.failed)
