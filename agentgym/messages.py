"""What agents and environments exchange: messages, calls, results, stop reasons."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from agentgym.thoughts import split_thoughts

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text inside a message with several parts."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image inside a message: encoded bytes in base64 and their media type, e.g. image/png."""

    data: str
    media_type: str = "image/png"
    type: Literal["image"] = "image"

    @property
    def digest(self) -> str:
        """SHA-256 of the data as it stands, in hexadecimal: equal means the same image."""
        return hashlib.sha256(self.data.encode("utf-8", "surrogatepass")).hexdigest()


Part = TextPart | ImagePart
Content = str | tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool, as the agent wrote it."""

    name: str
    """The name of the tool."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """The arguments by name, as JSON data."""
    id: str = "call_0"
    """The id that joins the call and its result."""
    error: str | None = None
    """Set when the text could not be understood as a call. It says what was wrong in words that teach the model, and
    becomes the call's result without any tool being run."""

    def in_one_line(self) -> str:
        """Return the call as it is written in Python: `turn(key=3)`."""
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


class ResultStatus(StrEnum):
    """How a call came out. Everything but `infra_error` is the agent's own doing, and is scored."""

    OK = "ok"
    TOOL_ERROR = "tool_error"  # the tool raised ToolError
    MALFORMED = "malformed"  # the text was no call
    UNKNOWN_TOOL = "unknown_tool"
    WRONG_ARGUMENTS = "wrong_arguments"
    TIMEOUT = "timeout"
    OVER_BUDGET = "over_budget"  # a budget of the episode was used up before this call ran
    BY_PROGRAM = "by_program"  # the agent's own program or team answered it: the environment did not run it


@dataclass(slots=True)
class Result:
    """What came back from a call."""

    content: Content
    """What the agent reads."""
    status: ResultStatus = ResultStatus.OK
    """How the call came out."""
    name: str = ""
    """The name of the tool."""
    call_id: str = "call_0"
    """The id of the call."""
    final: bool = False
    """Whether the call ended the episode."""
    truncated: bool = False
    """Whether the content was cut to `max_output_chars`."""
    duration_s: float = 0.0
    """The wall time of the tool in seconds."""
    usage: Mapping[str, float] = field(default_factory=dict, compare=False)
    """What the call used of sandboxes, by name as in `agentgym.sandbox.Usage`; empty if it used none."""

    @property
    def ok(self) -> bool:
        """Whether nothing is known to have gone wrong."""
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
    """A text, or a list of texts and images. An assistant's may hold thoughts between their marks, as it wrote them."""
    calls: tuple[Call, ...] = ()
    """The calls of an assistant's message."""
    call_id: str | None = None
    """In a tool's message, the id of the call that it answers."""
    name: str | None = None
    """In a tool's message, the name of the tool."""
    reasoning: str = ""
    """What an assistant thought, where its server gives that apart from the content."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What an assistant's server wants back with the message, by the field's name: signatures of thoughts, for
    example."""

    @property
    def text(self) -> str:
        """What the message says: its text without an assistant's thoughts and without images."""
        written = self._content_text
        return split_thoughts(written)[1] if self.role == "assistant" else written

    @property
    def thought(self) -> str:
        """What an assistant thought before, between and after what it said; "" without a thought."""
        if self.role != "assistant":
            return ""
        return "\n".join(filter(None, (self.reasoning, split_thoughts(self._content_text)[0])))

    @property
    def written(self) -> str:
        """Everything that an assistant wrote beside its calls: thoughts between their marks, and speech."""
        thought = f"<think>\n{self.reasoning}\n</think>\n\n" if self.reasoning else ""
        return thought + self._content_text

    @property
    def speaks(self) -> bool:
        """Whether the message says or shows something; a thought alone does not."""
        return bool(self.text or self.images)

    def spoken(self) -> Message:
        """Return the message as others hear it: without the thoughts of an assistant."""
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


def images_of(messages: Iterable[Message]) -> list[ImagePart]:
    """Every image of a conversation, in the order in which they are read."""
    return [image for message in messages for image in message.images]


class StopReason(StrEnum):
    """Why an episode ended. `terminated`, `truncated` and `failed` follow from it and are never merged."""

    ANSWERED = "answered"  # a final tool was called, or the agent spoke and nobody answers
    ENVIRONMENT = "environment"  # the environment ended the episode
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    MAX_CALLS = "max_calls"
    CONTEXT_FULL = "context_full"
    TIME = "time"
    REPEATED_VOID = "repeated_void"  # several turns in a row without one understandable call
    LEFT = "left"  # the program that played has gone away
    HOPELESS = "hopeless"  # a rule said that it will not succeed any more
    INFRA_ERROR = "infra_error"
    CANCELLED = "cancelled"

    @property
    def terminated(self) -> bool:
        """The task itself ended the episode."""
        return self in (StopReason.ANSWERED, StopReason.ENVIRONMENT)

    @property
    def ends_attempt(self) -> bool:
        """Another attempt may follow, where the episode has one left: no budget was used up."""
        return self.terminated or self is StopReason.HOPELESS

    @property
    def failed(self) -> bool:
        """The infrastructure broke or the run was stopped: not scored and not trained on."""
        return self in (StopReason.INFRA_ERROR, StopReason.CANCELLED)

    @property
    def truncated(self) -> bool:
        """A budget or a stop rule ended the episode; it is scored as it stands."""
        return not (self.terminated or self.failed)
