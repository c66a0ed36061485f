"""The record of an episode: its turns in their contexts, and all its tokens as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import CreditError
from agentgym.messages import Message, StopReason
from agentgym.sandbox.metering import combine_usage
from agentgym.task.definition import Task
from agentgym.trajectory.provenance import Provenance
from agentgym.trajectory.turn import Turn


@dataclass(frozen=True, slots=True)
class TokenArrays:
    """A trajectory as arrays of length L, one entry per token.

    Attributes:
        ids: int64.
        loss_mask: bool, True on the agent's own tokens.
        logprobs: float64, natural log as sampled; 0 where loss_mask is False.
        turn_index: int64; -1 on the prompt, k on turn k and on the observation that follows turn k.
        versions: int64, version of the weights that sampled the token; -1 where loss_mask is False.
        prompt_length: length in tokens of the first row's prompt, with which the arrays begin.
        row_starts: start of each row, which is a prompt and its turns. Tokens of one row are not context of another.
    """

    ids: NDArray[np.int64]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float64]
    turn_index: NDArray[np.int64]
    versions: NDArray[np.int64]
    prompt_length: int
    row_starts: tuple[int, ...] = (0,)


@dataclass(slots=True)
class Row:
    """A further context of an episode, after the first: a conversation with its own prompt.

    A sub-agent, another role, or a program that shortens its history begins a row.

    Attributes:
        opening, prompt_ids, tools: as in Trajectory, where they describe the first row.
        parent: index of the turn that began the row; None if the row began before any turn.
    """

    opening: Sequence[Message] = ()
    prompt_ids: list[int] = field(default_factory=list)
    tools: Sequence[dict[str, Any]] = ()
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class EndState:
    """The state after the last turn, with fields as in `Turn`; None for unknown values.

    Attributes:
        state_key, potential: what the environment gives.
        value: the value of the search node that the episode represents.
    """

    state_key: str | None = None
    potential: float | None = None
    value: float | None = None


_NEVER_TRAINED = (None, *(reason for reason in StopReason if reason.failed))


@dataclass(slots=True)
class Trajectory:
    """The record of one episode."""

    id: str
    """The id of the episode, unique in a run."""
    task: Task
    """The task, with its truth, for judges."""
    sample: int = 0
    """The number of the episode in its group, from 0."""
    seed: int = 0
    """The seed of the environment's reset."""
    opening: Sequence[Message] = ()
    """The messages of the reset."""
    prompt_ids: list[int] = field(default_factory=list)
    """The tokens of the opening."""
    turns: list[Turn] = field(default_factory=list)
    """The turns of all rows, in starting order; see Turn."""
    outcome: dict[str, float] = field(default_factory=dict)
    """The components of the outcome by name."""
    stop_reason: StopReason | None = None
    """Why the episode ended; None while it is running."""
    error: str | None = None
    """What failed, for a failed episode."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weights of the reward components, from which `turn_rewards` and `outcome_reward` are computed."""
    provenance: Provenance = field(default_factory=Provenance)
    """How the episode was produced; see Provenance."""
    duration_s: float = 0.0
    """The wall time of the episode in seconds."""
    tools: Sequence[dict[str, Any]] | None = None
    """The schemas of the agent's initial tools, if they differ from the environment class's tools; else None."""
    end_state: EndState | None = None
    """The environment's state after the last turn, if requested, for example by a search; else None."""
    further_rows: list[Row] = field(default_factory=list)
    """The contexts after the first, which `opening`, `prompt_ids` and `tools` describe. Most episodes have none."""

    @property
    def valid(self) -> bool:
        """Whether the episode may enter turn statistics and the loss: it has ended, has not failed, and has a turn."""
        return bool(self.turns) and self.stop_reason not in _NEVER_TRAINED

    @property
    def scored(self) -> bool:
        """Whether the episode may enter success rates: it is valid, or its prompt left no room for a turn (score 0)."""
        return self.valid or self.stop_reason is StopReason.CONTEXT_FULL

    @property
    def success(self) -> float | None:
        """The `success` component; None if it was not judged."""
        return self.outcome.get("success")

    @property
    def success_or_reward(self) -> float:
        """The success; the outcome's reward if it has no success component."""
        return self.outcome_reward if self.success is None else self.success

    @property
    def outcome_reward(self) -> float:
        """Weighted sum of the outcome components."""
        weight = self.weights.get
        return sum([weight(name, 1.0) * value for name, value in self.outcome.items()])

    @property
    def help_removed(self) -> bool:
        """Whether the agent read help that is no longer in the opening."""
        helped = self.provenance.assistance
        text = "" if helped is None else helped.text
        return bool(text) and not any(text in message.text for message in self.opening)

    @property
    def first_attempt_turns(self) -> int:
        """The number of turns of the first attempt; all turns if there was only one attempt."""
        several = bool(self.provenance.attempts)
        ends = (turn.index + 1 for turn in self.turns if several and "attempt_1" in turn.rewards)
        return next(ends, len(self.turns))

    def turn_rewards(self) -> NDArray[np.float64]:
        """Return [T] the weighted sum of each turn's components; NaN for a turn without components."""
        weight = self.weights.get
        return np.array(
            [sum([weight(n, 1.0) * v for n, v in t.rewards.items()]) if t.rewards else np.nan for t in self.turns],
            dtype=np.float64,
        )

    def return_from(self, turn: int = 0) -> float:
        """Return the outcome reward plus the undiscounted turn rewards from a turn on; a missing reward counts 0."""
        return self.outcome_reward + float(np.nansum(self.turn_rewards()[turn:]))

    def usage(self) -> dict[str, float]:
        """Return the total usage of the reset and all turns, by name as in `Turn.usage`; for peaks, the maximum."""
        return combine_usage([self.provenance.reset_usage, *(turn.usage for turn in self.turns)])

    def rows(self) -> list[Trajectory]:
        """Return each row as its own trajectory, with the row's turns; for a single row, the trajectory itself.

        Turns are shared, and keep their `index`. Code that reads token ids in context reads rows; code that counts,
        judges or compares episodes reads whole trajectories.
        """
        if not self.further_rows:
            return [self]
        by_row: list[list[Turn]] = [[] for _ in range(1 + len(self.further_rows))]
        for turn in self.turns:
            by_row[turn.row].append(turn)
        first = replace(self, turns=by_row[0], further_rows=[])
        return [first] + [
            replace(first, opening=row.opening, prompt_ids=row.prompt_ids, tools=row.tools, turns=turns)
            for row, turns in zip(self.further_rows, by_row[1:], strict=True)
        ]

    def messages(self) -> list[Message]:
        """Return the whole conversation, row after row."""
        messages: list[Message] = []
        for row in self.rows():
            messages.extend(row.opening)
            for turn in row.turns:
                messages += [turn.message, *turn.observation()]
        return messages

    def require_one_row(self, reader: str) -> None:
        """Raise CreditError if the trajectory has several rows, which `reader` does not distinguish."""
        if self.further_rows:
            raise CreditError(
                f"{self.id!r} has {1 + len(self.further_rows)} rows (contexts), but {reader} can read only one. Leave "
                f"{reader} out, or play these tasks without sub-agents, other roles and rewritten histories."
            )

    def turn_spans(self) -> list[tuple[int, int]]:
        """Return start and end of each turn's own tokens in `arrays()`, counted from the end of the first prompt."""
        by_row: list[list[tuple[int, int]]] = []
        start = -len(self.prompt_ids)
        for row in self.rows():
            start += len(row.prompt_ids)
            by_row.append([])
            for turn in row.turns:
                by_row[-1].append((start, start + len(turn.token_ids)))
                start += len(turn.token_ids) + len(turn.observation_ids)
        if not self.further_rows:
            return by_row[0]
        spans = [iter(spans) for spans in by_row]
        return [next(spans[turn.row]) for turn in self.turns]

    def arrays(self) -> TokenArrays:
        """Return all tokens as arrays, row after row. Each token belongs to exactly one prompt, turn or observation."""
        if self.further_rows:
            return _concatenated([row.arrays() for row in self.rows()])
        ids: list[int] = list(self.prompt_ids)
        mask = [False] * len(ids)
        logprobs = [0.0] * len(ids)
        index, versions = [-1] * len(ids), [-1] * len(ids)
        for turn in self.turns:
            sampled, observed = len(turn.token_ids), len(turn.observation_ids)
            ids += turn.token_ids
            ids += turn.observation_ids
            mask += [True] * sampled + [False] * observed
            logprobs += (turn.logprobs or [0.0] * sampled) + [0.0] * observed
            index += [turn.index] * (sampled + observed)
            versions += turn.token_versions().tolist() if turn.version_changes else [turn.policy_version] * sampled
            versions += [-1] * observed
        return TokenArrays(
            np.array(ids, np.int64),
            np.array(mask, np.bool_),
            np.array(logprobs, np.float64),
            np.array(index, np.int64),
            np.array(versions, np.int64),
            len(self.prompt_ids),
        )


def _concatenated(rows: Sequence[TokenArrays]) -> TokenArrays:
    def column(name: str) -> Any:
        return np.concatenate([getattr(row, name) for row in rows])

    starts = np.cumsum([0, *(len(row.ids) for row in rows[:-1])])
    return TokenArrays(
        column("ids"),
        column("loss_mask"),
        column("logprobs"),
        column("turn_index"),
        column("versions"),
        rows[0].prompt_length,
        tuple(starts.tolist()),
    )
