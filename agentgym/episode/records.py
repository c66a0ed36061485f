"""Trajectories and turns as plain data, and back, with nothing lost: what the ledger and JSON files hold.

Token ids and log-probabilities are packed as arrays of the machine's own 32-bit integers and 64-bit floats
(a log-probability comes back bit-equal); everything else is JSON.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any

from agentgym.episode.trajectory import Trajectory, Turn
from agentgym.errors import LedgerError
from agentgym.messages import Call, Content, ImagePart, Message, Result, ResultStatus, StopReason, TextPart
from agentgym.task import Task

TurnRow = tuple[str, bytes, bytes, bytes]
"""JSON, token ids, log-probabilities, observation ids."""

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def pack_turn(turn: Turn) -> TurnRow:
    """A turn as a row. Raises: LedgerError when a call's arguments or a reward are no JSON data."""
    return (
        _json(turn_to_json(turn), "turn", turn.index),
        array("i", turn.token_ids).tobytes(),
        array("d", turn.logprobs).tobytes(),
        array("i", turn.observation_ids).tobytes(),
    )


def unpack_turn(row: TurnRow) -> Turn:
    """The turn that `pack_turn` packed. Raises: ValueError, KeyError, TypeError for anything else."""
    turn = turn_from_json(json.loads(row[0]))
    turn.token_ids, turn.logprobs = _ints(row[1]), _floats(row[2])
    turn.observation_ids = _ints(row[3])
    return turn


def pack_head(trajectory: Trajectory) -> tuple[str, bytes]:
    """A trajectory without its turns: JSON and prompt ids. Raises: LedgerError naming what is no JSON data."""
    return _json(head_to_json(trajectory), "episode", trajectory.id), array("i", trajectory.prompt_ids).tobytes()


def unpack_head(head: str, prompt_ids: bytes) -> Trajectory:
    """The trajectory that `pack_head` packed, without turns."""
    trajectory = head_from_json(json.loads(head))
    trajectory.prompt_ids = _ints(prompt_ids)
    return trajectory


def trajectory_to_json(trajectory: Trajectory) -> dict[str, Any]:
    """A whole trajectory as JSON-able data, tokens as lists: for files that people read."""
    turns = []
    for turn in trajectory.turns:
        tokens = {"token_ids": turn.token_ids, "logprobs": turn.logprobs, "observation_ids": turn.observation_ids}
        turns.append(turn_to_json(turn) | tokens)
    return head_to_json(trajectory) | {"prompt_ids": trajectory.prompt_ids, "turns": turns}


def trajectory_from_json(data: dict[str, Any]) -> Trajectory:
    """The trajectory that `trajectory_to_json` wrote."""
    trajectory = head_from_json(data)
    trajectory.prompt_ids = list(data["prompt_ids"])
    for row in data["turns"]:
        turn = turn_from_json(row)
        turn.token_ids, turn.logprobs = list(row["token_ids"]), list(row["logprobs"])
        turn.observation_ids = list(row["observation_ids"])
        trajectory.turns.append(turn)
    return trajectory


def turn_to_json(turn: Turn) -> dict[str, Any]:
    """A turn without its tokens. What has its default value is left out: most turns are short."""
    row: dict[str, Any] = {
        "index": turn.index, "content": _content(turn.message.content),
        "calls": [[c.name, c.arguments, c.id, c.error] for c in turn.calls],
        "results": [
            [_content(r.content), r.status, r.name, r.call_id, r.final, r.truncated, r.duration_s]
            + ([dict(r.usage)] if r.usage else [])
            for r in turn.results
        ],
        "generate_s": turn.generate_s, "tools_s": turn.tools_s,
    }  # fmt: skip
    if turn.message.calls is not turn.calls and turn.message.calls != tuple(turn.calls):
        row["said_calls"] = [[c.name, c.arguments, c.id, c.error] for c in turn.message.calls]
    if turn.replies:
        row["replies"] = [message_to_json(m) for m in turn.replies]
    if turn.finish_reason != "stop":
        row["finish_reason"] = turn.finish_reason
    if turn.policy_version:
        row["policy_version"] = turn.policy_version
    if turn.rewards:
        row["rewards"] = turn.rewards
    if turn.usage:
        row["usage"] = turn.usage
    if turn.state_key is not None:
        row["state_key"] = turn.state_key
    if turn.value is not None:
        row["value"] = turn.value
    if turn.potential is not None:
        row["potential"] = turn.potential
    return row


