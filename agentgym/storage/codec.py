"""Convert trajectories and turns to plain data and back without loss, for the ledger and JSON files.

Token ids and log-probabilities are packed as arrays of the machine's own 32-bit integers and 64-bit floats
(a log-probability comes back bit-equal); everything else is JSON.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from operator import attrgetter
from typing import Any

from agentgym.errors import LedgerError
from agentgym.messages import Call, Content, ImagePart, Message, Part, Result, ResultStatus, StopReason, TextPart
from agentgym.task import Origin
from agentgym.task.definition import Task
from agentgym.trajectory import EndState, ForkPoint, PromptAddition, Provenance, Row, Span, TokenMask
from agentgym.trajectory.provenance import ReplayedTurns
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

TurnRow = tuple[str, bytes, bytes, bytes]
"""JSON, token ids, log-probabilities, observation ids."""
Keep = Callable[[ImagePart], object]
"""A function called with each image. The record then holds only the image's digest."""
Fetch = Callable[[str], str]
"""Maps a digest to the data of the stored image. Raises: KeyError if the image is missing."""

_PROVENANCE_KEYS = {
    "agentgym": "agentgym",
    "seed": "seed",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_turn_tokens": "max_tokens",
    "hooks": "hooks",
    "policy": "policy",
    "environment": "environment",
    "image_digests": "images",
    "weaker_limits": "weaker_limits",
    "reset_usage": "reset_usage",
    "retries": "retries",
    "close_error": "close_error",
    "hopeless": "hopeless",
}
"""Fields of Provenance that are plain data, each with its key in files."""
_read_plain_fields = attrgetter(*_PROVENANCE_KEYS)
_UNKNOWN: tuple[object, ...] = (None, [], {})
_OLD_PROVENANCE_KEYS = {"attempts", "instruction", "knowledge", "assistance", "group_pending"}
"""Keys of ledgers before 0.3; `group_pending`, before 0.2, marked what is now the column `awaits_group`."""
_PROVENANCE_KEYS_IN_FILES = {*_PROVENANCE_KEYS.values(), *_OLD_PROVENANCE_KEYS, "branch", "replay", "additions"}

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def pack_turn(turn: Turn, keep: Keep | None = None) -> TurnRow:
    """Return a turn as a row; with `keep`, its images are stored elsewhere.

    Raises: LedgerError if a call's arguments or a reward are not JSON data.
    """
    return (
        _json(turn_to_json(turn, keep), "turn", turn.index),
        array("i", turn.token_ids).tobytes(),
        array("d", turn.logprobs).tobytes(),
        array("i", turn.observation_ids).tobytes(),
    )


def unpack_turn(row: TurnRow, fetch: Fetch | None = None) -> Turn:
    """Return the turn that `pack_turn` packed. Raises: ValueError, KeyError, TypeError for other data."""
    turn = turn_from_json(json.loads(row[0]), fetch)
    turn.token_ids, turn.logprobs = _ints(row[1]), _floats(row[2])
    turn.observation_ids = _ints(row[3])
    return turn


def pack_head(trajectory: Trajectory, keep: Keep | None = None) -> tuple[str, bytes]:
    """Return a trajectory without turns, as JSON and prompt ids. Raises: LedgerError naming data that is not JSON."""
    head = _json(head_to_json(trajectory, keep), "episode", trajectory.id)
    return head, array("i", trajectory.prompt_ids).tobytes()


def unpack_head(head: str, prompt_ids: bytes, fetch: Fetch | None = None) -> Trajectory:
    """Return the trajectory that `pack_head` packed, without turns."""
    trajectory = head_from_json(json.loads(head), fetch)
    trajectory.prompt_ids = _ints(prompt_ids)
    return trajectory


def turn_to_json(turn: Turn, keep: Keep | None = None) -> dict[str, Any]:
    """Return a turn without its tokens. Fields with default values are omitted, so that most turns are short."""
    row: dict[str, Any] = {
        "index": turn.index,
        "content": _content(turn.message.content, keep),
        "calls": [[c.name, c.arguments, c.id, c.error] for c in turn.calls],
        "results": [result_to_json(result, keep) for result in turn.results],
        "generate_s": turn.generate_s,
        "tools_s": turn.tools_s,
    }
    if turn.message.calls is not turn.calls and turn.message.calls != tuple(turn.calls):
        row["said_calls"] = [[c.name, c.arguments, c.id, c.error] for c in turn.message.calls]
    if turn.message.reasoning:
        row["reasoning"] = turn.message.reasoning
    if turn.message.extra:
        row["extra"] = dict(turn.message.extra)
    if turn.replies:
        row["replies"] = [message_to_json(m, keep) for m in turn.replies]
    if turn.finish_reason != "stop":
        row["finish_reason"] = turn.finish_reason
    if turn.policy_version:
        row["policy_version"] = turn.policy_version
    if turn.version_changes:
        row["version_changes"] = [list(change) for change in turn.version_changes]
    if turn.policy:
        row["policy"] = turn.policy
    if turn.role:
        row["role"] = turn.role
    if turn.row:
        row["row"] = turn.row
    if turn.rewards:
        row["rewards"] = turn.rewards
    if turn.spans:
        row["spans"] = [[s.start, s.end, s.value, s.call, s.argument] for s in turn.spans]
    if turn.masks:
        row["masks"] = [[start, end, mask.ids, mask.allowed] for start, end, mask in turn.masks]
    if turn.usage:
        row["usage"] = turn.usage
    if turn.state_key is not None:
        row["state_key"] = turn.state_key
    if turn.value is not None:
        row["value"] = turn.value
    if turn.potential is not None:
        row["potential"] = turn.potential
    return row


