"""Google's generateContent, as Gemini's clients speak it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.messages import Call, Content, ImagePart, Message, Part, TextPart
from agentgym.policy.contract import Constraints

from .api import Tools, call_of, chat_of, event_of, tools_of
from .chat import Answer, AnsweredRequest, Chat, as_sent, invalid, list_of, object_of, text_of
from .fields import NO_TOOLS, ToolChoice, check_fields, flag_of, stops_of

_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_READ = frozenset(
    [
        "maxOutputTokens",
        "stopSequences",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "_responseJsonSchema",
        "responseLogprobs",
    ]
)
_RESULT_FIELDS = {"output", "result", "error", "content"}
"""Names under which clients wrap a result that is a text."""


class GenerateContent:
    """Google's generateContent. The path names the model and the method, see `target_of`."""

    path = "/v1/models/{target:path}"
    keep_alive = "\n"  # clients of this API read no comments

    def read(self, body: Mapping[str, Any], earlier: Mapping[str, AnsweredRequest] = {}) -> Chat:
        """Read a request, which holds the whole conversation. Raises: ServerRefusal naming what cannot be read."""
        body = _message_of(body, "The request")
        check_fields(body, {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"})
        messages: list[Message] = []
        if body.get("systemInstruction"):
            given = body["systemInstruction"]
            content = given if isinstance(given, str) else _content_of(_parts_of(given, "systemInstruction"))
            messages.append(Message("system", content))
        ids = _CallIds(earlier)
        for row in list_of(body.get("contents"), "contents"):
            messages += _messages(_message_of(row, "An item of contents"), ids)
        tools = Tools()
        for tool in tools_of(body):  # the others are run by the provider
            for function in list_of(
                _message_of(tool, "A tool").get("functionDeclarations") or [], "functionDeclarations"
            ):
                tools.add(_function_of(_message_of(function, "A function")))
        config = _message_of(body.get("generationConfig") or {}, "generationConfig")
        check_fields(config, _READ, "generationConfig.")
        constraints = Constraints(
            stop=stops_of(config.get("stopSequences"), "stopSequences"), response_format=_response_format_of(config)
        )
        return chat_of(
            body,
            messages,
            tools,
            config.get("maxOutputTokens"),
            choice=_choice_of(body.get("toolConfig") or {}),
            constraints=constraints,
            sampling=config,
            logprobs=flag_of(config.get("responseLogprobs"), "responseLogprobs", False),
        )

    def write(self, answer: Answer, model: str) -> dict[str, Any]:
        """Return the complete answer."""
        read, written = answer.prompt_tokens, answer.completion_tokens
        candidate = {
            "index": 0,
            "content": {"role": "model", "parts": self._parts(answer)},
            "finishReason": _FINISH[answer.finish_reason],
        }
        if answer.tokens is not None:
            chosen = [{"token": text, "logProbability": value} for text, value in answer.tokens]
            candidate["logprobsResult"] = {"chosenCandidates": chosen, "topCandidates": []}
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": read,
                "candidatesTokenCount": written,
                "totalTokenCount": read + written,
            },
            "modelVersion": model,
            "responseId": answer.id,
        }

    def events(self, answer: Answer, model: str, *, with_usage: bool) -> Iterator[str]:
        """Return the answer as one server-sent event."""
        yield event_of(self.write(answer, model))

    def error(self, refused: ServerRefusal) -> dict[str, Any]:
        """Return a refusal as the program expects it."""
        status = _STATUS.get(refused.status, "FAILED_PRECONDITION" if refused.status < 500 else "UNAVAILABLE")
        return {"error": {"code": refused.status, "message": str(refused), "status": status}}

    def error_event(self, refused: ServerRefusal) -> str:
        """Return a refusal as the end of a stream that has begun: without `data`, as Google's own clients read it."""
        return json.dumps(self.error(refused)) + "\n\n"

    def _parts(self, answer: Answer) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if thought := answer.message.thought:
            parts.append({"text": thought, "thought": True})
        if answer.message.text or not answer.message.calls:
            parts.append({"text": answer.message.text})
        for name, tool, arguments in answer.calls():
            parts.append({"functionCall": {"id": name, "name": tool, "args": arguments}})
        return parts


