"""Tasks as JSON data: a line of a task file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from agentgym.errors import TaskError
from agentgym.messages import Call, Content, ImagePart, Message, Part, TextPart
from agentgym.task.definition import SPLITS, Origin, Task

_LONGEST_PATH = 255
FILE_KEYS = frozenset({"database", "corpus", "repository"})
"""Keys of parameters and truths whose value may be the path of a file or folder."""


def with_absolute_paths(row: Any, folder: Path) -> Any:
    """Return a row of a task file in which paths that exist relative to the file's folder are absolute.

    These are the values of `FILE_KEYS` in `parameters` and `truth`, at any depth. Other values stay as they are.
    """
    if not isinstance(row, dict):
        return row
    return {key: _absolute(row[key], folder) if key in ("parameters", "truth") else row[key] for key in row}


def _absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _path(each, folder) if key in FILE_KEYS else _absolute(each, folder) for key, each in value.items()}


def _path(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value or "\0" in value or len(value) > _LONGEST_PATH:
        return value
    path = folder / value
    return str(path.resolve()) if not Path(value).is_absolute() and path.exists() else value


def task_to_json(task: Task) -> dict[str, Any]:
    """Return a task as JSON-able data; `task_from_json` reads it back equal."""
    row = {f.name: getattr(task, f.name) for f in fields(task) if f.name not in ("hints", "origin")}
    row["messages"] = [_message_to_json(message) for message in task.messages]
    row["parameters"] = dict(task.parameters)
    row["tags"] = list(task.tags)
    row |= {"hints": list(task.hints)} if task.hints else {}  # omitted if empty, to keep older fingerprints
    return row | ({"origin": asdict(task.origin)} if task.origin is not None else {})


_FIELD_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "id": str,
    "environment": str,
    "prompt": str,
    "messages": list,
    "parameters": dict,
    "split": str,
    "tags": list,
    "hints": list,
    "difficulty": (int, float),
    "origin": dict,
}


def task_from_json(row: Any, where: str = "task") -> Task:
    """Build a task from JSON data. Raises: TaskError that begins with `where` and names the field."""
    if not isinstance(row, dict):
        raise TaskError(f"{where}: expected a JSON object, found {type(row).__name__}.")
    known = {f.name: f for f in fields(Task)}
    if unknown := set(row) - set(known):
        raise TaskError(f"{where}: unknown field {sorted(unknown)}. A task has {', '.join(known)}.")
    for name, kind in _FIELD_TYPES.items():
        if name in ("id", "environment") and not row.get(name):
            raise TaskError(f"{where}: the field {name!r} is missing or empty.")
        if name in row and (not isinstance(row[name], kind) or isinstance(row[name], bool)):
            raise TaskError(f"{where}: the field {name!r} is {row[name]!r}, of the wrong type.")
    if not math.isfinite(row.get("difficulty", 0)):
        raise TaskError(f"{where}: the field 'difficulty' is {row['difficulty']}: expected a finite number.")
    for name in ("tags", "hints"):
        if not all(isinstance(item, str) for item in row.get(name, ())):
            raise TaskError(f"{where}: the field {name!r} is {row[name]!r}: a {name[:-1]} is text.")
    if row.get("split", "train") not in SPLITS:
        raise TaskError(f"{where}: split {row['split']!r} is none of {', '.join(SPLITS)}.")
    if not (row.get("prompt") or row.get("messages")):
        raise TaskError(f"{where}: a task needs a prompt or messages.")
    messages = [
        _message_from_json(message, f"{where}: messages[{index}]")
        for index, message in enumerate(row.get("messages", []))
    ]
    origin = _origin_from_json(row["origin"], where) if "origin" in row else None
    lists = {name: tuple(row.get(name, ())) for name in ("tags", "hints")}
    return Task(**{**row, **lists, "messages": tuple(messages), "origin": origin})


def _origin_from_json(row: Mapping[str, Any], where: str) -> Origin:
    """Read the origin of a task. Raises: TaskError that begins with `where`."""
    known = [f.name for f in fields(Origin)]
    if not set(row) <= set(known) or not row.get("generator") or not all(isinstance(v, str) for v in row.values()):
        raise TaskError(f"{where}: the field 'origin' is {dict(row)}. It has the texts {', '.join(known)}.")
    return Origin(**row)


def _message_to_json(message: Message) -> dict[str, Any]:
    """Return role and content, plus an agent's calls, or the call that a tool message answers."""
    row: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.calls:
        row["calls"] = [{"name": c.name, "arguments": c.arguments, "id": c.id} for c in message.calls]
    if message.role == "tool":
        row |= {"call_id": message.call_id, "name": message.name}
    return row


def _message_from_json(row: Any, where: str) -> Message:
    """Read a message. Raises: TaskError that begins with `where`."""
    if not isinstance(row, dict) or row.get("role") not in ("system", "user", "assistant", "tool"):
        raise TaskError(f"{where} needs a role of system, user, assistant or tool.")
    content, calls = _as_content(row.get("content", ""), where), []
    if row["role"] == "tool" and not isinstance(row.get("name"), str):
        raise TaskError(f"{where} has the role tool, and no name of the tool that it comes from.")
    for call in row.get("calls", ()):
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise TaskError(f"{where} holds the call {str(call)[:60]!r}. A call is {{name: ..., arguments: {{...}}}}.")
        if not isinstance(call.get("arguments", {}), dict):
            raise TaskError(
                f"{where}: the arguments of {call['name']!r} are {call['arguments']!r}, which is not an object."
            )
        calls.append(Call(call["name"], dict(call.get("arguments", {})), str(call.get("id", "call_0"))))
    return Message(row["role"], content, tuple(calls), row.get("call_id"), row.get("name"))


def _content(message: Message) -> Any:
    """Return the text; for a message with images, its parts in the format of model hubs."""
    if not message.images:
        return message.text
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "data": part.data, "media_type": part.media_type}
        for part in message.content
        if not isinstance(part, str)
    ]


def _as_content(data: Any, where: str) -> Content:
    if not isinstance(data, list):
        return str(data)
    parts: list[Part] = []
    for part in data:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            parts.append(TextPart(part["text"]))
        elif kind == "image" and isinstance(part.get("data"), str):
            parts.append(ImagePart(part["data"], str(part.get("media_type", "image/png"))))
        else:
            raise TaskError(
                f"{where} holds the part {str(part)[:60]!r}. A part is {{type: text, text: ...}} or "
                "{type: image, data: base64, media_type: ...}."
            )
    return tuple(parts)
