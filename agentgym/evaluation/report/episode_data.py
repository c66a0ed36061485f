"""Episodes as plain data for a page. Text of agents and tools is made visible here, and only ever shown as text."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.credit_lines import LoggedCredit
from agentgym.messages import Call, Content, ImagePart, Message, Result, StopReason
from agentgym.rollout.environments import schemas_of
from agentgym.storage.codec import provenance_to_json
from agentgym.storage.failures import count_failures, turn_failures
from agentgym.text import visible
from agentgym.trajectory import Row
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

MAX_SHOWN = 100_000
"""The maximum number of characters of one text on a page; the ledger holds the rest."""
MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Image types that a page shows. SVG is excluded, since it can hold a script."""

Link = Callable[[ImagePart, tuple[int, ...]], str]
"""A function that returns an image's URL for a page, from the image and its place: see `image_at`."""


def episode_data(
    trajectory: Trajectory, credit: LoggedCredit | None = None, link: Link | None = None
) -> dict[str, Any]:
    """Return a whole episode. Non-finite numbers become None, since JSON lacks them.

    Args:
        credit: the trainer's credit for its turns.
        link: makes the URLs of images; by default data URIs, which hold the images.
    """
    task, link = trajectory.task, link or data_uri
    return {
        "id": trajectory.id,
        "run": run_of(trajectory),
        "sample": trajectory.sample,
        "seed": trajectory.seed,
        "stop": trajectory.stop_reason and trajectory.stop_reason.value,
        "verdict": verdict(trajectory),
        "error": _text(trajectory.error or ""),
        "outcome": _json(trajectory.outcome),
        "weights": _json(dict(trajectory.weights)),
        "reward": _number(trajectory.return_from()),
        "duration_s": _number(trajectory.duration_s),
        "usage": _json(trajectory.usage()),
        "provenance": _json(provenance_to_json(trajectory.provenance)),
        "credit_step": credit and credit.step,
        "task": {
            "id": task.id,
            "environment": task.environment,
            "split": task.split,
            "tags": _json(list(task.tags)),
            "difficulty": _number(task.difficulty),
            "parameters": _json(dict(task.parameters)),
            "truth": _json(task.truth),
        },
        "tools": _tools(trajectory),
        "opening": [
            message_data(message, link, (0, i))
            for i, message in enumerate(trajectory.opening or trajectory.task.opening())
        ],
        "rows": [_row(row, number, link) for number, row in enumerate(trajectory.further_rows, 1)],
        "failures": dict(count_failures(trajectory)),
        "turns": [
            _turn(turn, kinds, credit, link)
            for turn, kinds in zip(trajectory.turns, turn_failures(trajectory.turns), strict=True)
        ],
    }


