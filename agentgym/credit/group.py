"""A group: the trajectories of one task, as the signals from which credit is computed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import signals
from agentgym.credit.signals import Array, Bools
from agentgym.errors import CreditError, MissingSignalError, ShapeError

Labels = tuple[tuple[Hashable, ...], ...]
SIGNALS = ("outcomes", "turn_rewards", "state_keys", "values", "potentials", "branches", "tool_turn")


class TurnRecord(Protocol):
    """What a group reads of a turn; `agentgym.episode.trajectory.Turn` has it."""

    state_key: str | None
    value: float | None
    potential: float | None

    @property
    def void(self) -> bool: ...


class TrajectoryRecord(Protocol):
    """What a group reads of a trajectory; `agentgym.episode.trajectory.Trajectory` has it."""

    id: str
    task: Any
    turns: Any
    outcome: Any
    stop_reason: Any

    @property
    def valid(self) -> bool: ...
    @property
    def outcome_reward(self) -> float: ...
    def turn_rewards(self) -> Array: ...


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The signals of N trajectories with at most T turns. Build it with `from_arrays` or `from_trajectories`.

    A signal that nobody gave is None; an estimator that needs it raises MissingSignalError.

    Attributes:
        turns: [N] int64, turns of each trajectory, K_i.
        outcomes: [N] outcome reward; NaN only for a trajectory that is not valid.
        turn_rewards: [N, T] reward of each turn; NaN where a turn has none (missing is not 0) or was not played.
        valid: [N] bool, False where the infrastructure failed: not in the statistics, not in the loss.
        truncated: [N] bool, True where a budget ended the episode: scored as it stands.
        state_keys: hash of the state before each turn, or None.
        values: [N, T+1] predicted return before each turn; entry K_i is the one after the last turn, NaN if unknown.
        potentials: [N, T] progress before each turn.
        branches: id of the tree node that each turn is; trajectories that share a prefix share its ids.
        tool_turn: [N, T] bool, True where the turn called a tool.
    """

    turns: NDArray[np.int64]
    outcomes: Array | None
    turn_rewards: Array | None
    valid: Bools
    truncated: Bools
    state_keys: Labels | None = None
    values: Array | None = None
    potentials: Array | None = None
    branches: Labels | None = None
    tool_turn: Bools | None = None

    @classmethod
    def from_arrays(
        cls,
        *,
        outcomes: Iterable[float | None] | None = None,
        turn_rewards: Sequence[Sequence[float | None]] | None = None,
        valid: Iterable[bool] | None = None,
        truncated: Iterable[bool] | None = None,
        state_keys: Sequence[Sequence[Hashable]] | None = None,
        values: Sequence[Sequence[float | None]] | None = None,
        potentials: Sequence[Sequence[float | None]] | None = None,
        branches: Sequence[Sequence[Hashable]] | None = None,
        tool_turn: Sequence[Sequence[bool]] | None = None,
        turns: Iterable[int] | None = None,
    ) -> Group:
        """Build a group from nested sequences or arrays, one row per trajectory.

        Args:
            turns: turns of each trajectory. Without it they are counted in the first per-turn signal
                given; with no such signal every trajectory has one turn.
            The others: see the attributes. None and NaN both say that a number is missing. `values` may
            have one entry more than turns.
        Raises: ShapeError when axes disagree; CreditError for a value that makes no sense (each names
            field, trajectory and turn), for an empty group, and for a valid trajectory without a turn.
        """
        outcome_list = None if outcomes is None else list(outcomes)
        per_turn = {"turn_rewards": turn_rewards, "tool_turn": tool_turn, "state_keys": state_keys,
                    "branches": branches, "potentials": potentials, "values": values}  # fmt: skip
        counts = _count_turns(outcome_list, per_turn, turns)
        size = len(counts)
        is_valid = signals.flags("valid", valid, size, default=True)
        played = np.arange(counts.max(initial=0))[None] < counts[:, None]
        counted = played & is_valid[:, None]
        for i in np.flatnonzero(is_valid & (counts == 0)):
            raise CreditError(f"Trajectory {i} is valid but has no turn to credit: mark it as not valid.")

        numbers: dict[str, Array | None] = {}
        for field, given in (("turn_rewards", turn_rewards), ("potentials", potentials), ("values", values)):
            numbers[field] = None
            if given is not None:
                array = signals.per_turn(field, given, counts, after_last=field == "values")
                signals.require_finite(field, array, _match(counted, array), nan_is_missing=True)
                numbers[field] = array
        outcome = None
        if outcome_list is not None:
            outcome = signals.per_trajectory("outcomes", outcome_list, size)
            signals.require_finite("outcomes", outcome, is_valid, nan_is_missing=False)
        used_tool = None
        if tool_turn is not None:
            used_tool = signals.per_turn("tool_turn", tool_turn, counts) > 0
        return cls(
            turns=counts,
            outcomes=outcome,
            turn_rewards=numbers["turn_rewards"],
            valid=is_valid,
            truncated=signals.flags("truncated", truncated, size, default=False),
            state_keys=None if state_keys is None else signals.per_turn_labels("state_keys", state_keys, counts),
            values=numbers["values"],
            potentials=numbers["potentials"],
            branches=None if branches is None else signals.per_turn_labels("branches", branches, counts),
            tool_turn=used_tool,
        )

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[TrajectoryRecord]) -> Group:
        """Build a group from the trajectories of one task.

        Outcomes are carried if any valid trajectory has an outcome component; values, potentials and
        state keys if every turn of every valid trajectory has one.

        Raises: CreditError for an empty list, for trajectories of different tasks, and for a valid
            trajectory without an outcome where others have one (each names the trajectory).
        """
        if not trajectories:
            raise CreditError("A group needs at least one trajectory; none was given.")
        first = trajectories[0].task.id
        for trajectory in trajectories:
            if trajectory.task.id != first:
                raise CreditError(
                    f"Trajectory {trajectory.id!r} is of task {trajectory.task.id!r}, the group is of task {first!r}. "
                    "A group compares episodes of one task: make one group per task."
                )
        valid = [bool(t.valid) for t in trajectories]
        judged = [bool(t.outcome) for t, ok in zip(trajectories, valid, strict=True) if ok]
        outcomes = None
        if any(judged):
            for trajectory, ok in zip(trajectories, valid, strict=True):
                if ok and not trajectory.outcome:
                    raise CreditError(
                        f"Trajectory {trajectory.id!r} has no outcome component, others of its group have. A reward "
                        "scores every episode, or raises JudgeError where it cannot."
                    )
            outcomes = [t.outcome_reward if t.outcome else None for t in trajectories]

        def carried(field: str) -> Any:
            rows = [[getattr(turn, field) for turn in t.turns] for t in trajectories]
            known = all(x is not None for row, ok in zip(rows, valid, strict=True) if ok for x in row)
            return rows if known and any(rows) else None

        return cls.from_arrays(
            outcomes=outcomes,
            turn_rewards=[t.turn_rewards() for t in trajectories],  # type: ignore[misc]  # arrays are sequences here
            valid=valid,
            truncated=[t.stop_reason is not None and bool(t.stop_reason.truncated) for t in trajectories],
            state_keys=carried("state_key"),
            values=carried("value"),
            potentials=carried("potential"),
            tool_turn=[[not turn.void for turn in t.turns] for t in trajectories],
            turns=[len(t.turns) for t in trajectories],
        )

    @property
    def size(self) -> int:
        """N, trajectories that are not valid included."""
        return len(self.turns)

    @property
    def played(self) -> Bools:
        """[N, T] True on turns that exist."""
        return np.arange(int(self.turns.max(initial=0)))[None] < self.turns[:, None]

    @property
    def last_turn(self) -> Bools:
        """[N, T] True on the last turn of each trajectory."""
        return np.arange(int(self.turns.max(initial=0)))[None] == self.turns[:, None] - 1

    def signal(self, name: str) -> Any:
        """A signal that must be there. Raises: MissingSignalError naming it and what the group carries."""
        found = getattr(self, name)
        if found is None:
            carried = [field for field in SIGNALS if getattr(self, field) is not None]
            raise MissingSignalError(
                f"The group carries no {name}; it carries {', '.join(carried) or 'nothing'}. "
                + _REMEDY.get(name, "Give it to Group.from_arrays, or choose an estimator that does not need it.")
            )
        return found

    def only(self, keep: Bools) -> Group:
        """The group of the trajectories where `keep` is True, padding cut to the longest of them."""
        rows = np.flatnonzero(keep)
        longest = int(self.turns[rows].max(initial=0))

        def cut(array: Any, extra: int = 0) -> Any:
            return None if array is None else array[rows, : longest + extra]

        def pick(labels: Labels | None) -> Labels | None:
            return None if labels is None else tuple(labels[i] for i in rows)

        return Group(
            turns=self.turns[rows],
            outcomes=None if self.outcomes is None else self.outcomes[rows],
            turn_rewards=cut(self.turn_rewards),
            valid=self.valid[rows],
            truncated=self.truncated[rows],
            state_keys=pick(self.state_keys),
            values=cut(self.values, 1),
            potentials=cut(self.potentials),
            branches=pick(self.branches),
            tool_turn=cut(self.tool_turn),
        )


