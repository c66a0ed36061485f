"""The kinds of signal a group carries: how each is read and checked, and how it is cut to some trajectories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import signals
from agentgym.credit.signals import Array, Bools, Lists
from agentgym.errors import CreditError, ShapeError

Turns = NDArray[np.int64]
Labels = tuple[tuple[Hashable, ...], ...]
Coalitions = tuple[Mapping[frozenset[int], float], ...]


@dataclass(frozen=True, slots=True)
class Kind(ABC):
    """How a signal is read, checked, and cut; each kind below says how it looks when it is stored."""

    def counts(self, field: str, given: Any, size: int | None) -> list[int] | None:
        """Turns of each trajectory, None where the signal does not tell. Raises: ShapeError."""
        return None

    @abstractmethod
    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Any:
        """The signal as it is stored.

        Raises: ShapeError when axes disagree; CreditError for a value that makes no sense. Each names the field,
            the trajectory and the turn. What a trajectory says that is not valid is not looked at.
        """

    def cut(self, stored: Any, rows: Turns, longest: int) -> Any:
        """The rows of some trajectories, the longest of which has so many turns."""
        return tuple(stored[i] for i in rows)


class RowsOfTurns(Kind):
    """A kind that is given as one row per trajectory, with one entry per turn."""

    __slots__ = ()

    def counts(self, field: str, given: Any, size: int | None) -> list[int]:
        return [len(row) for row in signals.nested(field, given, len(given) if size is None else size)]


@dataclass(frozen=True, slots=True)
class PerTurn(RowsOfTurns):
    """One number per turn: [N, T], NaN where missing or not played.

    Attributes:
        after_last: one entry more than turns is welcome, for what holds after the last turn: [N, T+1].
        low, high: smallest and largest number that makes sense.
        required: a valid trajectory has one for every turn.
    """

    after_last: bool = False
    low: float = -np.inf
    high: float = np.inf
    required: bool = False

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Array:
        array = signals.per_turn(field, given, turns, after_last=self.after_last)
        counted = valid[:, None] & (np.arange(array.shape[1])[None] < turns[:, None] + self.after_last)
        signals.require_finite(field, array, counted, nan_is_missing=not self.required)
        signals.require_between(field, array, counted, self.low, self.high)
        return array

    def cut(self, stored: Array, rows: Turns, longest: int) -> Array:
        return stored[rows, : longest + self.after_last]


@dataclass(frozen=True, slots=True)
class Flags(RowsOfTurns):
    """One True or False per turn: [N, T], False where not played."""

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Bools:
        return signals.per_turn(field, given, turns) > 0

    def cut(self, stored: Bools, rows: Turns, longest: int) -> Bools:
        return stored[rows, :longest]


@dataclass(frozen=True, slots=True)
class PerTurnLists(RowsOfTurns):
    """Any number of numbers per turn, for example one a token: [N, T, M], NaN behind the last of a turn.

    `after_last`: as in `PerTurn`.
    """

    after_last: bool = False

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Lists:
        array = signals.per_turn_lists(field, given, turns, after_last=self.after_last)
        signals.require_finite(field, array, np.broadcast_to(valid[:, None, None], array.shape), nan_is_missing=True)
        return array

    def cut(self, stored: Lists, rows: Turns, longest: int) -> Lists:
        return stored[rows, : longest + self.after_last]


@dataclass(frozen=True, slots=True)
class PerTurnLabels(RowsOfTurns):
    """One hashable label, or None, per turn: a tuple of tuples."""

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Labels:
        return signals.per_turn_labels(field, given, turns)


@dataclass(frozen=True, slots=True)
class PerTrajectory(Kind):
    """One number per trajectory: [N], NaN only where it is not valid."""

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Array:
        array = signals.per_trajectory(field, given, len(turns))
        signals.require_finite(field, array, valid, nan_is_missing=False)
        return array

    def cut(self, stored: Array, rows: Turns, longest: int) -> Array:
        return stored[rows]


@dataclass(frozen=True, slots=True)
class TrajectoryLabels(Kind):
    """One hashable label, or None, per trajectory: a tuple."""

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> tuple[Hashable, ...]:
        items = list(given)
        if len(items) != len(turns):
            raise ShapeError(f"{field} has {len(items)} entries for a group of {len(turns)} trajectories.")
        for i, item in enumerate(items):
            if not isinstance(item, Hashable):
                raise CreditError(f"{field} of trajectory {i} is {item!r}: a label is hashable, or None.")
        return tuple(items)


@dataclass(frozen=True, slots=True)
class Named(Kind):
    """Several signals of one kind by name: a mapping."""

    each: PerTurn | PerTrajectory

    def counts(self, field: str, given: Any, size: int | None) -> list[int] | None:
        for name, rows in self._named(field, given).items():
            return self.each.counts(f"{field}[{name!r}]", rows, size)
        return None

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> dict[str, Array]:
        named = self._named(field, given)
        return {name: self.each.read(f"{field}[{name!r}]", rows, turns, valid) for name, rows in named.items()}

    def cut(self, stored: Mapping[str, Array], rows: Turns, longest: int) -> dict[str, Array]:
        return {name: self.each.cut(array, rows, longest) for name, array in stored.items()}

    def _named(self, field: str, given: Any) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise CreditError(f"{field} is {type(given).__name__}: give a mapping from each component's name to it.")
        return given


@dataclass(frozen=True, slots=True)
class PerSubset(Kind):
    """For each trajectory a number for some sets of its turns: a tuple of mappings from frozenset to number."""

    def read(self, field: str, given: Any, turns: Turns, valid: Bools) -> Coalitions:
        rows = list(given)
        if len(rows) != len(turns):
            raise ShapeError(f"{field} has {len(rows)} rows for a group of {len(turns)} trajectories: give one each.")
        return tuple(
            self._row(f"{field} of trajectory {i}", row, int(count), bool(ok))
            for i, (row, count, ok) in enumerate(zip(rows, turns, valid, strict=True))
        )

    def _row(self, what: str, row: Any, count: int, valid: bool) -> dict[frozenset[int], float]:
        if not isinstance(row, Mapping):
            raise CreditError(f"{what} is {row!r}: give a mapping from the turns that were played to the return.")
        found = {}
        for played, number in row.items():
            if not isinstance(played, Iterable) or any(k not in range(count) for k in played):
                raise CreditError(f"{what} has the key {played!r}: a set of turns from 0 to {count - 1}.")
            value = signals.number(number, f"{what}, turns {sorted(played)}")
            if valid and not np.isfinite(value):
                raise CreditError(f"{what}, turns {sorted(played)} is {value}: a signal is a finite number.")
            found[frozenset(played)] = value
        return found


# In the order in which turns are counted: those that may have one entry more than turns come last.
KINDS: Mapping[str, Kind] = {
    "outcomes": PerTrajectory(),
    "turn_rewards": PerTurn(),
    "tool_turn": Flags(),
    "stop_reasons": TrajectoryLabels(),
    "state_keys": PerTurnLabels(),
    "action_keys": PerTurnLabels(),
    "branches": PerTurnLabels(),
    "policies": PerTurnLabels(),
    "potentials": PerTurn(),
    "components": Named(PerTurn()),
    "outcome_components": Named(PerTrajectory()),
    "lengths": PerTurn(low=0, required=True),
    "score_norms": PerTurn(low=0, required=True),
    "versions": PerTurn(low=0, required=True),
    "entropies": PerTurn(low=0, required=True),
    "contributions": PerTurn(required=True),
    "hindsight": PerTurn(required=True),
    "action_values": PerTurn(required=True),
    "log_ratios": PerTurnLists(),
    "token_values": PerTurnLists(),
    "parents": TrajectoryLabels(),
    "counterfactuals": PerSubset(),
    "values": PerTurn(after_last=True),
    "gold_logprobs": PerTurn(after_last=True, high=0),
    "continuations": PerTurnLists(after_last=True),
}

REMEDIES: Mapping[str, str] = {
    "outcomes": "An outcome says whether the episode as a whole was good: give the reward an `outcome` method.",
    "turn_rewards": "Give the reward a `turn` method, or choose an estimator of outcomes such as 'rloo'.",
    "state_keys": "The environment offers them by overriding `state_key`.",
    "action_keys": "Give a hash of what each turn did, equal for turns that did the same.",
    "potentials": "The environment offers them by overriding `progress`.",
    "values": "A turn-level critic predicts them: train one, or choose an estimator without a critic.",
    "action_values": "A turn-level critic with a Q head predicts them, or choose an estimator that needs only values.",
    "gold_logprobs": "Score the gold answer by teacher forcing before each turn and after the last.",
    "components": "Name the parts of the reward: its `turn` method returns a mapping from name to number.",
    "outcome_components": "Name the parts of the reward: its `outcome` method returns a mapping from name to number.",
    "lengths": "They are the tokens of each turn: let the policy record `token_ids`.",
    "score_norms": "The policy's probabilities tell them: sum 1 - 2 pi + sum pi^2 over the tokens of each turn.",
    "counterfactuals": "Replay the episode without some of its turns, and score what comes out.",
    "continuations": "Play episodes on from the state before each turn, and give their returns.",
    "contributions": "A progress estimator gives them: train one that shares the outcome out over the turns.",
    "hindsight": "Score each turn with and without the outcome in the prompt, and give the difference in nats.",
    "branches": "Give each turn the id of its place in the tree; trajectories that share a beginning share its ids.",
    "tool_turn": "Trajectories from records carry it; give one True or False per turn.",
    "stop_reasons": "Trajectories from records carry them; give one agentgym.messages.StopReason each.",
    "versions": "Trajectories carry them if the policy records its `version` with each turn.",
    "log_ratios": "TurnGRPOTrainer works them out; else score each turn's tokens under the policy being trained.",
    "entropies": "TurnGRPOTrainer works them out; else give the policy's mean entropy per token in each turn.",
}
