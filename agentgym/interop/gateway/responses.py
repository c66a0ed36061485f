"""OpenAI's responses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.messages import ImagePart, Message
from agentgym.policy.contract import Constraints

from .api import COMMENT, Tools, call_of, chat_of, content_of, event_of, image_of_data, openai_tokens, tools_of
from .chat import Answer, AnsweredRequest, Chat, ToolForm, invalid, list_of, object_of, text_input, text_of
from .chat_completions import ChatCompletions
from .fields import check_fields, flag_of, openai_choice, response_format_of

_READ = frozenset(
    [
        "input",
        "instructions",
        "previous_response_id",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "max_output_tokens",
        "include",
        "stream",
        "stream_options",
    ]
)


class Responses:
    """OpenAI's responses. Answers are remembered until the episode ends."""

    path, keep_alive = "/v1/responses", COMMENT

    def read(self, body: Mapping[str, Any], earlier: Mapping[str, AnsweredRequest] = {}) -> Chat:
        """Read a request. Raises: ServerRefusal naming what cannot be read."""
        check_fields(body, _READ)
        text = object_of(body.get("text") or {}, "text")
        check_fields(text, {"format"}, "text.")
        messages: list[Message] = []
        if body.get("instructions"):
            messages.append(Message("system", text_of(body["instructions"], "instructions")))
        instructed = bool(messages)
        if body.get("previous_response_id"):
            name = text_of(body["previous_response_id"], "previous_response_id")
            if (answered := earlier.get(name.removeprefix("resp_"))) is None:
                raise invalid(f"previous_response_id {name!r:.80} names no answer in this episode. Send the id of one.")
            messages += [*answered.chat.messages[answered.chat.instructed :], answered.answer.message]
        given = body.get("input")
        if isinstance(given, str):
            messages.append(Message("user", given))
        else:
            thoughts: list[str] = []
            for each in list_of(given, "input"):
                item = self._referenced(object_of(each, "An item of input"), earlier)
                if item.get("type") == "reasoning":
                    thoughts += _thoughts_of(item)
                    continue
                self._add(messages, item)
                if messages[-1].role == "assistant":
                    thought = "\n".join([messages[-1].reasoning, *thoughts]).strip()
                    messages[-1] = replace(messages[-1], reasoning=thought)
                thoughts.clear()
        tools = Tools()
        for tool in tools_of(body):
            _add_tool(tools, object_of(tool, "A tool"))
        constraints = Constraints(
            one_call=not flag_of(body.get("parallel_tool_calls"), "parallel_tool_calls", True),
            response_format=response_format_of(text.get("format"), "text.format"),
        )
        chat = chat_of(
            body,
            messages,
            tools,
            body.get("max_output_tokens"),
            choice=openai_choice(body.get("tool_choice")),
            constraints=constraints,
            sampling=body,
            logprobs="message.output_text.logprobs" in list_of(body.get("include") or [], "include"),
        )
        return replace(chat, instructed=instructed)

    def _referenced(self, item: Mapping[str, Any], earlier: Mapping[str, AnsweredRequest]) -> Mapping[str, Any]:
        """Return an item, or the item of an earlier answer that it refers to. Raises: ServerRefusal."""
        if item.get("type") != "item_reference":
            return item
        outputs = (output for request in earlier.values() for output in self._output(request.answer))
        referenced = next((output for output in outputs if output["id"] == item.get("id")), None)
        if referenced is None:
            raise invalid(f"item_reference {item.get('id')!r:.80} names no item that this episode's answers hold.")
        return referenced

    def _add(self, messages: list[Message], item: Mapping[str, Any]) -> None:
        """Add an item to the messages; the text and each call of an assistant's message are separate items."""
        kind = item.get("type", "message")
        if kind == "message":
            content = content_of(item.get("content"), ("input_text", "output_text"), _input_image)
            role = item.get("role")
            if role not in ("system", "developer", "user", "assistant"):
                raise invalid(f"A message has the role {role!r:.40}. Give system, developer, user or assistant.")
            messages.append(Message("system" if role == "developer" else role, content))
        elif kind in ("function_call", "custom_tool_call"):
            given = item.get("arguments") if kind == "function_call" else {"input": text_of(item.get("input"), "input")}
            call = call_of(item.get("call_id"), _name_of(item), given)
            if messages and messages[-1].role == "assistant":
                messages[-1] = replace(messages[-1], calls=(*messages[-1].calls, call))
            else:
                messages.append(Message("assistant", "", (call,)))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            content = content_of(item.get("output"), ("input_text", "output_text"), _input_image)
            messages.append(Message("tool", content, call_id=text_of(item.get("call_id"), "call_id")))
        else:
            raise invalid(f"An item has the type {kind!r:.40}, which is not supported.")

    def write(self, answer: Answer, model: str) -> dict[str, Any]:
        """Return the complete answer."""
        return self._response(answer, model, "completed", self._output(answer))

    def _response(self, answer: Answer, model: str, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        is_cut = status == "completed" and answer.finish_reason == "length"
        read, written = answer.prompt_tokens, answer.completion_tokens
        usage = {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": read + written,
        }
        return {
            "id": f"resp_{answer.id}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "incomplete" if is_cut else status,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "error": None,
            "instructions": None,
            "metadata": {},
            "model": model,
            "output": output,
            "parallel_tool_calls": True,
            "temperature": None,
            "top_p": None,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage if status == "completed" else None,
        }

    def _output(self, answer: Answer) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = []
        if thought := answer.message.thought:
            summary = [{"type": "summary_text", "text": thought}]
            output.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary})
        if answer.message.text or not answer.message.calls:
            tokens = openai_tokens(answer)
            text = {"type": "output_text", "text": answer.message.text, "annotations": [], "logprobs": tokens or []}
            output.append(
                {
                    "id": f"msg_{answer.id}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [text],
                }
            )
        for name, tool, arguments in answer.calls():
            form = answer.forms.get(tool, ToolForm(tool))
            call = {"call_id": name, "name": form.name, "status": "completed"}
            if form.namespace:
                call["namespace"] = form.namespace
            if form.takes_text:
                call = {"type": "custom_tool_call", **call, "input": text_input(arguments)}
            else:
                call = {"type": "function_call", **call, "arguments": json.dumps(arguments)}
            output.append({"id": f"fc_{answer.id}_{name}", **call})
        return output

    def events(self, answer: Answer, model: str, *, with_usage: bool) -> Iterator[str]:
        """Return the answer as lines of server-sent events."""
        number = 0

        def event(kind: str, **data: Any) -> str:
            nonlocal number
            number += 1
            return event_of({"type": kind, "sequence_number": number - 1, **data}, kind)

        yield event("response.created", response=self._response(answer, model, "in_progress", []))
        output = self._output(answer)
        for index, item in enumerate(output):
            at: dict[str, Any] = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                [part] = item["content"]
                empty = {**item, "status": "in_progress", "content": []}
                yield event("response.output_item.added", output_index=index, item=empty)
                at["content_index"] = 0
                yield event("response.content_part.added", **at, part={**part, "text": "", "logprobs": []})
                yield event("response.output_text.delta", **at, delta=part["text"], logprobs=part["logprobs"])
                yield event("response.output_text.done", **at, text=part["text"], logprobs=part["logprobs"])
                yield event("response.content_part.done", **at, part=part)
            elif item["type"] == "reasoning":
                [part] = item["summary"]
                yield event("response.output_item.added", output_index=index, item={**item, "summary": []})
                at["summary_index"] = 0
                yield event("response.reasoning_summary_part.added", **at, part={**part, "text": ""})
                yield event("response.reasoning_summary_text.delta", **at, delta=part["text"])
                yield event("response.reasoning_summary_text.done", **at, text=part["text"])
                yield event("response.reasoning_summary_part.done", **at, part=part)
            else:
                field = "input" if item["type"] == "custom_tool_call" else "arguments"
                kind = "custom_tool_call_input" if field == "input" else "function_call_arguments"
                empty = {**item, "status": "in_progress", field: ""}
                yield event("response.output_item.added", output_index=index, item=empty)
                yield event(f"response.{kind}.delta", **at, delta=item[field])
                yield event(f"response.{kind}.done", **at, **{field: item[field], "name": item["name"]})
            yield event("response.output_item.done", output_index=index, item=item)
        response = self._response(answer, model, "completed", output)
        yield event(f"response.{response['status']}", response=response)

    error = ChatCompletions.error

    def error_event(self, refused: ServerRefusal) -> str:
        """Return a refusal as the end of a stream that has begun."""
        data = {"code": refused.kind, "message": str(refused), "param": None, "sequence_number": 0}
        return event_of({"type": "error", **data}, "error")