def turn_from_json(row: dict[str, Any], fetch: Fetch | None = None) -> Turn:
    """Return the turn that `turn_to_json` wrote, without tokens."""
    calls = tuple(Call(*fields) for fields in row["calls"])
    message_calls = tuple(Call(*fields) for fields in row["said_calls"]) if "said_calls" in row else calls
    get = row.get
    return Turn(
        row["index"],
        Message(
            "assistant",
            _as_content(row["content"], fetch),
            message_calls,
            reasoning=get("reasoning", ""),
            extra=get("extra", {}),
        ),
        calls,
        tuple(result_from_json(result, fetch) for result in row["results"]),
        replies=tuple(message_from_json(m, fetch) for m in get("replies", ())),
        policy_version=get("policy_version", 0),
        version_changes=tuple((token, version) for token, version in get("version_changes", ())),
        rewards=get("rewards", {}),
        state_key=get("state_key"),
        value=get("value"),
        potential=get("potential"),
        finish_reason=get("finish_reason", "stop"),
        generate_s=row["generate_s"],
        tools_s=row["tools_s"],
        usage=get("usage", {}),
        spans=tuple(Span(*fields) for fields in get("spans", ())),
        policy=get("policy", ""),
        role=get("role", ""),
        row=get("row", 0),
        masks=tuple((start, end, TokenMask(tuple(ids), allowed)) for start, end, ids, allowed in get("masks", ())),
    )


def head_to_json(trajectory: Trajectory, keep: Keep | None = None) -> dict[str, Any]:
    """Return a trajectory without prompt ids and turns."""
    task = trajectory.task
    return {
        "id": trajectory.id,
        "sample": trajectory.sample,
        "seed": trajectory.seed,
        "task": {
            "id": task.id,
            "environment": task.environment,
            "prompt": task.prompt,
            "messages": [message_to_json(m, keep) for m in task.messages],
            "parameters": dict(task.parameters),
            "truth": task.truth,
            "split": task.split,
            "tags": list(task.tags),
            "difficulty": task.difficulty,
            **({"hints": list(task.hints)} if task.hints else {}),
            **({"origin": asdict(task.origin)} if task.origin is not None else {}),
        },
        "opening": [message_to_json(m, keep) for m in trajectory.opening],
        **({"tools": list(trajectory.tools)} if trajectory.tools is not None else {}),
        "outcome": trajectory.outcome,
        "stop_reason": trajectory.stop_reason,
        "error": trajectory.error,
        "weights": dict(trajectory.weights),
        "provenance": provenance_to_json(trajectory.provenance),
        "duration_s": trajectory.duration_s,
        **({"end_state": list(astuple(end))} if (end := trajectory.end_state) else {}),
        **({"rows": [row_to_json(row, keep) for row in rows]} if (rows := trajectory.further_rows) else {}),
    }


def head_from_json(data: dict[str, Any], fetch: Fetch | None = None) -> Trajectory:
    """Return the trajectory that `head_to_json` wrote, without prompt ids and turns."""
    task = dict(data["task"])
    task["messages"] = tuple(message_from_json(m, fetch) for m in task["messages"])
    task["tags"] = tuple(task["tags"])
    task["hints"] = tuple(task.get("hints", ()))
    task["origin"] = Origin(**task["origin"]) if "origin" in task else None
    stop = data["stop_reason"]
    return Trajectory(
        data["id"],
        Task(**task),
        data["sample"],
        data["seed"],
        tuple(message_from_json(m, fetch) for m in data["opening"]),
        tools=tuple(data["tools"]) if "tools" in data else None,
        outcome=data["outcome"],
        stop_reason=None if stop is None else StopReason(stop),
        error=data["error"],
        weights=data["weights"],
        provenance=provenance_from_json(data["provenance"]),
        duration_s=data["duration_s"],
        end_state=EndState(*data["end_state"]) if "end_state" in data else None,
        further_rows=[row_from_json(row, fetch) for row in data.get("rows", ())],
    )


def row_to_json(row: Row, keep: Keep | None = None) -> dict[str, Any]:
    """Return a further row of a trajectory as JSON data, without its turns."""
    opening = [message_to_json(message, keep) for message in row.opening]
    return {"opening": opening, "prompt_ids": row.prompt_ids, "tools": list(row.tools), "parent": row.parent}


def row_from_json(data: dict[str, Any], fetch: Fetch | None = None) -> Row:
    """Return the row that `row_to_json` wrote."""
    opening = tuple(message_from_json(message, fetch) for message in data["opening"])
    return Row(opening, list(data["prompt_ids"]), tuple(data["tools"]), data["parent"])


