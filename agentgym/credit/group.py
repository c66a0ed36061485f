"""A group: the trajectories of one task, as the signals from which credit is computed."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from agentgym.credit import signals
from agentgym.credit.kinds import KINDS, REMEDIES, Coalitions, Kind, Labels
from agentgym.credit.signals import Array, Bools, Lists
from agentgym.errors import CreditError, MissingSignalError, ShapeError

SIGNALS = tuple(KINDS)
_written = json.JSONEncoder(sort_keys=True, default=str).encode  # json.dumps would make an encoder for every turn

Numbers = Sequence[Sequence[float | None]]


class Given(TypedDict, total=False):
    """Signals as they are given to `Group.from_arrays`, one row per trajectory; `Group` says what each is."""

    outcomes: Iterable[float | None] | None
    turn_rewards: Numbers | None
    tool_turn: Sequence[Sequence[bool]] | None
    stop_reasons: Iterable[Hashable] | None
    state_keys: Sequence[Sequence[Hashable]] | None
    action_keys: Sequence[Sequence[Hashable]] | None
    branches: Sequence[Sequence[Hashable]] | None
    parents: Iterable[Hashable] | None
    policies: Sequence[Sequence[Hashable]] | None
    potentials: Numbers | None
    values: Numbers | None
    action_values: Numbers | None
    token_values: Sequence[Sequence[Iterable[float]]] | None
    components: Mapping[str, Numbers] | None
    outcome_components: Mapping[str, Iterable[float | None]] | None
    lengths: Sequence[Sequence[int]] | None
    score_norms: Numbers | None
    versions: Sequence[Sequence[int]] | None
    entropies: Numbers | None
    log_ratios: Sequence[Sequence[Iterable[float]]] | None
    gold_logprobs: Numbers | None
    contributions: Numbers | None
    hindsight: Numbers | None
    counterfactuals: Iterable[Mapping[Iterable[int], float]] | None
    continuations: Sequence[Sequence[Iterable[float]]] | None


class TurnRecord(Protocol):
    """What a group reads of a turn; `agentgym.trajectory.Turn` has it."""

    state_key: str | None
    value: float | None
    potential: float | None
    rewards: dict[str, float]
    token_ids: list[int]
    policy_version: int
    message: Any

    @property
    def void(self) -> bool: ...


class TrajectoryRecord(Protocol):
    """What a group reads of a trajectory; `agentgym.trajectory.Trajectory` has it."""

    id: str
    task: Any
    turns: Any
    outcome: Any
    weights: Any
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
        valid: [N] bool, False where the infrastructure failed: not in the statistics, not in the loss.
        truncated: [N] bool, True where a budget ended the episode: scored as it stands.
        train_version: version of the weights that are trained on this group, where it is known.
        environment: name of what all of them were played in, for statistics over a batch of groups.
        weights: of the reward components by name; 1 for a component that is not named.

        outcomes: [N] outcome reward; NaN only for a trajectory that is not valid.
        turn_rewards: [N, T] reward of each turn; NaN where a turn has none (missing is not 0) or was not played.
        components, outcome_components: the parts of those two by name, not weighted: [N, T] and [N] each.
        tool_turn: [N, T] bool, True where the turn called a tool.
        stop_reasons: why each episode ended, as in `agentgym.messages.StopReason`.

        state_keys: hash of the state before each turn.
        action_keys: hash of what each turn did.
        branches: id of the tree node that each turn is; trajectories that share a prefix share its ids.
        parents: id of the node that the first turn of each trajectory follows, None for the start of the task.
        policies: who made each turn, where several policies play.

        values: [N, T+1] predicted return before each turn; entry K_i is the one after the last turn, NaN if unknown.
        action_values: [N, T] predicted return before each turn, given what the turn then did.
        token_values: [N, T, L] predicted return before each of the turn's own tokens.
        potentials: [N, T] progress before each turn.
        gold_logprobs: [N, T+1] mean log-prob per token of the gold answer before each turn; entry K_i is the one
            after the last, NaN where there is none. In nats, at most 0.
        contributions: [N, T] what a progress estimator says each turn added to the outcome, in its units.
        hindsight: [N, T] log of how much likelier the turn was, given how the episode ended, in nats.
        counterfactuals: for each trajectory the return of the episode with only some of its turns played, by the
            set of their numbers: frozenset({0, 2}) is without turn 1. Which sets there are is up to the estimator.
        continuations: [N, T+1, M] returns of episodes played on from the state before each turn, outcome and the
            turn rewards from there on; NaN behind the last of them.

        lengths: [N, T] trainable tokens of each turn.
        entropies: [N, T] mean entropy per token of the policy in each turn, in nats.
        score_norms: [N, T] sum over the turn's tokens of 1 - 2 pi + sum_a pi_a^2, how far each could move the policy.
        versions: [N, T] version of the weights that sampled each turn.
        log_ratios: [N, T, L] log pi_train - log pi_rollout of each of the turn's own tokens, NaN behind the last.
    """

    turns: NDArray[np.int64]
    valid: Bools
    truncated: Bools
    environment: str = ""
    weights: Mapping[str, float] | None = None
    train_version: int | None = None
    outcomes: Array | None = None
    turn_rewards: Array | None = None
    components: Mapping[str, Array] | None = None
    outcome_components: Mapping[str, Array] | None = None
    tool_turn: Bools | None = None
    stop_reasons: tuple[Hashable, ...] | None = None
    state_keys: Labels | None = None
    action_keys: Labels | None = None
    branches: Labels | None = None
    parents: tuple[Hashable, ...] | None = None
    policies: Labels | None = None
    values: Array | None = None
    action_values: Array | None = None
    token_values: Lists | None = None
    potentials: Array | None = None
    gold_logprobs: Array | None = None
    contributions: Array | None = None
    hindsight: Array | None = None
    counterfactuals: Coalitions | None = None
    continuations: Lists | None = None
    lengths: Array | None = None
    entropies: Array | None = None
    score_norms: Array | None = None
    versions: Array | None = None
    log_ratios: Lists | None = None

    @classmethod
    def from_arrays(
        cls,
        *,
        turns: Iterable[int] | None = None,
        valid: Iterable[bool] | None = None,
        truncated: Iterable[bool] | None = None,
        environment: str = "",
        weights: Mapping[str, float] | None = None,
        train_version: int | None = None,
        **given: Unpack[Given],
    ) -> Group:
        """Build a group from nested sequences or arrays, one row per trajectory.

        Args:
            turns: turns of each trajectory. Without it they are counted in the first per-turn signal
                given; with no such signal every trajectory has one turn.
            valid, truncated: all and none of them by default.
            The others: see the attributes. None and NaN both say that a number is missing. `values`,
            `gold_logprobs` and `continuations` may have one entry more than turns.
        Raises: ShapeError when axes disagree; CreditError for a value that makes no sense (each names
            field, trajectory and turn), for a signal that no group carries, for an empty group, for a valid
            trajectory without a turn, and for branches that are no tree.
        """
        named: dict[str, Any] = {field: rows for field, rows in given.items() if rows is not None}
        for field in named:
            if field not in KINDS:
                close = get_close_matches(field, KINDS, n=1)
                raise CreditError(
                    f"A group carries no signal {field!r}." + (f" Did you mean {close[0]!r}?" if close else "")
                    + f" Signals are {', '.join(KINDS)}."
                )  # fmt: skip
        if "outcomes" in named:
            named["outcomes"] = list(named["outcomes"])
        counts = _count_turns(named, turns)
        size = len(counts)
        is_valid = signals.flags("valid", valid, size, default=True)
        for i in np.flatnonzero(is_valid & (counts == 0)):
            raise CreditError(f"Trajectory {i} is valid but has no turn to credit: mark it as not valid.")
        found: dict[str, Any] = {
            field: KINDS[field].read(field, rows, counts, is_valid) for field, rows in named.items()
        }
        if "branches" in found:
            _require_tree(found["branches"], found.get("parents"), is_valid)
        return cls(
            turns=counts,
            valid=is_valid,
            truncated=signals.flags("truncated", truncated, size, default=False),
            environment=environment,
            weights=None if weights is None else dict(weights),
            train_version=train_version,
            **found,
        )

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[TrajectoryRecord]) -> Group:
        """Build a group from the trajectories of one task.

        Outcomes are carried if any valid trajectory has an outcome component; values, potentials,
        state keys and lengths if every turn of every valid trajectory has one. What a policy or a replay has to
        be asked for (log-ratios, the gold answer, counterfactuals) is not in a record: `with_signals` adds it.

        Raises: CreditError for an empty list, for trajectories of different tasks, and for a valid
            trajectory without an outcome where others have one (each names the trajectory).
        """
        if not trajectories:
            raise CreditError("A group needs at least one trajectory; none was given.")
        first = trajectories[0].task
        for trajectory in trajectories:
            if trajectory.task.id != first.id:
                raise CreditError(
                    f"Trajectory {trajectory.id!r} is of task {trajectory.task.id!r}, the group is of task "
                    f"{first.id!r}. A group compares episodes of one task: make one group per task."
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

        def carried(read: Any) -> Any:
            rows = [[read(turn) for turn in t.turns] for t in trajectories]
            known = all(x is not None for row, ok in zip(rows, valid, strict=True) if ok for x in row)
            return rows if known and any(rows) else None

        names = dict.fromkeys(name for t in trajectories for turn in t.turns for name in turn.rewards)
        # An outcome component that only some have is 0 for the others, as it is in their sum.
        judges = dict.fromkeys(name for t in trajectories for name in t.outcome)
        return cls.from_arrays(
            turns=[len(t.turns) for t in trajectories],
            valid=valid,
            truncated=[t.stop_reason is not None and bool(t.stop_reason.truncated) for t in trajectories],
            environment=first.environment,
            weights={name: weight for t in trajectories for name, weight in t.weights.items()},
            outcomes=outcomes,
            turn_rewards=[t.turn_rewards() for t in trajectories],  # type: ignore[misc]  # arrays are sequences here
            components={n: [[turn.rewards.get(n) for turn in t.turns] for t in trajectories] for n in names},
            outcome_components={n: [t.outcome.get(n, 0.0) for t in trajectories] for n in judges},
            tool_turn=[[not turn.void for turn in t.turns] for t in trajectories],
            stop_reasons=[t.stop_reason for t in trajectories],
            state_keys=carried(lambda turn: turn.state_key),
            action_keys=[[_action_key(turn) for turn in t.turns] for t in trajectories],
            values=carried(lambda turn: turn.value),
            potentials=carried(lambda turn: turn.potential),
            lengths=carried(lambda turn: len(turn.token_ids) or None),
            versions=carried(lambda turn: turn.policy_version),
        )

    def with_signals(self, **given: Unpack[Given]) -> Group:
        """The same group with signals added or replaced. Raises: as `from_arrays`."""
        added = Group.from_arrays(turns=self.turns, valid=self.valid, **given)
        fields = {name: getattr(added if getattr(added, name) is not None else self, name) for name in SIGNALS}
        if fields["branches"] is not None:
            _require_tree(fields["branches"], fields["parents"], self.valid)
        return replace(self, **fields)

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
        found: Bools = np.arange(int(self.turns.max(initial=0)))[None] == self.turns[:, None] - 1
        return found

    def signal(self, name: str) -> Any:
        """A signal that must be there. Raises: MissingSignalError naming it and what the group carries."""
        found = getattr(self, name)
        if found is None:
            carried = [field for field in SIGNALS if getattr(self, field) is not None]
            raise MissingSignalError(
                f"The group carries no {name}; it carries {', '.join(carried) or 'nothing'}. "
                + REMEDIES.get(name, "Give it to Group.from_arrays, or choose an estimator that does not need it.")
            )
        return found

    def only(self, keep: Bools) -> Group:
        """The group of the trajectories where `keep` is True, padding cut to the longest of them."""
        if keep.all():
            return self
        rows = np.flatnonzero(keep)
        longest = int(self.turns[rows].max(initial=0))
        carried = ((name, kind, getattr(self, name)) for name, kind in KINDS.items())
        cut: dict[str, Any] = {n: kind.cut(array, rows, longest) for n, kind, array in carried if array is not None}
        return replace(self, turns=self.turns[rows], valid=self.valid[rows], truncated=self.truncated[rows], **cut)


def _action_key(turn: TurnRecord) -> str:
    """Equal for turns that did the same: their calls, blind to the words around them; their words where none ran."""
    calls = [[call.name, call.arguments] for call in turn.message.calls if call.error is None]
    return _written(calls) if calls else turn.message.text


def _count_turns(named: Mapping[str, Any], turns: Iterable[int] | None) -> NDArray[np.int64]:
    """[N] turns of each trajectory, from `turns` or else from the first per-turn signal there is."""
    size = len(named["outcomes"]) if "outcomes" in named else None
    if turns is not None:
        counts = list(turns)
        for i, count in enumerate(counts):
            if isinstance(count, bool) or int(count) != count or count < 0:
                raise CreditError(f"turns of trajectory {i} is {count!r}: expected a whole number from 0 up.")
    else:
        kinds: list[tuple[str, Kind]] = [(field, kind) for field, kind in KINDS.items() if field in named]
        found = (kind.counts(field, named[field], size) for field, kind in kinds)
        counts = next((count for count in found if count is not None), [1] * (size or 0))
    if not counts:
        raise CreditError("A group needs at least one trajectory; none was given.")
    if size is not None and size != len(counts):
        raise ShapeError(f"turns has {len(counts)} entries, outcomes has {size}: give one each per trajectory.")
    return np.array(counts, np.int64)


def _require_tree(branches: Labels, parents: tuple[Hashable, ...] | None, valid: Bools) -> None:
    """Raises: CreditError naming the trajectory and turn whose node follows two different nodes."""
    before: dict[Hashable, Hashable] = {}
    for i in np.flatnonzero(valid):
        last = None if parents is None else parents[i]
        for k, node in enumerate(branches[i]):
            if before.setdefault(node, last) != last:
                raise CreditError(
                    f"branches of trajectory {i}, turn {k} is {node!r}, which follows {last!r} here and "
                    f"{before[node]!r} in an earlier trajectory: a node follows one node, or None (the start)."
                )
            last = node