def _choice_of(given: Any) -> ToolChoice:
    """Return the choice of tools in toolConfig. Raises: ServerRefusal."""
    tool_config = _message_of(given, "toolConfig")
    check_fields(tool_config, {"functionCallingConfig"}, "toolConfig.")
    config = _message_of(tool_config.get("functionCallingConfig") or {}, "functionCallingConfig")
    check_fields(config, {"mode", "allowedFunctionNames"}, "functionCallingConfig.")
    mode = config.get("mode", "AUTO")
    if mode not in ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"):
        raise invalid(
            f"functionCallingConfig has the mode {mode!r:.40}, which is not supported. Give AUTO, ANY or NONE."
        )
    allowed = list_of(config.get("allowedFunctionNames") or [], "allowedFunctionNames")
    names = tuple(text_of(name, "A name of allowedFunctionNames") for name in allowed)
    return NO_TOOLS if mode == "NONE" else ToolChoice(mode == "ANY", names or None)


def _response_format_of(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the JSON Schema that an answer must have; {} for any object, None for text. Raises: ServerRefusal."""
    kind = config.get("responseMimeType") or "text/plain"
    if kind not in ("text/plain", "application/json"):
        raise invalid(f"responseMimeType = {kind!r:.40} is not supported. Give text/plain or application/json.")
    if kind == "text/plain":
        return None
    schema = config.get("responseJsonSchema") or config.get("_responseJsonSchema")
    if schema is not None:
        return object_of(schema, "responseJsonSchema")
    return schema_of(config["responseSchema"]) if config.get("responseSchema") else {}


def target_of(target: str) -> tuple[str, str]:
    """Return the model and the method of a path such as `gemini-pro:generateContent`. Raises: ServerRefusal."""
    model, _, method = target.rpartition(":")
    if method not in ("generateContent", "streamGenerateContent", "countTokens"):
        known = "generateContent, streamGenerateContent or countTokens"
        raise ServerRefusal(404, "not_found", f"The method {method!r:.80} is not supported. Ask for {known}.")
    return model, method


class _CallIds:
    """The ids of calls that a client sends back without them: those of the answer that made the calls."""

    def __init__(self, earlier: Mapping[str, AnsweredRequest]) -> None:
        self._answers = [request.answer.message.calls for request in earlier.values()]
        self._unanswered: list[Call] = []
        self._count = 0

    def of_calls(self, parts: Sequence[Mapping[str, Any]]) -> list[Call]:
        """Return the calls of a message."""
        given = [(text_of(part.get("name"), "The name of a call"), part.get("args") or {}) for part in parts]
        known = next((calls for calls in self._answers if [as_sent(call) for call in calls] == given), ())
        if known:
            self._answers = self._answers[self._answers.index(known) + 1 :]
        calls = []
        for index, part in enumerate(parts):
            self._count += 1
            name = part.get("id") or (known[index].id if known else f"call_of_client_{self._count}")
            calls.append(call_of(name, part.get("name"), part.get("args") or {}))
        self._unanswered = [*calls]
        return calls

    def of_result(self, part: Mapping[str, Any]) -> str:
        """Return the id of the call that a result answers: by its id, else the first unanswered one of its tool."""
        if part.get("id"):
            return text_of(part["id"], "The id of a functionResponse")
        call = next((call for call in self._unanswered if call.name == part.get("name")), None)
        if call is None:
            raise invalid(f"A functionResponse of {part.get('name')!r:.80} answers no functionCall before it.")
        self._unanswered.remove(call)
        return call.id


def _messages(row: Mapping[str, Any], ids: _CallIds) -> Iterator[Message]:
    """Yield our messages for one of Google's, whose user message contains results. Raises: ServerRefusal."""
    role = row.get("role", "user")
    if role not in ("user", "model", "function"):
        raise invalid(f"An item of contents has the role {role!r:.40}. Give user or model.")
    parts = _parts_of(row, "An item of contents")
    others = [
        part for part in parts if not {"functionCall", "functionResponse"} & part.keys() and not part.get("thought")
    ]
    if role == "model":
        called = [_message_of(part["functionCall"], "functionCall") for part in parts if "functionCall" in part]
        thought = "\n".join(text_of(part.get("text"), "text") for part in parts if part.get("thought"))
        yield Message("assistant", _content_of(others), tuple(ids.of_calls(called)), reasoning=thought)
        return
    for part in parts:
        if "functionResponse" in part:
            response = _message_of(part["functionResponse"], "functionResponse")
            yield Message("tool", _result_of(response), call_id=ids.of_result(response))
    if others:
        yield Message("user", _content_of(others))


def _parts_of(row: Any, what: str) -> list[Mapping[str, Any]]:
    return [_message_of(part, "A part") for part in list_of(_message_of(row, what).get("parts") or [], "parts")]


def _content_of(parts: Sequence[Mapping[str, Any]]) -> Content:
    """Return text, or parts of text and images. Raises: ServerRefusal for other parts."""
    content: list[Part] = []
    for part in parts:
        if "text" in part:
            content.append(TextPart(text_of(part["text"], "text")))
        elif "inlineData" in part:
            data = _message_of(part["inlineData"], "inlineData")
            kind = text_of(data.get("mimeType"), "mimeType")
            if not kind.startswith("image/"):
                raise invalid(
                    f"A part has data of the type {kind!r:.40}, which is not supported. Give text or an image."
                )
            content.append(ImagePart(text_of(data.get("data"), "data"), kind))
        else:
            raise invalid(
                f"A part has {', '.join(part) or 'nothing'}, which is not supported. Give text, or inlineData."
            )
    if all(isinstance(part, TextPart) for part in content):
        return "\n".join(part.text for part in content if isinstance(part, TextPart))
    return tuple(content)


def _result_of(response: Mapping[str, Any]) -> Content:
    """Return the content of a functionResponse: its text if it is one, else its JSON; and its images."""
    given = object_of(response.get("response") or {}, "response")
    texts = [value for name, value in given.items() if name in _RESULT_FIELDS and isinstance(value, str)]
    text = texts[0] if texts and len(given) == 1 else json.dumps(given, ensure_ascii=False)
    if not response.get("parts"):
        return text
    return _content_of([{"text": text}, *_parts_of(response, "functionResponse")])


def _function_of(function: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function as Tools.add takes it. Raises: ServerRefusal."""
    parameters = function.get("parametersJsonSchema")
    if parameters is None:
        parameters = schema_of(function.get("parameters") or {"type": "OBJECT"})
    return {"name": function.get("name"), "description": function.get("description"), "parameters": parameters}


def schema_of(given: Any) -> dict[str, Any]:
    """Return the JSON Schema for Google's own form of it, which writes types in capitals. Raises: ServerRefusal."""
    schema = dict(_message_of(given, "A schema"))
    is_nullable = schema.pop("nullable", False)
    if isinstance(schema.get("type"), str):
        schema["type"] = schema["type"].lower()
        if is_nullable:
            schema["type"] = [schema["type"], "null"]
    if "properties" in schema:
        schema["properties"] = {
            name: schema_of(value) for name, value in object_of(schema["properties"], "properties").items()
        }
    if "items" in schema:
        schema["items"] = schema_of(schema["items"])
    if "anyOf" in schema:
        schema["anyOf"] = [schema_of(each) for each in list_of(schema["anyOf"], "anyOf")]
    schema.pop("propertyOrdering", None)
    for name in ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"):
        if isinstance(schema.get(name), str) and schema[name].isdecimal():  # whole numbers of 64 bits are texts
            schema[name] = int(schema[name])
    return schema


def _message_of(value: Any, what: str) -> dict[str, Any]:
    """Return an object, with the names of its fields in camel case: Google reads both. Raises: ServerRefusal."""
    return {
        re.sub("_([a-z])", lambda match: match[1].upper(), name): field
        for name, field in object_of(value, what).items()
    }
