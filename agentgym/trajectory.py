"""The record of an episode: token-exact, turn by turn, with rewards and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.errors import CreditError
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.provenance import Assistance, ForkPoint, Provenance, ReplayedTurns
from agentgym.sandbox import combine_usage
from agentgym.task import Task

__all__ = [
    "Assistance",
    "EndState",
    "ForkPoint",
    "Provenance",
    "ReplayedTurns",
    "Row",
    "Span",
    "TokenArrays",
    "TokenMask",
    "Trajectory",
    "Turn",
]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters that a turn wrote, with what a judge says of them.

    Attributes:
        start, end: the first character, and the one after the last, in the argument of a call or in the message's text.
        value: finite; its meaning is the judge's, for example 1 for a line that failed.
        call: which of the message's calls it lies in; None for the text of the message.
        argument: name of that call's text argument.
    """

    start: int
    end: int
    value: float = 1.0
    call: int | None = None
    argument: str = ""

    def text(self, message: Message) -> str:
        """The whole text that `start` and `end` count in. Raises: ValueError if the message has none there."""
        if self.call is None:
            return message.text
        calls = message.calls
        value = calls[self.call].arguments.get(self.argument) if 0 <= self.call < len(calls) else None
        if not isinstance(value, str):
            raise ValueError(f"the message has no text in the argument {self.argument!r} of call {self.call}")
        return value


@dataclass(frozen=True, slots=True)
class TokenMask:
    """Which tokens could be sampled at a place: those of `ids` alone if `allowed`, else all but those of `ids`."""

    ids: tuple[int, ...]
    allowed: bool


@dataclass(slots=True)
class Turn:
    """One agent message and the results it caused: the unit of credit.

    Attributes:
        index: 0 for the first turn.
        message: what the agent wrote. `calls`: those in it. `results`: what came back, in the order of the calls.
        replies: messages that the environment added after the results. Of a program that plays, what it said; also a
            result in other words than those of the environment, as a tool's message.
        token_ids, logprobs: exactly as sampled, end-of-turn token included; empty without a renderer.
        policy: the name of who wrote it, where that is not the policy of the trajectory but its guide, or the frozen
            policy of a role; else empty.
        role: that the agent has in it, where an episode has several; else empty.
        row: number of the row that it lies in, see Row.
        masks: where a logit hook restricted what could be sampled: first token, the one after the last, and the mask.
            `logprobs` are those of the masked distribution.
        observation_ids: tokens spliced in after the turn (results and the next generation prompt);
            empty after the last turn, so that a trajectory ends on the agent's own token.
        policy_version: of the weights that sampled its first token, the oldest of the turn.
        version_changes: (token, version) where the weights changed within the turn: from that token on, weights of
            this version sampled. Empty for nearly every turn.
        rewards: turn-level components by name; absent is absent, not 0.
        spans: parts of the message that the reward named.
        state_key: hash of the canonical state *before* the turn, None where the environment has none.
        value: the critic's, before the turn, where known. `potential`: the environment's, likewise.
        finish_reason: `length` when a budget cut the message.
        generate_s: wall time of the message. `tools_s`: of the tools.
        usage: what the turn took, by name; what is absent is 0 or was not counted. Of the sandboxes: `cpu_s`, `wall_s`,
            `written_bytes`, `started` in the turn, `peak_memory_mib` so far, `processes` and `disk_bytes` after it (see
            agentgym.sandbox.Usage). Of an API: `prompt_tokens`, `completion_tokens`. Of the tools: their `cost`.
    """

    index: int
    message: Message
    calls: Sequence[Call] = ()
    results: Sequence[Result] = ()
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    observation_ids: list[int] = field(default_factory=list)
    replies: Sequence[Message] = ()
    policy_version: int = 0
    rewards: dict[str, float] = field(default_factory=dict)
    state_key: str | None = None
    value: float | None = None
    potential: float | None = None
    finish_reason: str = "stop"
    generate_s: float = 0.0
    tools_s: float = 0.0
    usage: dict[str, float] = field(default_factory=dict)
    spans: Sequence[Span] = ()
    masks: Sequence[tuple[int, int, TokenMask]] = ()
    version_changes: Sequence[tuple[int, int]] = ()
    policy: str = ""
    role: str = ""
    row: int = 0

    @property
    def last_version(self) -> int:
        """Version of the weights that sampled the turn's last token."""
        return self.version_changes[-1][1] if self.version_changes else self.policy_version

    def token_versions(self) -> NDArray[np.int64]:
        """[L] for each of the turn's own tokens the version of the weights that sampled it."""
        versions = np.full(len(self.token_ids), self.policy_version, np.int64)
        for token, version in self.version_changes:
            versions[token:] = version
        return versions

    def observation(self) -> list[Message]:
        """What the policy read after its message: results and replies.

        A program that plays may send a result in words of its own, which are a reply then, and may make calls that the
        message does not hold, whose results the policy does not read.
        """
        reworded = {reply.call_id for reply in self.replies if reply.role == "tool"}
        own_calls = self.calls[len(self.message.calls) :]
        unread = reworded | {call.id for call in own_calls}
        return [*(result.message() for result in self.results if result.call_id not in unread), *self.replies]

    @property
    def void(self) -> bool:
        """The turn held calls or text, but none that could be run."""
        return not any(call.error is None for call in self.calls)


