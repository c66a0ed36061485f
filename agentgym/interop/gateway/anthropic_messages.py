"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.messages import ImagePart, Message
from agentgym.policy.contract import Constraints

from .api import COMMENT, Tools, call_of, chat_of, content_of, event_of, finish_of, tools_of
from .chat import Answer, AnsweredRequest, Chat, invalid, list_of, object_of, text_of
from .fields import NO_TOOLS, ToolChoice, check_fields, flag_of, response_format_of, stops_of

_READ = {"messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences", "output_config", "stream"}


class AnthropicMessages:
    """Anthropic's messages."""

    path, keep_alive = "/v1/messages", COMMENT

    def read(self, body: Mapping[str, Any], earlier: Mapping[str, AnsweredRequest] = {}) -> Chat:
        """Read a request, which holds the whole conversation. Raises: ServerRefusal naming what cannot be read."""
        check_fields(body, _READ)
        config = object_of(body.get("output_config") or {}, "output_config")
        check_fields(config, {"format"}, "output_config.")
        given = object_of(body.get("tool_choice") or {}, "tool_choice")
        constraints = Constraints(
            stop=stops_of(body.get("stop_sequences"), "stop_sequences"),
            one_call=flag_of(given.get("disable_parallel_tool_use"), "disable_parallel_tool_use", False),
            response_format=response_format_of(config.get("format"), "output_config.format"),
        )
        messages: list[Message] = []
        if body.get("system"):
            messages.append(Message("system", content_of(body["system"], "text", _image_source)))
        for row in list_of(body.get("messages"), "messages"):
            messages += self._messages(object_of(row, "A message"))
        tools = Tools()
        for tool in tools_of(body):
            named = object_of(tool, "A tool")
            if named.get("type", "custom") == "custom":  # others are run, or described, by the provider
                tools.add({**named, "parameters": named.get("input_schema")})
        choice = _choice_of(given)
        return chat_of(
            body, messages, tools, body.get("max_tokens"), choice=choice, constraints=constraints, sampling=body
        )

    def _messages(self, row: Mapping[str, Any]) -> Iterator[Message]:
        """Yield our messages for one of Anthropic's. Its user message contains tool results; ours are separate."""
        role, content = row.get("role"), row.get("content")
        if role not in ("user", "assistant", "system"):
            raise invalid(f"A message has the role {role!r:.40}. Give user, assistant or system.")
        if isinstance(content, str):
            yield Message(role, content)
            return
        calls, others, thoughts = [], [], list[str]()
        for part in list_of(content, "content"):
            kind = object_of(part, "A part of content").get("type")
            if kind == "tool_use" and role == "assistant":
                calls.append(call_of(part.get("id"), part.get("name"), object_of(part.get("input"), "input")))
            elif kind == "tool_result" and role == "user":
                result = content_of(part.get("content"), "text", _image_source)
                yield Message("tool", result, call_id=text_of(part.get("tool_use_id"), "tool_use_id"))
            elif kind == "thinking" and role == "assistant":
                thoughts.append(text_of(part.get("thinking"), "thinking"))
            elif kind != "redacted_thinking":
                others.append(part)
        if others or calls or role == "assistant":
            content = content_of(others, "text", _image_source)
            yield Message(role, content, tuple(calls), reasoning="\n".join(thoughts))

    def write(self, answer: Answer, model: str) -> dict[str, Any]:
        """Return the complete answer."""
        return {
            **self._head(answer, model),
            "content": self._content(answer),
            "stop_reason": self._stop(answer),
            "stop_sequence": answer.stop or None,
            "usage": {"input_tokens": answer.prompt_tokens, "output_tokens": answer.completion_tokens},
        }

    def events(self, answer: Answer, model: str, *, with_usage: bool) -> Iterator[str]:
        """Return the answer as lines of server-sent events."""
        usage = {"input_tokens": answer.prompt_tokens, "output_tokens": 0}
        start = {**self._head(answer, model), "content": [], "stop_reason": None, "usage": usage}
        yield event_of({"type": "message_start", "message": start}, "message_start")
        for index, part in enumerate(self._content(answer)):
            if part["type"] == "text":
                empty, delta = {**part, "text": ""}, {"type": "text_delta", "text": part["text"]}
            elif part["type"] == "thinking":
                empty, delta = {**part, "thinking": ""}, {"type": "thinking_delta", "thinking": part["thinking"]}
            else:
                written = json.dumps(part["input"])
                empty, delta = {**part, "input": {}}, {"type": "input_json_delta", "partial_json": written}
            for kind, data in (
                ("content_block_start", {"content_block": empty}),
                ("content_block_delta", {"delta": delta}),
                ("content_block_stop", {}),
            ):
                yield event_of({"type": kind, "index": index, **data}, kind)
        stop = {"stop_reason": self._stop(answer), "stop_sequence": answer.stop or None}
        usage = {"output_tokens": answer.completion_tokens}
        yield event_of({"type": "message_delta", "delta": stop, "usage": usage}, "message_delta")
        yield event_of({"type": "message_stop"}, "message_stop")

    def error(self, refused: ServerRefusal) -> dict[str, Any]:
        """Return a refusal as the program expects it."""
        return {"type": "error", "error": {"type": refused.kind, "message": str(refused)}}

    def error_event(self, refused: ServerRefusal) -> str:
        """Return a refusal as the end of a stream that has begun."""
        return event_of(self.error(refused), "error")

    def _head(self, answer: Answer, model: str) -> dict[str, Any]:
        return {
            "id": f"msg_{answer.id}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "stop_sequence": None,
        }

    def _content(self, answer: Answer) -> list[dict[str, Any]]:
        text = answer.message.text
        content: list[dict[str, Any]] = []
        if thought := answer.message.thought:
            content.append({"type": "thinking", "thinking": thought, "signature": ""})
        if text or not answer.message.calls:
            content.append({"type": "text", "text": text})
        for name, tool, arguments in answer.calls():
            content.append({"type": "tool_use", "id": name, "name": tool, "input": arguments})
        return content

    def _stop(self, answer: Answer) -> str:
        stop = finish_of(answer, "tool_use", "stop_sequence" if answer.stop else "end_turn")
        return {"length": "max_tokens", "content_filter": "refusal"}.get(stop, stop)


def _choice_of(given: Mapping[str, Any]) -> ToolChoice:
    kind = given.get("type", "auto")
    if kind == "tool":
        return ToolChoice(True, (text_of(given.get("name"), "The name of tool_choice"),))
    if kind not in ("auto", "any", "none"):
        raise invalid(f"tool_choice has the type {kind!r:.40}. Give auto, any, tool or none.")
    return NO_TOOLS if kind == "none" else ToolChoice(required=kind == "any")


def _image_source(part: Mapping[str, Any]) -> ImagePart:
    source = part.get("source") if part.get("type") == "image" else None
    if not isinstance(source, Mapping) or source.get("type") != "base64":
        raise invalid(
            f"A part has the type {part.get('type')!r:.40}, which is not supported. Give text, or a base64 image."
        )
    return ImagePart(text_of(source.get("data"), "data"), text_of(source.get("media_type"), "media_type"))