_REMEDY = {
    "outcomes": "An outcome says whether the episode as a whole was good: give the reward an `outcome` method.",
    "turn_rewards": "Give the reward a `turn` method, or choose an estimator of outcomes such as 'rloo'.",
    "state_keys": "The environment offers them by overriding `state_key`.",
}


def _count_turns(outcomes: Any, per_turn: dict[str, Any], turns: Iterable[int] | None) -> NDArray[np.int64]:
    """[N] turns of each trajectory, from `turns` or else from the first per-turn signal there is."""
    given = {field: rows for field, rows in per_turn.items() if rows is not None}
    size = len(outcomes) if outcomes is not None else None
    if turns is not None:
        counts = list(turns)
        for i, count in enumerate(counts):
            if isinstance(count, bool) or int(count) != count or count < 0:
                raise CreditError(f"turns of trajectory {i} is {count!r}: expected a whole number from 0 up.")
    elif given:
        field, rows = next(iter(given.items()))
        counts = [len(row) for row in signals.nested(field, rows, len(rows) if size is None else size)]
    else:
        counts = [1] * (size or 0)
    if not counts:
        raise CreditError("A group needs at least one trajectory; none was given.")
    if size is not None and size != len(counts):
        raise ShapeError(f"turns has {len(counts)} entries, outcomes has {size}: give one each per trajectory.")
    return np.array(counts, np.int64)


def _match(counted: Bools, array: Array) -> Bools:
    """`counted` widened to the columns of `array` (values may have one more)."""
    extra = array.shape[1] - counted.shape[1]
    return np.pad(counted, ((0, 0), (0, extra)), mode="constant", constant_values=bool(extra)) if extra else counted