def _add_tool(tools: Tools, tool: Mapping[str, Any], namespace: str = "") -> None:
    """Add a tool, or the tools of a namespace. Raises: ServerRefusal."""
    kind = tool.get("type", "function")
    if kind == "namespace" and not namespace:
        name = text_of(tool.get("name"), "The name of a namespace")
        for nested in tools_of(tool):
            _add_tool(tools, object_of(nested, "A tool"), name)
    elif kind == "function":
        name = text_of(tool.get("name"), "The name of a tool")
        tools.add(tool, ToolForm(name, namespace) if namespace else None)
    elif kind == "custom":
        tools.add_text_tool(tool, namespace)


def _thoughts_of(item: Mapping[str, Any]) -> list[str]:
    """Return the texts of a reasoning item, none if it is encrypted. Raises: ServerRefusal."""
    parts = [*list_of(item.get("summary") or [], "summary"), *list_of(item.get("content") or [], "content")]
    return [text_of(object_of(part, "A part of reasoning").get("text"), "text") for part in parts]


def _name_of(item: Mapping[str, Any]) -> str:
    """Return the policy's name of the tool that an item calls."""
    namespace = text_of(item.get("namespace") or "", "A namespace")
    return ToolForm(text_of(item.get("name"), "The name of a call"), namespace).policy_name


def _input_image(part: Mapping[str, Any]) -> ImagePart:
    return image_of_data(part.get("image_url") if part.get("type") == "input_image" else None, part)
