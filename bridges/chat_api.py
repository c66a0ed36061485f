"""Any OpenAI-compatible chat API as a policy, for evaluation only: the API returns no token ids for training."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from typing_extensions import override

from agentgym import Call, Content, ContextFull, ImagePart, Message, Policy, PolicyError, load
from agentgym.policy import CallFormat, JsonEndpoint, Reply, Request, RetryPolicy, formats, open_account
from agentgym.tools import replace_lone_surrogates

__all__ = ["ChatApiPolicy"]

_RETRY_POLICY = RetryPolicy()
_REASONING = ("reasoning_content", "reasoning")
"""Fields in which servers return thoughts. Thoughts are sent back in the same field, as some servers require."""
_SIGNED = ("reasoning_details", "thinking_blocks", "extra_content")
"""Fields of a message or a call with thought signatures, which a server wants back unchanged."""
_EXAMPLE = 'the tool\'s name, and as arguments a JSON object such as {"argument": "value"}'


class ChatApiPolicy(Policy):
    """Answers through `/chat/completions`.

    Args:
        base_url: up to and including the version, for example https://api.openai.com/v1.
        model: the server's name for the model.
        call_format: None uses the API's own `tools`; a name (or an instance) writes calls as text, for servers
            without tool support. Results are then sent in user messages.
        api_key_env: environment variable that holds the key; None sends no key.
        retry_policy: how long to try, see RetryPolicy.
        connections: the maximum number of open requests; on a cluster, of each node.
        extra: further fields of the request, for example {"reasoning_effort": "low"}.
        omit: fields to leave out of the request and its messages, for servers that reject them, for example
            ("seed", "temperature", "top_p") or ("reasoning_content",).
        token_field: the server's name for the token limit; some want max_completion_tokens.
        stream: ask for a stream, for servers that answer in no other way.
    """

    name = "chat_api"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        call_format: str | CallFormat | None = None,
        api_key_env: str | None = None,
        retry_policy: RetryPolicy = _RETRY_POLICY,
        connections: int = 64,
        extra: dict[str, Any] | None = None,
        omit: Sequence[str] = (),
        token_field: str = "max_tokens",
        context_tokens: int | None = None,
        stream: bool = False,
    ) -> None:
        options: dict[str, Any] = {"call_format": call_format, "api_key_env": api_key_env, "retry_policy": retry_policy}
        options |= {"connections": connections, "extra": extra, "omit": omit, "token_field": token_field}
        options |= {"context_tokens": context_tokens, "stream": stream}
        self._copier = partial(ChatApiPolicy, base_url, model, **options)
        key = os.environ.get(api_key_env, "") if api_key_env else ""
        if api_key_env and not key:
            raise PolicyError(f"The environment variable {api_key_env} is empty. Store the API key in it.")
        self.model, self.context_tokens = model, context_tokens
        self.name = f"chat_api:{model}"
        self._format = load("call_formats", call_format)() if isinstance(call_format, str) else call_format
        self._extra, self._omit, self._token_field = dict(extra or {}), frozenset(omit), token_field
        if stream:
            self._extra = {"stream": True, "stream_options": {"include_usage": True}} | self._extra
        headers = {"Authorization": f"Bearer {key}"} if key else None
        self._endpoint = JsonEndpoint(base_url, headers=headers, retry_policy=retry_policy, connections=connections)

    @override
    def identity(self) -> dict[str, Any]:
        call_format = None if self._format is None else self._format.name
        return {**super().identity(), "call_format": call_format, "extra": self._extra, "omit": self._omit}

    async def generate(self, request: Request) -> Reply:
        """Answer a request. Raises: PolicyError, ContextFull; see JsonEndpoint.post, and SpendingLimit."""
        if (account := open_account()) is not None:
            account.check()
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": self.model,
            "messages": replace_lone_surrogates(self._messages(request)),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            self._token_field: sampling.max_tokens,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed % 2**31  # some servers read only 32 bits
        if request.tools and self._format is None:
            body["tools"] = list(request.tools)
        body |= _constraints_of(request, native=self._format is None)
        body = {field: value for field, value in body.items() if field not in self._omit} | self._extra
        try:
            answer = await self._endpoint.post("/chat/completions", body)
        except ContextFull:
            raise
        except PolicyError as error:
            raise PolicyError(f"{error}{_field_remedy(str(error), body)}") from error
        choice, usage = _choice(answer)
        prompt_tokens, completion_tokens = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
        if account is not None:
            account.charge(self.name, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        return Reply(
            message=self._message(choice["message"], request.tools),
            finish_reason=finish_reason(choice),
            policy_version=self.version,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
        )

    @override
    async def check(self, request: Request) -> None:
        """Raise PolicyError for binding constraints if calls are written as text or a needed field is omitted."""
        if self._format is not None or self._omit & _constraints_of(request, native=True).keys():
            await super().check(request)

    @override
    def copier(self) -> Callable[[], Policy] | None:
        """Return a function that makes a copy on another node, with the key in that node's own variable; None for a
        subclass that answers in its own way, and for a server on a socket of this host.
        """
        if type(self).generate is not ChatApiPolicy.generate:
            return None
        return self._endpoint.on_hosts_that_reach_it(self._copier)

    @override
    async def check_reach(self) -> None:
        await self._endpoint.check_reach("/models")

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoint.close()

    def _messages(self, request: Request) -> list[dict[str, Any]]:
        if self._format is None:
            return [self._without_refused(_native(message)) for message in request.messages]
        rows = [self._without_refused(_textual(message, self._format)) for message in request.messages]
        if not request.tools:
            return rows
        tool_instructions = self._format.explain(request.tools)
        if rows and rows[0]["role"] == "system" and isinstance(rows[0]["content"], str):
            return [{"role": "system", "content": f"{rows[0]['content']}\n\n{tool_instructions}"}, *rows[1:]]
        return [{"role": "system", "content": tool_instructions}, *rows]

    def _without_refused(self, row: dict[str, Any]) -> dict[str, Any]:
        return {field: value for field, value in row.items() if field not in self._omit}

    def _message(self, written: dict[str, Any], tools: Sequence[dict[str, Any]]) -> Message:
        text = replace_lone_surrogates(_text(written.get("content")) or _text(written.get("refusal")))
        reasoning = replace_lone_surrogates(_text(written.get(_reasoning_field(written))))
        extra = _wanted_back(written)
        if self._format is not None:
            content, calls = formats.parse_message(self._format, text, tools)
            return Message("assistant", content, calls, reasoning=reasoning, extra=extra)
        return Message("assistant", text, _calls(written.get("tool_calls")), reasoning=reasoning, extra=extra)


def _constraints_of(request: Request, *, native: bool) -> dict[str, Any]:
    """Return the fields that ask an API for a request's constraints. `native`: whether calls use its own `tools`."""
    constraints, fields = request.constraints, dict[str, Any]()
    if constraints.stop:
        fields["stop"] = list(constraints.stop)
    if not native:
        return fields
    if request.tools and constraints.one_call:
        fields["parallel_tool_calls"] = False
    if constraints.tool_choice:
        fields["tool_choice"] = "required"
        chosen = [tool for tool in request.tools if tool["function"]["name"] in constraints.tool_choice]
        if len(chosen) < len(request.tools):
            fields["tools"] = chosen
    if constraints.response_format is not None:
        fields["response_format"] = {"type": "json_object"}
    if constraints.response_format:
        schema = {"name": "answer", "schema": dict(constraints.response_format)}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    return fields