def turn_from_json(row: dict[str, Any]) -> Turn:
    """The turn that `turn_to_json` wrote, without tokens."""
    calls = tuple(Call(*fields) for fields in row["calls"])
    said = tuple(Call(*fields) for fields in row["said_calls"]) if "said_calls" in row else calls
    get = row.get
    return Turn(
        row["index"], Message("assistant", _as_content(row["content"]), said), calls,
        tuple(Result(_as_content(c), ResultStatus(status), *rest) for c, status, *rest in row["results"]),
        replies=tuple(message_from_json(m) for m in get("replies", ())),
        policy_version=get("policy_version", 0), rewards=get("rewards", {}), state_key=get("state_key"),
        value=get("value"), potential=get("potential"), finish_reason=get("finish_reason", "stop"),
        generate_s=row["generate_s"], tools_s=row["tools_s"], usage=get("usage", {}),
    )  # fmt: skip


def head_to_json(trajectory: Trajectory) -> dict[str, Any]:
    """Everything of a trajectory but prompt ids and turns."""
    task = trajectory.task
    return {
        "id": trajectory.id, "sample": trajectory.sample, "seed": trajectory.seed,
        "task": {
            "id": task.id, "environment": task.environment, "prompt": task.prompt,
            "messages": [message_to_json(m) for m in task.messages], "parameters": dict(task.parameters),
            "truth": task.truth, "split": task.split, "tags": list(task.tags), "difficulty": task.difficulty,
        },
        "opening": [message_to_json(m) for m in trajectory.opening],
        "outcome": trajectory.outcome, "stop_reason": trajectory.stop_reason, "error": trajectory.error,
        "weights": dict(trajectory.weights), "provenance": trajectory.provenance,
        "duration_s": trajectory.duration_s,
    }  # fmt: skip


def head_from_json(data: dict[str, Any]) -> Trajectory:
    """The trajectory that `head_to_json` wrote, without prompt ids and turns."""
    task = dict(data["task"])
    task["messages"] = tuple(message_from_json(m) for m in task["messages"])
    task["tags"] = tuple(task["tags"])
    stop = data["stop_reason"]
    return Trajectory(
        data["id"], Task(**task), data["sample"], data["seed"],
        tuple(message_from_json(m) for m in data["opening"]),
        outcome=data["outcome"], stop_reason=None if stop is None else StopReason(stop), error=data["error"],
        weights=data["weights"], provenance=data["provenance"], duration_s=data["duration_s"],
    )  # fmt: skip


def message_to_json(message: Message) -> list[Any]:
    """Role, content, calls, call id and name: a list, because a ledger holds very many."""
    calls = [[c.name, c.arguments, c.id, c.error] for c in message.calls]
    return [message.role, _content(message.content), calls, message.call_id, message.name]


def message_from_json(row: Sequence[Any]) -> Message:
    """The message that `message_to_json` wrote."""
    role, content, calls, call_id, name = row
    return Message(role, _as_content(content), tuple(Call(*fields) for fields in calls), call_id, name)


def _content(content: Content) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"text": part.text} if isinstance(part, TextPart) else {"image": part.data, "media_type": part.media_type}
        for part in content
    ]


def _as_content(data: Any) -> Content:
    if isinstance(data, str):
        return data
    return tuple(
        TextPart(part["text"]) if "text" in part else ImagePart(part["image"], part["media_type"]) for part in data
    )


def _json(data: Any, what: str, name: object) -> str:
    try:
        return _encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise LedgerError(
            f"The {what} {name!r} cannot be recorded, because a part of it is no JSON data: {error}. Task parameters "
            "and truth, call arguments and rewards are made of dict, list, str, int, float, bool and None."
        ) from error


def _ints(packed: bytes) -> list[int]:
    numbers = array("i")
    numbers.frombytes(packed)
    return numbers.tolist()


def _floats(packed: bytes) -> list[float]:
    numbers = array("d")
    numbers.frombytes(packed)
    return numbers.tolist()
