"""OpenAI's chat completions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.messages import ImagePart, Message, TextPart
from agentgym.policy.contract import Constraints

from .api import (
    COMMENT,
    Tools,
    call_of,
    chat_of,
    content_of,
    event_of,
    finish_of,
    image_of_data,
    openai_tokens,
    tools_of,
)
from .chat import Answer, AnsweredRequest, Chat, invalid, list_of, object_of, text_input, text_of
from .fields import check_fields, flag_of, openai_choice, response_format_of, stops_of

_READ = frozenset(
    [
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "response_format",
        "logprobs",
        "stream",
        "stream_options",
    ]
)


class ChatCompletions:
    """OpenAI's chat completions."""

    path, keep_alive = "/v1/chat/completions", COMMENT

    def read(self, body: Mapping[str, Any], earlier: Mapping[str, AnsweredRequest] = {}) -> Chat:
        """Read a request, which holds the whole conversation. Raises: ServerRefusal naming what cannot be read."""
        check_fields(body, _READ)
        messages = [self._message(object_of(row, "A message")) for row in list_of(body.get("messages"), "messages")]
        tools = Tools()
        for tool in tools_of(body):
            kind = object_of(tool, "A tool").get("type", "function")
            if kind == "custom":
                tools.add_text_tool(object_of(tool.get("custom"), "A tool"))
            elif kind == "function":
                tools.add(object_of(tool.get("function"), "A tool"))
        constraints = Constraints(
            stop=stops_of(body.get("stop"), "stop"),
            one_call=not flag_of(body.get("parallel_tool_calls"), "parallel_tool_calls", True),
            response_format=response_format_of(body.get("response_format"), "response_format"),
        )
        chat = chat_of(
            body,
            messages,
            tools,
            body.get("max_completion_tokens", body.get("max_tokens")),
            choice=openai_choice(body.get("tool_choice")),
            constraints=constraints,
            sampling=body,
            logprobs=flag_of(body.get("logprobs"), "logprobs", False),
        )
        options = object_of(body.get("stream_options") or {}, "stream_options")
        return replace(chat, stream_usage=options.get("include_usage") is True)

    def _message(self, row: Mapping[str, Any]) -> Message:
        role = row.get("role")
        content = content_of(row.get("content"), "text", _image_url)
        if role in ("system", "developer"):
            return Message("system", content)
        if role == "user":
            return Message("user", content)
        if role == "assistant":
            calls = []
            for call in list_of(row.get("tool_calls") or [], "tool_calls"):
                if object_of(call, "A call").get("type") == "custom":
                    custom = object_of(call.get("custom"), "custom")
                    text = {"input": text_of(custom.get("input"), "input")}
                    calls.append(call_of(call.get("id"), custom.get("name"), text))
                    continue
                function = object_of(call.get("function"), "function")
                calls.append(call_of(call.get("id"), function.get("name"), function.get("arguments")))
            thought = row.get("reasoning_content") or ""
            return Message("assistant", content, tuple(calls), reasoning=text_of(thought, "reasoning_content"))
        if role == "tool":
            return Message("tool", content, call_id=text_of(row.get("tool_call_id"), "tool_call_id"))
        raise invalid(f"A message has the role {role!r:.40}. Give system, developer, user, assistant or tool.")

    def write(self, answer: Answer, model: str) -> dict[str, Any]:
        """Return the complete answer."""
        message = self._spoken(answer)
        if calls := self._calls(answer):
            message["tool_calls"] = calls
        return {
            **self._head(answer, model, "chat.completion"),
            "choices": [{**self._choice(answer), "message": message, "finish_reason": self._finish(answer)}],
            "usage": self._usage(answer),
        }

    def events(self, answer: Answer, model: str, *, with_usage: bool) -> Iterator[str]:
        """Return the answer as lines of server-sent events. If the program asks for usage, it comes in a separate
        chunk without choices.
        """
        head = self._head(answer, model, "chat.completion.chunk") | ({"usage": None} if with_usage else {})
        delta = self._spoken(answer)
        if calls := self._calls(answer):
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        last = {"index": 0, "delta": {}, "finish_reason": self._finish(answer)}
        yield event_of({**head, "choices": [{**self._choice(answer), "delta": delta, "finish_reason": None}]})
        yield event_of({**head, "choices": [last]})
        if with_usage:
            yield event_of({**head, "choices": [], "usage": self._usage(answer)})
        yield "data: [DONE]\n\n"

    def error(self, refused: ServerRefusal) -> dict[str, Any]:
        """Return a refusal as the program expects it."""
        return {"error": {"message": str(refused), "type": refused.kind, "param": None, "code": refused.kind}}

    def error_event(self, refused: ServerRefusal) -> str:
        """Return a refusal as the end of a stream that has begun."""
        return event_of(self.error(refused))

    def _choice(self, answer: Answer) -> dict[str, Any]:
        tokens = openai_tokens(answer)
        return {"index": 0, "logprobs": None if tokens is None else {"content": tokens, "refusal": None}}

    def _finish(self, answer: Answer) -> str:
        return finish_of(answer, "tool_calls", "stop")

    def _spoken(self, answer: Answer) -> dict[str, Any]:
        thought = {"reasoning_content": answer.message.thought} if answer.message.thought else {}
        return {"role": "assistant", "content": answer.message.text, **thought}

    def _calls(self, answer: Answer) -> list[dict[str, Any]]:
        calls = []
        for name, tool, arguments in answer.calls():
            takes_text = tool in answer.forms  # the only form besides functions in this API
            kind, given = ("custom", "input") if takes_text else ("function", "arguments")
            text = text_input(arguments) if takes_text else json.dumps(arguments)
            calls.append({"id": name, "type": kind, kind: {"name": tool, given: text}})
        return calls

    def _head(self, answer: Answer, model: str, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": int(time.time()), "model": model}

    def _usage(self, answer: Answer) -> dict[str, int]:
        read, written = answer.prompt_tokens, answer.completion_tokens
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _image_url(part: Mapping[str, Any]) -> ImagePart:
    url = object_of(part.get("image_url"), "image_url").get("url") if part.get("type") == "image_url" else None
    return image_of_data(url, part)


def chat_content(message: Message) -> str | list[dict[str, Any]]:
    """Return a message's content in this API's form: its text, or its parts if it has images."""
    if not message.images or isinstance(message.content, str):
        return message.text
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        for part in message.content
    ]