def token_data(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return all tokens as spans: for each row the prompt, then each turn's own tokens and the observation after it.

    The loss covers spans of kind `turn`; their `logprobs` are natural logarithms as sampled, None if the policy
    gave none.
    """
    return [span for row in trajectory.rows() for span in _row_spans(row) if span["ids"]]


def _row_spans(row: Trajectory) -> list[dict[str, Any]]:
    spans: list[dict[str, Any]] = [{"kind": "prompt", "turn": -1, "ids": row.prompt_ids}]
    for turn in row.turns:
        known = len(turn.logprobs) == len(turn.token_ids)
        spans.append(
            {
                "kind": "turn",
                "turn": turn.index,
                "ids": turn.token_ids,
                "logprobs": [_number(p, 4) for p in turn.logprobs] if known else None,
            }
        )
        spans.append({"kind": "observation", "turn": turn.index, "ids": turn.observation_ids})
    return spans


def verdict(trajectory: Trajectory) -> str:
    """Return `running`, `failed`, `unjudged`, `solved` or `unsolved`."""
    stop = trajectory.stop_reason
    if stop is None:
        return "running"
    if stop.failed:
        return "failed"
    if trajectory.success is None:
        return "unjudged"
    return "solved" if trajectory.success >= 1 else "unsolved"


def run_of(trajectory: Trajectory) -> str:
    """Return the part of the id before the task."""
    return trajectory.id.removesuffix(f"/{trajectory.task.id}#{trajectory.sample}")


def message_data(message: Message, link: Link, position: tuple[int, ...]) -> dict[str, Any]:
    """Return a message: its role, its parts (texts and images in order), and its thought, if any."""
    data: dict[str, Any] = {"role": message.role, "parts": _parts(message.spoken().content, link, position)}
    if message.thought:
        data["thought"] = _parts(message.thought, link, position)
    if message.calls:
        data["calls"] = [_call(call) for call in message.calls]
    return data


def image_at(trajectory: Trajectory, position: Sequence[int]) -> tuple[str, bytes] | None:
    """Return the media type and bytes of the image at a place; None if there is none that a page shows.

    A place is (0, message, part) in the opening, (1, turn, part) in an agent's message, (2, turn, result, part) in a
    result, (3, turn, reply, part) in a reply, (4, row, message, part) in the opening of a further row.
    """
    try:
        if any(index < 0 for index in position):
            return None
        kind, *rest = position
        if kind == 0:
            content = (trajectory.opening or trajectory.task.opening())[rest[0]].content
        elif kind == 1:
            content = trajectory.turns[rest[0]].message.content
        elif kind == 4:
            content = trajectory.rows()[rest[0]].opening[rest[1]].content
        else:
            turn = trajectory.turns[rest[0]]
            content = (turn.results if kind == 2 else turn.replies)[rest[1]].content
        part = content[rest[-1]]
    except (IndexError, ValueError):
        return None
    if not isinstance(part, ImagePart) or part.media_type not in MEDIA_TYPES:
        return None
    try:
        return part.media_type, base64.b64decode(part.data, validate=True)
    except (binascii.Error, ValueError):
        return None


def data_uri(image: ImagePart, _position: tuple[int, ...] = ()) -> str:
    """Return the image as a data URI."""
    return f"data:{image.media_type};base64,{image.data}"


def _tools(trajectory: Trajectory) -> list[dict[str, Any]] | None:
    """Return the tools as the agent first saw them; None if their environment is not registered here."""
    if trajectory.tools is None and "://" in trajectory.task.environment:
        return None  # reading them would ask a server
    try:
        schemas = schemas_of(trajectory)
    except AgentGymError:
        return None
    functions = [schema.get("function", schema) for schema in schemas]
    return [{name: _json(tool.get(name)) for name in ("name", "description", "parameters")} for tool in functions]


def _row(row: Row, number: int, link: Link) -> dict[str, Any]:
    opening = [message_data(message, link, (4, number, i)) for i, message in enumerate(row.opening)]
    return {"opening": opening, "parent": row.parent}


def _turn(turn: Turn, kinds: Sequence[str], credit: LoggedCredit | None, link: Link) -> dict[str, Any]:
    known = bool(turn.logprobs)
    return {
        "index": turn.index,
        "role": _text(turn.role),
        "policy": _text(turn.policy),
        "row": turn.row,
        "thought": _parts(turn.message.thought, link, (1, turn.index)),
        "parts": _parts(turn.message.spoken().content, link, (1, turn.index)),
        "calls": [_call(call) for call in turn.calls],
        "results": [_result(result, link, (2, turn.index, i)) for i, result in enumerate(turn.results)],
        "replies": [message_data(m, link, (3, turn.index, i)) for i, m in enumerate(turn.replies)],
        "rewards": _json(turn.rewards),
        "value": _number(turn.value),
        "potential": _number(turn.potential),
        "state_key": turn.state_key,
        "failures": list(dict.fromkeys(kinds)),
        "finish": turn.finish_reason,
        "version": turn.policy_version,
        "last_version": turn.last_version,
        "tokens": len(turn.token_ids),
        "seen": len(turn.observation_ids),
        "logprob": _number(sum(turn.logprobs) / len(turn.logprobs), 4) if known else None,
        "generate_s": _number(turn.generate_s, 4),
        "tools_s": _number(turn.tools_s, 4),
        "usage": _json(turn.usage),
        "credit": credit.advantages[turn.index] if credit and turn.index < len(credit.advantages) else None,
    }


def _call(call: Call) -> dict[str, Any]:
    return {"name": _text(call.name), "arguments": _json(call.arguments), "error": call.error and _text(call.error)}


def _result(result: Result, link: Link, position: tuple[int, ...]) -> dict[str, Any]:
    return {
        "name": _text(result.name),
        "status": result.status.value,
        "parts": _parts(result.content, link, position),
        "final": result.final,
        "truncated": result.truncated,
        "duration_s": _number(result.duration_s, 4),
    }


def _parts(content: Content, link: Link, position: tuple[int, ...]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [_text_part(content)] if content else []
    return [
        _image_part(part, link, (*position, i)) if isinstance(part, ImagePart) else _text_part(part.text)
        for i, part in enumerate(content)
    ]


def _text_part(text: str) -> dict[str, Any]:
    part: dict[str, Any] = {"text": _text(text)}
    if len(text) > MAX_SHOWN:
        part["left_out"] = len(text) - MAX_SHOWN
    return part


def _image_part(image: ImagePart, link: Link, position: tuple[int, ...]) -> dict[str, Any]:
    if image.media_type not in MEDIA_TYPES:
        return {"text": f"[an image of the type {visible(image.media_type)!r}, which pages do not show]"}
    return {"image": link(image, position)}


def _text(value: str) -> str:
    return visible(value[:MAX_SHOWN])


def _json(value: Any, depth: int = 0) -> Any:
    """Return plain data with every text made visible, limited to the depth that a page can unfold."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > 40:
        return "[nested too deeply to be shown]"
    if isinstance(value, Mapping):
        return {_text(str(key)): _json(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item, depth + 1) for item in value]
    return _text(str(value))


def _number(value: float | None, digits: int | None = None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return round(value, digits) if digits is not None else float(value)


def listed(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return summaries for a page's list, with verdicts and failures by kind. Ids stay unchanged."""
    return [_listed_row(row) for row in rows]


def siblings(group: Sequence[Mapping[str, Any]], credit: Mapping[str, LoggedCredit]) -> list[dict[str, Any]]:
    """Return the episodes of one task and run, each with its turns' advantages, or None without any."""
    given = {name: list(logged.advantages) for name, logged in credit.items()}
    return [row | {"credit": given.get(row["id"])} for row in listed(group)]


def _listed_row(row: Mapping[str, Any]) -> dict[str, Any]:
    data = dict(row)
    data["verdict"] = _verdict(row)
    data["failures"] = json.loads(row["failures"]) if row["failures"] else {}
    data["tags"] = [visible(tag) for tag in json.loads(row["tags"])] if row["tags"] else []
    data["shown"] = visible(row["id"])
    return data


def _verdict(row: Mapping[str, Any]) -> str:
    """Return what `verdict` returns for an episode, from its summary."""
    if row["stop"] is None:
        return "running"
    if StopReason(row["stop"]).failed:
        return "failed"
    if row["success"] is None:
        return "unjudged"
    return "solved" if row["success"] >= 1 else "unsolved"
