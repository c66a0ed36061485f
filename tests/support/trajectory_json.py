"""A whole trajectory as plain data, to compare two of them."""

from __future__ import annotations

from typing import Any

from agentgym.storage.codec import head_from_json, head_to_json, turn_from_json, turn_to_json
from agentgym.trajectory.record import Trajectory


def trajectory_to_json(trajectory: Trajectory) -> dict[str, Any]:
    """Return a whole trajectory as JSON-compatible data, tokens as lists: for files that people read."""
    turns = []
    for turn in trajectory.turns:
        tokens = {"token_ids": turn.token_ids, "logprobs": turn.logprobs, "observation_ids": turn.observation_ids}
        turns.append(turn_to_json(turn) | tokens)
    return head_to_json(trajectory) | {"prompt_ids": trajectory.prompt_ids, "turns": turns}


def trajectory_from_json(data: dict[str, Any]) -> Trajectory:
    """Return the trajectory that `trajectory_to_json` wrote."""
    trajectory = head_from_json(data)
    trajectory.prompt_ids = list(data["prompt_ids"])
    for row in data["turns"]:
        turn = turn_from_json(row)
        turn.token_ids, turn.logprobs = list(row["token_ids"]), list(row["logprobs"])
        turn.observation_ids = list(row["observation_ids"])
        trajectory.turns.append(turn)
    return trajectory
