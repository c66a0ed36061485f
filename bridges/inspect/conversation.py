"""Conversion between our messages and Inspect's, in both directions."""

from __future__ import annotations

from collections.abc import Mapping

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentReasoning,
    ContentText,
)
from inspect_ai.tool import ToolCall, ToolCallError

from agentgym import Call, ImagePart, Message, Result, Turn

from .log import TOOL_ERRORS


def theirs(message: Message) -> ChatMessage:
    """Convert a message of an opening or an observation to Inspect's type."""
    if message.role == "system":
        return ChatMessageSystem(content=_content(message))
    if message.role == "tool":
        return ChatMessageTool(content=_content(message), tool_call_id=message.call_id, function=message.name)
    if message.role == "assistant":
        calls = [ToolCall(call.id, call.name, call.arguments) for call in message.calls]
        content = _content(message.spoken())
        if message.thought:
            parts = [ContentText(text=content)] if isinstance(content, str) else content
            content = [ContentReasoning(reasoning=message.thought), *parts]
        return ChatMessageAssistant(content=content, tool_calls=calls or None)
    return ChatMessageUser(content=_content(message))


def observed(turn: Turn) -> list[ChatMessage]:
    """Return the messages that the model reads after a turn, with failed results marked as errors, as in Inspect."""
    by_call: Mapping[str | None, Result] = {result.call_id: result for result in turn.results}
    messages = [theirs(message) for message in turn.observation()]
    for message in messages:
        if isinstance(message, ChatMessageTool) and (result := by_call.get(message.tool_call_id)) is not None:
            message.error = tool_error(result)
    return messages


def tool_error(result: Result) -> ToolCallError | None:
    """Return the error of a failed call; None for a call that went well."""
    return None if result.ok else ToolCallError(TOOL_ERRORS.get(result.status, "unknown"), result.message().text)


def ours(message: ChatMessageAssistant) -> Message:
    """Convert the model's message with its calls and its reasoning."""
    calls = [
        Call(call.function, call.arguments, call.id, call.parse_error or None) for call in message.tool_calls or ()
    ]
    parts = () if isinstance(message.content, str) else message.content
    thoughts = "\n".join(part.reasoning for part in parts if isinstance(part, ContentReasoning))
    return Message("assistant", message.text, tuple(calls), reasoning=thoughts)


def _content(message: Message) -> str | list[Content]:
    if isinstance(message.content, str):
        return message.content
    return [
        ContentImage(image=f"data:{part.media_type};base64,{part.data}")
        if isinstance(part, ImagePart)
        else ContentText(text=part.text)
        for part in message.content
    ]