def _calls(written: Any) -> tuple[Call, ...]:
    """Return the calls of an API's answer; a call that cannot be parsed has `error` set, as in every call format."""
    if not isinstance(written, list):
        return ()
    calls: list[Call] = []
    for index, row in enumerate(written):
        if index == formats.MAX_CALLS:
            formats.add_too_many_calls_error(calls, len(written) - formats.MAX_CALLS, _EXAMPLE)
            break
        function = row.get("function") if isinstance(row, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not name:
            calls.append(formats.malformed_call(index, "The call names no tool.", _EXAMPLE))
            continue
        given = function.get("arguments")
        try:
            arguments = formats.strict_object(given if isinstance(given, str) else json.dumps(given)) if given else {}
        except formats.Malformed as malformed:
            calls.append(formats.malformed_call(index, str(malformed), _EXAMPLE, name))
            continue
        calls.append(Call(name, arguments, str(row.get("id") or f"call_{index}")))
    return tuple(calls)


def _wanted_back(written: dict[str, Any]) -> dict[str, Any]:
    """Return the extra fields to send back to the server with its message: signatures, and the thought's field name.

    Signatures of calls are under `tool_calls`, by call id.
    """
    extra = {field: written[field] for field in _SIGNED if written.get(field)}
    if (field := _reasoning_field(written)) != _REASONING[0]:
        extra["reasoning_field"] = field
    calls = written.get("tool_calls")
    of_calls = {
        str(call.get("id") or f"call_{index}"): {field: call[field] for field in _SIGNED if call.get(field)}
        for index, call in enumerate(calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
    }
    signed = {name: fields for name, fields in of_calls.items() if fields}
    expected: dict[str, Any] = replace_lone_surrogates(extra | ({"tool_calls": signed} if signed else {}))
    return expected


def _reasoning_field(written: dict[str, Any]) -> str:
    return next((field for field in _REASONING if _text(written.get(field))), _REASONING[0])


def _reasoning_of(message: Message) -> dict[str, Any]:
    """Return the fields in which a server expects a message's thought and signatures."""
    signatures = {field: message.extra[field] for field in _SIGNED if field in message.extra}
    field = message.extra.get("reasoning_field", _REASONING[0])
    return ({field: message.reasoning} if message.reasoning else {}) | signatures


def _native(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role, "content": _content(message.content), **_reasoning_of(message)}
    if message.calls:
        signed = message.extra.get("tool_calls", {})
        row["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                # A call that could not be parsed has no arguments to repeat; its result says what was wrong.
                "function": {"name": call.name or "unreadable", "arguments": json.dumps(call.arguments)},
                **signed.get(call.id, {}),
            }
            for call in message.calls
        ]
    if message.role == "tool":
        row["tool_call_id"] = message.call_id
    return row


def _textual(message: Message, call_format: CallFormat) -> dict[str, Any]:
    if message.role == "tool":
        if isinstance(message.content, str):
            return {"role": "user", "content": f"<tool_response>\n{message.content}\n</tool_response>"}
        return {"role": "user", "content": _content(message.content)}
    if not message.calls:
        return {"role": message.role, "content": _content(message.content), **_reasoning_of(message)}
    readable = tuple(call for call in message.calls if call.error is None)
    try:
        written = call_format.render(readable) if readable else "[a call that could not be read]"
    except ValueError:  # this syntax cannot express the call, so the model used another
        written = "[a call that cannot be written again]"
    content = "\n".join(text for text in (replace(message, reasoning="").written, written) if text)
    return {"role": message.role, "content": content, **_reasoning_of(message)}


def _content(content: Content) -> str | list[dict[str, Any]]:
    if isinstance(content, str):
        return content
    return [
        {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        if isinstance(part, ImagePart)
        else {"type": "text", "text": part.text}
        for part in content
    ]


def _field_remedy(refusal: str, body: dict[str, Any]) -> str:
    """Return a remedy if a server rejected a field of the request; else ""."""
    sent = {*body, *(field for row in body["messages"] for field in row)}
    known = ("seed", "temperature", "top_p", "max_tokens", *_REASONING, *_SIGNED)
    refused = [name for name in known if name in sent and re.search(rf"\b{name}\b", refusal)]
    if "max_tokens" in refused and "max_completion_tokens" in refusal:
        return " Use token_field=max_completion_tokens."
    if re.search(r"\bstream", refusal) and not body.get("stream"):
        return " Use stream=true."
    return f" Use omit={json.dumps(refused)} to leave out what the server refuses." if refused else ""


def _choice(answer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the first choice and the usage. Raises: PolicyError if the answer is not from a chat API."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        raise PolicyError(
            f"The server's answer has no choices[0].message: {str(answer)[:200]!r}. Check that base_url is the "
            "address of a chat API, including /v1."
        )
    usage = answer.get("usage")
    return choice, usage if isinstance(usage, dict) else {}


_FINISH_REASONS: Mapping[str, Literal["length", "content_filter"]] = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(
        ("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "sensitive", "refusal"),
        "content_filter",
    ),
}
_BROKEN_OFF = ("abort", "error", "network_error", "insufficient_system_resource")


def finish_reason(choice: Mapping[str, Any]) -> Literal["stop", "length", "content_filter"]:
    """Return the finish reason of a server's message in our words; `stop` for an unknown reason.

    Raises: PolicyError if the server broke off the message, which is not the agent's fault.
    """
    reason = str(choice.get("finish_reason")).lower()
    if reason in _BROKEN_OFF:
        raise PolicyError(f"The server broke the message off: its finish_reason is {choice['finish_reason']!r}.")
    return _FINISH_REASONS.get(reason, "stop")


def _text(content: Any) -> str:
    if isinstance(content, list):  # parts
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _count(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) else 0
