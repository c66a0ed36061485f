"""The signals that the record of an episode already holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.errors import CreditError
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

_encode = json.JSONEncoder(sort_keys=True, default=str).encode  # json.dumps would create an encoder for every turn


def recorded_signals(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Return the arguments of `Group.from_arrays` for the trajectories of one task; see `Group.from_trajectories`.

    Raises: CreditError.
    """
    if not trajectories:
        raise CreditError("The group is empty. Give it at least one trajectory.")
    _require_one_task(trajectories)
    turn_components = dict.fromkeys(name for t in trajectories for turn in t.turns for name in turn.rewards)
    outcome_components = dict.fromkeys(name for t in trajectories for name in t.outcome)
    weights, as_counted = _weights(trajectories)
    return {
        "turns": [len(t.turns) for t in trajectories],
        "valid": [t.valid for t in trajectories],
        "truncated": [t.stop_reason is not None and t.stop_reason.truncated for t in trajectories],
        "environment": trajectories[0].task.environment,
        "weights": weights,
        "outcomes": _outcomes(trajectories),
        "turn_rewards": [t.turn_rewards() for t in trajectories],
        "components": {
            name: as_counted(name, [[turn.rewards.get(name) for turn in t.turns] for t in trajectories])
            for name in turn_components
        },
        # An outcome component that only some trajectories have counts as 0 for the others, as in their sums.
        "outcome_components": {
            name: as_counted(name, [t.outcome.get(name, 0.0) for t in trajectories]) for name in outcome_components
        },
        "tool_turn": [[not turn.void for turn in t.turns] for t in trajectories],
        "stop_reasons": [t.stop_reason for t in trajectories],
        "action_keys": [[_action_key(turn) for turn in t.turns] for t in trajectories],
        "state_keys": _if_complete(trajectories, lambda turn: turn.state_key),
        "values": _if_complete(trajectories, lambda turn: turn.value),
        "potentials": _if_complete(trajectories, lambda turn: turn.potential),
        "lengths": _if_complete(trajectories, lambda turn: len(turn.token_ids) or None),
        "versions": _if_complete(trajectories, lambda turn: turn.policy_version),
    }


def _weights(trajectories: Sequence[Trajectory]) -> tuple[dict[str, float], Callable[[str, list[Any]], list[Any]]]:
    """Return a group's weight of each component, the largest of its trajectories, and a function that scales values.

    A gate or a cap lowers a weight in some trajectories. There the component's values are lowered instead, so that a
    group's weights and components give each trajectory's rewards. The function takes a component's name, and its value,
    or those of the turns, for each trajectory.
    """
    given = [trajectory.weights for trajectory in trajectories if trajectory.valid] or [{}]  # failed ones may have none
    if all(own == given[0] for own in given):
        return dict(given[0]), lambda name, values: values
    names = dict.fromkeys(name for own in given for name in own)
    weights = {name: max((own.get(name, 1.0) for own in given), key=abs) for name in names}

    def as_counted(name: str, values: list[Any]) -> list[Any]:
        weight = weights.get(name, 1.0)
        factors = [trajectory.weights.get(name, 1.0) / weight if weight else 1.0 for trajectory in trajectories]
        return [
            [None if value is None else factor * value for value in own] if isinstance(own, list) else factor * own
            for factor, own in zip(factors, values, strict=True)
        ]

    return weights, as_counted


def _require_one_task(trajectories: Sequence[Trajectory]) -> None:
    task = trajectories[0].task
    for trajectory in trajectories:
        if trajectory.task.id != task.id:
            raise CreditError(
                f"Trajectory {trajectory.id!r} is of task {trajectory.task.id!r}, but its group is of task "
                f"{task.id!r}. Make one group per task, because a group compares episodes of one task."
            )


def _outcomes(trajectories: Sequence[Trajectory]) -> list[float | None] | None:
    """Return the outcome of each trajectory; None if no valid trajectory has one."""
    valid = [t for t in trajectories if t.valid]
    if not any(t.outcome for t in valid):
        return None
    for trajectory in valid:
        if not trajectory.outcome:
            raise CreditError(
                f"Trajectory {trajectory.id!r} has no outcome component, but others of its group have one. A reward "
                "must score every episode, or raise JudgeError where it cannot."
            )
    return [t.outcome_reward if t.outcome else None for t in trajectories]


def _if_complete(trajectories: Sequence[Trajectory], read: Callable[[Turn], Any]) -> list[list[Any]] | None:
    """Return the result of `read` for each turn; None if `read` returns None for any turn of a valid trajectory."""
    rows = [[read(turn) for turn in t.turns] for t in trajectories]
    complete = all(x is not None for t, row in zip(trajectories, rows, strict=True) if t.valid for x in row)
    return rows if complete and any(rows) else None


def _action_key(turn: Turn) -> str:
    """Return a key that is equal for turns with equal calls, even if their texts differ. Without calls: the text."""
    calls = [[call.name, call.arguments] for call in turn.message.calls if call.error is None]
    return _encode(calls) if calls else turn.message.text