def provenance_to_json(provenance: Provenance) -> dict[str, Any]:
    """Return a provenance by the key names that ledgers have always used."""
    values = zip(_PROVENANCE_KEYS.values(), _read_plain_fields(provenance), strict=True)
    row: dict[str, Any] = {key: value for key, value in values if value not in _UNKNOWN}
    if (branch := provenance.branch) is not None:
        row["branch"] = {"of": branch.trajectory, "turn": branch.turn}
    if (replay := provenance.replay) is not None:
        row["replay"] = {"of": replay.trajectory, "turns": list(replay.turns)}
    if provenance.additions:
        row["additions"] = [asdict(addition) for addition in provenance.additions]
    return row | provenance.extra


def provenance_from_json(row: dict[str, Any]) -> Provenance:
    """Return the provenance that `provenance_to_json` wrote; unknown keys go into `extra`."""
    known = {field: row[key] for field, key in _PROVENANCE_KEYS.items() if key in row}
    provenance = Provenance(**known)
    if "branch" in row:
        provenance.branch = ForkPoint(row["branch"]["of"], row["branch"]["turn"])
    if "replay" in row:
        provenance.replay = ReplayedTurns(row["replay"]["of"], tuple(row["replay"]["turns"]))
    if "attempts" in row:
        provenance.hooks = {"attempts": row["attempts"]}
    provenance.additions = _additions_from_json(row)
    others = row.keys() - _PROVENANCE_KEYS_IN_FILES
    if others:
        provenance.extra = {key: row[key] for key in row if key in others}
    return provenance


def _additions_from_json(row: dict[str, Any]) -> tuple[PromptAddition, ...]:
    """Return the prompt additions. Ledgers before 0.3 have a separate key for each of three kinds of additions."""
    additions = [PromptAddition(**addition) for addition in row.get("additions", ())]
    if "instruction" in row:
        additions.append(PromptAddition("instruction", row["instruction"], "system"))
    if "knowledge" in row:
        additions.append(PromptAddition("knowledge", row["knowledge"]))
    if "assistance" in row:
        additions.append(PromptAddition.training_help(**row["assistance"]))
    return tuple(additions)


def message_to_json(message: Message, keep: Keep | None = None) -> list[Any]:
    """Return role, content, calls, call id and name, as a list to save space: a ledger has very many messages.

    Reasoning and the server's extra fields follow if there are any.
    """
    calls = [[c.name, c.arguments, c.id, c.error] for c in message.calls]
    row = [message.role, _content(message.content, keep), calls, message.call_id, message.name]
    return [*row, message.reasoning, dict(message.extra)] if message.reasoning or message.extra else row


def message_from_json(row: Sequence[Any], fetch: Fetch | None = None) -> Message:
    """Return the message that `message_to_json` wrote."""
    role, content, calls, *rest = row
    return Message(role, _as_content(content, fetch), tuple(Call(*fields) for fields in calls), *rest)


def result_to_json(result: Result, keep: Keep | None = None) -> list[Any]:
    """Return the fields of a result in order; empty usage is omitted."""
    r = result
    fields = [_content(r.content, keep), r.status, r.name, r.call_id, r.final, r.truncated, r.duration_s]
    return [*fields, dict(r.usage)] if r.usage else fields


def result_from_json(row: Sequence[Any], fetch: Fetch | None = None) -> Result:
    """Return the result that `result_to_json` wrote."""
    content, status, *rest = row
    return Result(_as_content(content, fetch), ResultStatus(status), *rest)


def _content(content: Content, keep: Keep | None) -> Any:
    return content if isinstance(content, str) else [_part(part, keep) for part in content]


def _part(part: Part, keep: Keep | None) -> dict[str, str]:
    if isinstance(part, TextPart):
        return {"text": part.text}
    if keep is None:
        return {"image": part.data, "media_type": part.media_type}
    keep(part)
    return {"sha256": part.digest, "media_type": part.media_type}


def _as_content(data: Any, fetch: Fetch | None) -> Content:
    return data if isinstance(data, str) else tuple(_as_part(part, fetch) for part in data)


def _as_part(part: dict[str, str], fetch: Fetch | None) -> Part:
    if "text" in part:
        return TextPart(part["text"])
    if "image" in part:
        return ImagePart(part["image"], part["media_type"])
    if fetch is None:
        raise ValueError(f"the image {part['sha256']} is stored outside of this record")
    return ImagePart(fetch(part["sha256"]), part["media_type"])


def _json(data: Any, what: str, name: object) -> str:
    try:
        return _encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise LedgerError(
            f"The {what} {name!r} cannot be recorded, because a part of it is not JSON data: {error}. Use only dict, "
            "list, str, int, float, bool and None in task parameters and truth, call arguments and rewards."
        ) from error


def _ints(packed: bytes) -> list[int]:
    numbers = array("i")
    numbers.frombytes(packed)
    return numbers.tolist()


def _floats(packed: bytes) -> list[float]:
    numbers = array("d")
    numbers.frombytes(packed)
    return numbers.tolist()
