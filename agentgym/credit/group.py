"""A group: the trajectories of one task, as the signals from which credit is computed."""
# ruff: noqa: RUF009 - `_signal` returns a new dataclasses.field, which groups do not share

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.options import did_you_mean
from agentgym.credit.recorded_signals import recorded_signals
from agentgym.credit.signals import (
    Array,
    Bools,
    ByName,
    Coalitions,
    Flags,
    Labels,
    PerSubset,
    PerTrajectory,
    PerTurn,
    PerTurnLabels,
    PerTurnLists,
    Signal,
    SignalKind,
    TrajectoryLabels,
    TurnCounts,
    trajectory_flags,
)
from agentgym.errors import CreditError, MissingSignalError, ShapeError
from agentgym.trajectory.record import Trajectory

GIVE_IT = "Give it to Group.from_arrays, or choose an estimator that does not need it."
HIDDEN_STATES = "Training computes them from the hidden states of the model that is trained; a record holds none."


def _signal(kind: SignalKind, doc: str, remedy: str = GIVE_IT) -> Any:
    """Return the dataclass field of a signal. Its value is None in a group that does not carry the signal."""
    return field(default=None, metadata={"signal": Signal(kind, doc, remedy)})


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The signals of N trajectories with at most T turns. Build it with `from_arrays` or `from_trajectories`.

    A signal that was not given is None; an estimator that needs it raises MissingSignalError. Each signal is declared
    once, below; `SIGNALS` is the same table by name.

    Attributes:
        turns: [N] int64, turns of each trajectory, K_i.
        valid: [N] bool, False where the infrastructure failed: excluded from statistics and loss.
        truncated: [N] bool, True where a budget ended the episode, which is scored as it is.
        environment: name of the environment of all trajectories, for statistics over a batch of groups.
        weights: the weights of the reward components by name; 1 for a component that is not named.
        train_version: version of the weights that are trained on this group, if known.
    """

    turns: TurnCounts
    valid: Bools
    truncated: Bools
    environment: str = ""
    weights: Mapping[str, float] | None = None
    train_version: int | None = None

    outcomes: Array | None = _signal(
        PerTrajectory(),
        "[N] outcome reward; NaN only for a trajectory that is not valid",
        "An outcome says whether the episode as a whole was good: give the reward an `outcome` method.",
    )
    turn_rewards: Array | None = _signal(
        PerTurn(),
        "[N, T] reward of each turn; NaN where a turn has none (missing is not 0)",
        "Give the reward a `turn` method, or choose an estimator of outcomes such as 'rloo'.",
    )
    components: Mapping[str, Array] | None = _signal(
        ByName(PerTurn()),
        "[N, T] the unweighted parts of the turn rewards, by name",
        "Name the parts of the reward: its `turn` method returns a mapping from name to number.",
    )
    outcome_components: Mapping[str, Array] | None = _signal(
        ByName(PerTrajectory()),
        "[N] the unweighted parts of the outcomes, by name",
        "Name the parts of the reward: its `outcome` method returns a mapping from name to number.",
    )
    tool_turn: Bools | None = _signal(
        Flags(),
        "[N, T] True where the turn called a tool",
        "Trajectories from records carry it; give one True or False per turn.",
    )
    stop_reasons: tuple[Hashable, ...] | None = _signal(
        TrajectoryLabels(),
        "why each episode ended, as in `agentgym.messages.StopReason`",
        "Trajectories from records carry them; give one agentgym.messages.StopReason each.",
    )
    state_keys: Labels | None = _signal(
        PerTurnLabels(),
        "hash of the state before each turn",
        "The environment provides them by overriding `state_key`.",
    )
    action_keys: Labels | None = _signal(
        PerTurnLabels(),
        "hash of what each turn did",
        "Give a hash of what each turn did, equal for turns that did the same.",
    )
    branches: Labels | None = _signal(
        PerTurnLabels(),
        "id of the tree node of each turn; trajectories with a common prefix share its ids",
        "Give each turn the id of its node in the tree; trajectories with a common prefix share its ids.",
    )
    parents: tuple[Hashable, ...] | None = _signal(
        TrajectoryLabels(),
        "id of the node before the first turn of each trajectory; None for the start of the task",
    )
    policies: Labels | None = _signal(PerTurnLabels(), "which policy made each turn, where several policies play")
    values: Array | None = _signal(
        PerTurn(after_last=True),
        "[N, T+1] predicted return before each turn; entry K_i is after the last turn, NaN if unknown",
        "A turn-level critic predicts them: train one, or choose an estimator without a critic.",
    )
    action_values: Array | None = _signal(
        PerTurn(required=True),
        "[N, T] predicted return before each turn, given what the turn then did",
        "A turn-level critic with a Q head predicts them, or choose an estimator that needs only values.",
    )
    token_values: Array | None = _signal(
        PerTurnLists(),
        "[N, T, L] predicted return before each of the turn's own tokens",
    )
    potentials: Array | None = _signal(
        PerTurn(),
        "[N, T] the environment's potential before each turn",
        "The environment provides them by overriding `potential`.",
    )
    gold_logprobs: Array | None = _signal(
        PerTurn(after_last=True, high=0),
        "[N, T+1] mean log-prob per token of the gold answer before each turn, in nats; entry K_i is after the last "
        "turn, NaN if unknown",
        "Score the gold answer by teacher forcing before each turn and after the last.",
    )
    contributions: Array | None = _signal(
        PerTurn(required=True),
        "[N, T] what each turn added to the outcome according to a progress estimator, in reward units",
        "A progress estimator gives them: train one that divides the outcome between the turns.",
    )
    hindsight: Array | None = _signal(
        PerTurn(required=True),
        "[N, T] log of how much likelier the turn is given the end of the episode, in nats",
        "Score each turn with and without the outcome in the prompt, and give the difference in nats.",
    )
    counterfactuals: Coalitions | None = _signal(
        PerSubset(),
        "for each trajectory the return of the episode with only some of its turns, by the set of their indices: "
        "frozenset({0, 2}) leaves out turn 1. The estimator decides which sets it needs",
        "Replay the episode without some of its turns, and score the result.",
    )
    continuations: Array | None = _signal(
        PerTurnLists(after_last=True),
        "[N, T+1, M] returns of episodes continued from the state before each turn: the outcome and the turn rewards "
        "from there on; NaN after the last of them",
        "Continue episodes from the state before each turn, and give their returns.",
    )
    lengths: Array | None = _signal(
        PerTurn(low=0, required=True),
        "[N, T] trainable tokens of each turn",
        "They are the tokens of each turn: let the policy record `token_ids`.",
    )
    entropies: Array | None = _signal(
        PerTurn(low=0, required=True),
        "[N, T] mean entropy per token of the policy in each turn, in nats",
        "TurnGRPOTrainer computes them; otherwise give the policy's mean entropy per token in each turn.",
    )
    token_entropies: Array | None = _signal(
        PerTurnLists(),
        "[N, T, L] entropy of the policy at each of the turn's own tokens in nats, NaN after the last",
        "TurnGRPOTrainer computes them; otherwise give the policy's entropy at each token of each turn.",
    )
    token_certainties: Array | None = _signal(
        PerTurnLists(),
        "[N, T, L] KL(U || pi) in nats, from a uniform distribution over all tokens to the policy's at each of the "
        "turn's own tokens, NaN after the last",
        "TurnGRPOTrainer computes them; otherwise give log sum exp of the policy's logits, less their mean and the log "
        "of their number, at each token of each turn.",
    )
    span_values: Array | None = _signal(
        PerTurnLists(),
        "[N, T, L] value of the span that holds each of the turn's own tokens; NaN outside of spans",
        "TurnGRPOTrainer computes them of the spans that the reward names: give the reward a `spans` method.",
    )
    flow_deviations: Array | None = _signal(
        PerTurnLists(),
        "[N, T, L] how far the hidden state of each of the turn's own tokens lies from the flow of successful "
        "episodes, NaN after the last and where no flow was learnt yet",
        HIDDEN_STATES,
    )
    rank_deviations: Array | None = _signal(
        PerTrajectory(),
        "[N] how far the effective rank of the episode's hidden states lies above its running mean, relative to it",
        HIDDEN_STATES,
    )
    rank_velocity_deviations: Array | None = _signal(
        PerTrajectory(), "[N] the same of the rank's mean change from turn to turn", HIDDEN_STATES
    )
    rank_acceleration_deviations: Array | None = _signal(
        PerTrajectory(), "[N] the same of the mean change of these changes", HIDDEN_STATES
    )
    rank_scales: Array | None = _signal(
        PerTrajectory(), "[N] 1 less the running mean of success in training", HIDDEN_STATES
    )
    score_norms: Array | None = _signal(
        PerTurn(low=0, required=True),
        "[N, T] sum over the turn's tokens of 1 - 2 pi + sum_a pi_a^2: how far each token could move the policy",
        "Compute them from the policy's probabilities: sum 1 - 2 pi + sum pi^2 over the tokens of each turn.",
    )
    versions: Array | None = _signal(
        PerTurn(low=0, required=True),
        "[N, T] version of the weights that sampled each turn",
        "Trajectories carry them if the policy records its `version` with each turn.",
    )
    log_ratios: Array | None = _signal(
        PerTurnLists(),
        "[N, T, L] log pi_train - log pi_rollout of each of the turn's own tokens, NaN after the last",
        "TurnGRPOTrainer computes them; otherwise score each turn's tokens under the policy being trained.",
    )

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
        **signals: Any,
    ) -> Group:
        """Build a group from nested sequences or arrays, one row per trajectory.

        Args:
            turns: turns of each trajectory. By default they are counted in the first per-turn signal that is given;
                without such a signal every trajectory has one turn.
            valid, truncated: by default every trajectory is valid and none is truncated.
            environment, weights, train_version: see `Group`.
            signals: by name, see the fields of `Group`. None and NaN both mean that a number is missing. Signals of
                shape [N, T+1] may have one entry more than turns.
        Raises: ShapeError if axes disagree; CreditError for an invalid value (each names signal, trajectory and turn),
            for an unknown signal, for an empty group, for a valid trajectory without a turn, and for branches that
            form no tree.
        """
        given = {name: value for name, value in signals.items() if value is not None}
        _require_known(given)
        if "outcomes" in given:
            given["outcomes"] = list(given["outcomes"])
        counts = _count_turns(given, turns)
        size = len(counts)
        is_valid = trajectory_flags("valid", valid, size, default=True)
        for i in np.flatnonzero(is_valid & (counts == 0)):
            raise CreditError(f"Trajectory {i} is marked valid but has no turns to credit. Mark it as not valid.")
        stored = {name: SIGNALS[name].kind.read(name, value, counts, is_valid) for name, value in given.items()}
        if "branches" in stored:
            _require_tree(stored["branches"], stored.get("parents"), is_valid)
        return cls(
            turns=counts,
            valid=is_valid,
            truncated=trajectory_flags("truncated", truncated, size, default=False),
            environment=environment,
            weights=None if weights is None else dict(weights),
            train_version=train_version,
            **stored,
        )

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[Trajectory]) -> Group:
        """Build a group from the trajectories of one task.

        Outcomes are set if any valid trajectory has an outcome component; values, potentials, state keys and lengths
        if every turn of every valid trajectory has one. Signals that a policy or a replay has to compute (log-ratios,
        gold answers, counterfactuals) are not in a record: add them with `with_signals`.

        Raises: CreditError for an empty list, for trajectories of different tasks, and for a valid trajectory
            without an outcome where others have one (each names the trajectory).
        """
        return cls.from_arrays(**recorded_signals(trajectories))

    def with_signals(self, **signals: Any) -> Group:
        """Return the same group with more signals, given as to `from_arrays`; a signal it already carries is replaced.

        Raises: as `from_arrays`.
        """
        added = Group.from_arrays(turns=self.turns, valid=self.valid, **signals)
        combined = replace(self, **{name: getattr(added, name) for name, value in signals.items() if value is not None})
        if combined.branches is not None:
            _require_tree(combined.branches, combined.parents, self.valid)
        return combined

    @property
    def size(self) -> int:
        """N, failed trajectories included."""
        return len(self.turns)

    @property
    def turn_mask(self) -> Bools:
        """[N, T] True where the trajectory has a turn, False where padding."""
        return np.arange(int(self.turns.max(initial=0)))[None] < self.turns[:, None]

    @property
    def last_turn(self) -> Bools:
        """[N, T] True on the last turn of each trajectory."""
        is_last: Bools = np.arange(int(self.turns.max(initial=0)))[None] == self.turns[:, None] - 1
        return is_last

    def signal(self, name: str) -> Any:
        """Return the signal of that name.

        Raises: MissingSignalError, which also lists the signals that the group carries.
        """
        value = getattr(self, name)
        if value is None:
            carried = [signal for signal in SIGNALS if getattr(self, signal) is not None]
            raise MissingSignalError(
                f"The group has no signal {name}. It has: {', '.join(carried) or 'none'}. {SIGNALS[name].remedy}"
            )
        return value

    def select(self, mask: Bools) -> Group:
        """Return the group of the trajectories where `mask` is True, padded to the longest of them."""
        if mask.all():
            return self
        rows = np.flatnonzero(mask)
        max_turns = int(self.turns[rows].max(initial=0))
        selected: dict[str, Any] = {
            name: signal.kind.select(getattr(self, name), rows, max_turns)
            for name, signal in SIGNALS.items()
            if getattr(self, name) is not None
        }
        return replace(self, turns=self.turns[rows], valid=self.valid[rows], truncated=self.truncated[rows], **selected)


SIGNALS: Mapping[str, Signal] = {
    item.name: item.metadata["signal"] for item in fields(Group) if "signal" in item.metadata
}
"""Every signal that a group can carry, by name."""


def _require_known(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in SIGNALS:
            raise CreditError(
                f"There is no signal {name!r}.{did_you_mean(name, SIGNALS)} Signals are: {', '.join(SIGNALS)}."
            )


def _count_turns(given: Mapping[str, Any], turns: Iterable[int] | None) -> NDArray[np.int64]:
    """Return [N] the turns of each trajectory, from `turns` or else from the first per-turn signal that is given."""
    size = len(given["outcomes"]) if "outcomes" in given else None
    if turns is not None:
        counts = list(turns)
        for i, count in enumerate(counts):
            if isinstance(count, bool) or int(count) != count or count < 0:
                raise CreditError(
                    f"The number of turns of trajectory {i} is {count!r}. Give a whole number of at least 0."
                )
    else:
        kinds = {name: signal.kind for name, signal in SIGNALS.items() if name in given}
        # Signals that may have one entry more than turns are counted last.
        names = sorted(kinds, key=lambda name: getattr(kinds[name], "after_last", False))
        candidates = (kinds[name].count_turns(name, given[name], size) for name in names)
        counts = next((count for count in candidates if count is not None), [1] * (size or 0))
    if not counts:
        raise CreditError("The group is empty. Give it at least one trajectory.")
    if size is not None and size != len(counts):
        raise ShapeError(
            f"turns has {len(counts)} entries, but outcomes has {size}. Give one entry per trajectory in both."
        )
    return np.array(counts, np.int64)


def _require_tree(branches: Labels, parents: tuple[Hashable, ...] | None, valid: Bools) -> None:
    """Raise CreditError naming the trajectory and turn whose node follows two different nodes."""
    parent_of: dict[Hashable, Hashable] = {}
    for i in np.flatnonzero(valid):
        previous = None if parents is None else parents[i]
        for k, node in enumerate(branches[i]):
            if parent_of.setdefault(node, previous) != previous:
                raise CreditError(
                    f"branches of trajectory {i}, turn {k} is {node!r}, which comes after {previous!r} here, but "
                    f"after {parent_of[node]!r} in an earlier trajectory. A node must always come after the same "
                    "node, or after None (the start)."
                )
            previous = node
