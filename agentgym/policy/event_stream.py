"""Join a streamed chat completion (server-sent events) into the answer that a request without streaming gets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_DONE = "[DONE]"


class BrokenStream(ValueError):
    """A stream that ends early, reports an error or holds no chat completion. The message says which."""


def join_events(text: str) -> dict[str, Any]:
    """Return the complete answer from the parts in a stream: join texts and arguments of calls.

    Only the first choice is read. Raises: BrokenStream.
    """
    message: dict[str, Any] = {"role": "assistant"}
    answer: dict[str, Any] = {}
    finish_reason = None
    for chunk in _chunks(text):
        if chunk.get("error"):
            raise BrokenStream(f"the server ended the stream with an error: {str(chunk['error'])[:300]}")
        answer |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        try:
            for choice in chunk.get("choices") or ():
                if choice.get("index", 0) == 0:
                    _add(message, choice.get("delta") or choice.get("message") or {})
                    finish_reason = choice.get("finish_reason") or finish_reason
        except (AttributeError, TypeError) as error:
            raise BrokenStream(
                f"the server streamed something that is not part of a chat completion: {str(chunk)[:200]}"
            ) from error
    if finish_reason is None:
        raise BrokenStream("the server ended the stream before the message was complete")
    return {**answer, "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def _chunks(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the data of each event."""
    for event in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.removeprefix("data:").removeprefix(" ") for line in event.split("\n") if line.startswith("data:")]
        data = "\n".join(lines).strip()
        if not data or data == _DONE:
            continue
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BrokenStream(f"the server streamed an event that is not JSON: {data[:200]!r}") from error
        if not isinstance(chunk, dict):
            raise BrokenStream(f"the server streamed an event that is not a JSON object: {data[:200]!r}")
        yield chunk


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a part to the message received so far."""
    for key, value in delta.items():
        if value is None or key == "role":
            continue
        if key == "tool_calls":
            _add_calls(message.setdefault(key, []), value)
        elif isinstance(value, (str, list)) and isinstance(message.get(key), type(value)):
            message[key] += value
        else:
            message[key] = list(value) if isinstance(value, list) else value


def _add_calls(calls: list[dict[str, Any]], parts: Any) -> None:
    """Add the parts of calls to the calls that have arrived."""
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        function = part["function"] if isinstance(part.get("function"), dict) else {}
        call = _call_of(calls, part.get("index"), begins=bool(function.get("name")))
        call |= {key: value for key, value in part.items() if key not in ("index", "function") and value is not None}
        for key, value in function.items():
            if isinstance(value, str):
                call["function"][key] = call["function"].get(key, "") + value
            elif value is not None:
                call["function"][key] = value


def _call_of(calls: list[dict[str, Any]], index: int | None, *, begins: bool) -> dict[str, Any]:
    """Return the call to which a part belongs; add a new call if necessary.

    Args:
        index: the number of the call; None from servers that leave it out.
        begins: whether the part names the tool.
    """
    if index is None and calls and not begins:
        return calls[-1]
    for call in calls:
        if index is not None and call["index"] == index:
            return call
    calls.append({"index": len(calls) if index is None else index, "type": "function", "function": {}})
    return calls[-1]
