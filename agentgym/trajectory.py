"""The record of an episode: token-exact, turn by turn, with rewards and provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentgym.messages import Call, Message, Result, StopReason
from agentgym.sandbox import combine_usage
from agentgym.task import Task


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
        replies: messages that the environment added after the results.
        token_ids, logprobs: exactly as sampled, end-of-turn token included; empty without a renderer.
        policy: the name of who wrote it, where that is not the policy of the trajectory but its guide; else empty.
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
        prompt_length: how many leading tokens are the prompt.
    """

    ids: NDArray[np.int64]
    loss_mask: NDArray[np.bool_]
    logprobs: NDArray[np.float64]
    turn_index: NDArray[np.int64]
    versions: NDArray[np.int64]
    prompt_length: int


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Where a branch left another trajectory: its id, and the first turn that the branch does not repeat."""

    trajectory: str
    turn: int


@dataclass(frozen=True, slots=True)
class EndState:
    """What is known of the state after the last turn; None for what is not. As in `Turn`.

    Attributes:
        state_key, potential: the environment's. value: of the node of a search that the episode is.
    """

    state_key: str | None = None
    potential: float | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class ReplayedTurns:
    """Which turns of another trajectory, by its id, were replayed alone."""

    trajectory: str
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assistance:
    """What helped an agent in a training episode. No evaluation accepts an episode with any.

    Attributes:
        kind: "hint", "rubric" or "critique", of what stood in the prompt; "guide" where another policy began.
        text: added to the opening messages.
        share: of all the help of this kind that there was, 0 to 1.
    """

    kind: str
    text: str = ""
    share: float = 1.0


@dataclass(slots=True)
class Provenance:
    """What made an episode, and what befell it on the way. What is not known is None or empty.

    Attributes:
        agentgym: version that played it.
        seed, temperature, top_p, max_turn_tokens: of the rollout config.
        assistance: what helped the agent; None for nearly every episode.
        instruction: what preceded the task, where the rollout config has one.
        attempts: how often it might try its task, by the names of agentgym.Attempts; empty for once.
        policy: its name. `environment`: its class with its module.
        image_digests: of the images that its sandboxes ran on.
        reset_usage: what the reset took, by name as in `Turn.usage`.
        retries: each failure of the infrastructure that was tried again, and what was being done.
        close_error: what went wrong in closing the environment.
        hopeless: why a stop rule ended it.
        branch: where it left the trajectory that it continues. `replay`: what it replays.
        extra: anything else, as JSON data; agentgym writes nothing here.
    """

    agentgym: str | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_turn_tokens: int | None = None
    attempts: Mapping[str, Any] = field(default_factory=dict)
    policy: str | None = None
    environment: str | None = None
    image_digests: list[str] = field(default_factory=list)
    reset_usage: dict[str, float] = field(default_factory=dict)
    retries: list[str] = field(default_factory=list)
    close_error: str | None = None
    hopeless: str | None = None
    branch: ForkPoint | None = None
    replay: ReplayedTurns | None = None
    assistance: Assistance | None = None
    instruction: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Trajectory:
    """The record of one episode.

    Attributes:
        id: unique in a run. `task`: with its truth, for judges. `sample`: which of the group, 0..G-1.
        seed: that the environment was reset with.
        opening: messages of the reset. `prompt_ids`: their tokens.
        tools: schemas of the tools that the agent begins with, where the environment's instance has others than its
            class; empty otherwise.
        turns: see Turn.
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
    tools: Sequence[dict[str, Any]] = ()
    end_state: EndState | None = None

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

    def messages(self) -> list[Message]:
        """The whole conversation."""
        messages = list(self.opening)
        for turn in self.turns:
            messages.append(turn.message)
            messages.extend(result.message() for result in turn.results)
            messages.extend(turn.replies)
        return messages

    def turn_spans(self) -> list[tuple[int, int]]:
        """Start and end of each turn's own tokens, counted from the end of the prompt."""
        spans, start = [], 0
        for turn in self.turns:
            spans.append((start, start + len(turn.token_ids)))
            start += len(turn.token_ids) + len(turn.observation_ids)
        return spans

    def arrays(self) -> TokenArrays:
        """Every token in exactly one span: prompt, turn k, or observation k."""
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