@dataclass(frozen=True, slots=True)
class TokenArrays:
    """A trajectory as arrays of length L, one entry a token.

    Attributes:
        ids: int64.
        loss_mask: bool, True on the agent's own tokens.
        logprobs: float64, natural log as sampled; 0 where loss_mask is False.
        turn_index: int64; -1 on the prompt, k on turn k and on the observation that follows it.
        versions: int64, of the weights that sampled the token; -1 where loss_mask is False.
        prompt_length: how many leading tokens are the prompt of the first row.
        row_starts: where each row begins: its prompt, then its turns. No token of a row is read in another.
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
    """A context of an episode after its first: a conversation that begins with a prompt of its own.

    A sub-agent, another role, and a program that shortens its history begin one.

    Attributes:
        opening, prompt_ids, tools: as those of a trajectory, which are of its first row.
        parent: index of the turn that it came out of; None where none had been taken.
    """

    opening: Sequence[Message] = ()
    prompt_ids: list[int] = field(default_factory=list)
    tools: Sequence[dict[str, Any]] = ()
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class EndState:
    """What is known of the state after the last turn; None for what is not. As in `Turn`.

    Attributes:
        state_key, potential: the environment's. value: of the node of a search that the episode is.
    """

    state_key: str | None = None
    potential: float | None = None
    value: float | None = None


@dataclass(slots=True)
class Trajectory:
    """The record of one episode.

    Attributes:
        id: unique in a run. `task`: with its truth, for judges. `sample`: which of the group, 0..G-1.
        seed: that the environment was reset with.
        opening: messages of the reset. `prompt_ids`: their tokens.
        tools: schemas of the tools that the agent begins with, where it has others than the environment's class; None
            otherwise.
        turns: of all rows, in the order in which they began; see Turn.
        further_rows: the contexts after the first, which is `opening`, `prompt_ids` and `tools`; most have none.
        outcome: outcome components by name.
        stop_reason: None while running. `error`: what failed, for a failed episode.
        weights: of the reward components, so that `turn_rewards` and `outcome_reward` can be computed.
        provenance: see Provenance.
        duration_s: wall time of the episode.
        end_state: after the last turn, where it was asked for, as a search does; None otherwise.
    """

    id: str
    task: Task
    sample: int = 0
    seed: int = 0
    opening: Sequence[Message] = ()
    prompt_ids: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    outcome: dict[str, float] = field(default_factory=dict)
    stop_reason: StopReason | None = None
    error: str | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    duration_s: float = 0.0
    tools: Sequence[dict[str, Any]] | None = None
    end_state: EndState | None = None
    further_rows: list[Row] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        """May enter statistics and the loss: it ended, the infrastructure held, and it has a turn."""
        return self.stop_reason is not None and not self.stop_reason.failed and bool(self.turns)

    @property
    def success(self) -> float | None:
        """The `success` component, None where it was not judged."""
        return self.outcome.get("success")

    @property
    def outcome_reward(self) -> float:
        """Weighted sum of the outcome components."""
        return sum(self.weights.get(name, 1.0) * value for name, value in self.outcome.items())

    @property
    def help_removed(self) -> bool:
        """Whether the agent read help that the opening, as it stands here, does not show."""
        helped = self.provenance.assistance
        text = "" if helped is None else helped.text
        return bool(text) and not any(text in message.text for message in self.opening)

    def turn_rewards(self) -> NDArray[np.float64]:
        """[T] weighted sum of each turn's components; NaN where a turn has none."""
        weight = self.weights.get
        return np.array(
            [sum(weight(n, 1.0) * v for n, v in t.rewards.items()) if t.rewards else np.nan for t in self.turns],
            dtype=np.float64,
        )

    def return_from(self, turn: int = 0) -> float:
        """Outcome and turn rewards from a turn on, not discounted; a turn without a reward counts 0."""
        return self.outcome_reward + float(np.nansum(self.turn_rewards()[turn:]))

    def usage(self) -> dict[str, float]:
        """What the reset and all turns took together, by name as in `Turn.usage`; of peaks the highest."""
        return combine_usage([self.provenance.reset_usage, *(turn.usage for turn in self.turns)])

    def rows(self) -> list[Trajectory]:
        """Each row as a trajectory of its own, with the turns that lie in it; where there is one, the trajectory.

        Turns are shared, and keep their `index`. What reads token ids in their context reads rows; what counts, judges
        or compares episodes does not.
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
        """The whole conversation; of several rows one after the other."""
        messages: list[Message] = []
        for row in self.rows():
            messages.extend(row.opening)
            for turn in row.turns:
                messages += [turn.message, *turn.observation()]
        return messages

    def require_one_row(self, reader: str) -> None:
        """Raises: CreditError if the trajectory has several rows, which `reader` does not tell apart."""
        if self.further_rows:
            raise CreditError(
                f"{self.id!r} has {1 + len(self.further_rows)} rows, and {reader} reads a trajectory as one context. "
                "Leave it out, or play these tasks without sub-agents, other roles and rewritten histories."
            )

    def turn_spans(self) -> list[tuple[int, int]]:
        """Start and end of each turn's own tokens in `arrays()`, counted from the end of the first prompt."""
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
        """Every token in exactly one span: prompt, turn k, or observation k. The rows follow one another."""
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
