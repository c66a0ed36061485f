"""Turns of recorded episodes as transitions: prefix, turn, reward and continuation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agentgym import CreditError, Task, Trajectory


@dataclass(frozen=True, slots=True)
class ReturnSpec:
    """The return of an estimator: its discount per turn, and the weights of outcome and turn rewards."""

    gamma: float = 1.0
    outcome_weight: float = 1.0
    turn_weight: float = 1.0

    def rewards(self, trajectory: Trajectory) -> np.ndarray:
        """Return [T] weighted rewards of the turns; the last one includes the outcome."""
        rewards = self.turn_weight * np.nan_to_num(trajectory.turn_rewards())
        rewards[-1] += self.outcome_weight * trajectory.outcome_reward
        return rewards

    def returns_to_go(self, trajectory: Trajectory) -> np.ndarray:
        """Return [T] discounted sums of turn rewards and outcome from each turn on."""
        rewards = self.rewards(trajectory)
        returns = np.zeros(len(rewards))
        following = 0.0
        for turn in reversed(range(len(rewards))):
            following = returns[turn] = rewards[turn] + self.gamma * following
        return returns


Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TurnTransition:
    """One turn of an episode.

    Attributes:
        episode, turn: the episode's id and the turn's index.
        task: the task of the episode, for critics that may read its truth.
        ids: token ids up to the next turn. own_begin, own_end: the span of the turn's own tokens in `ids`; the tokens
            after it are the observation.
        reward: the weighted reward of the turn; the last turn's reward includes the outcome.
        done: whether no reward can follow.
        behaviour_logprob: sum of the tokens' log-probabilities under the policy that sampled the turn, in nats.
        version: the version of the weights that sampled the turn.
    """

    episode: str
    turn: int
    task: Task
    ids: Ids
    own_begin: int
    own_end: int
    reward: float
    done: bool
    behaviour_logprob: float
    version: int

    @property
    def prefix(self) -> Ids:
        """Return the token ids before the turn."""
        return self.ids[: self.own_begin]

    @property
    def own(self) -> Ids:
        """Return the token ids of the turn."""
        return self.ids[self.own_begin : self.own_end]


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """The tokens and rewards of an episode, shared by all its turns.

    Attributes:
        id, task: the episode's id and task.
        ids: all tokens. bounds: [T, 3] begin and end of each turn, and end of its observation.
        rewards, behaviour_logprobs, versions: one for each turn; see TurnTransition.
        ended: whether the episode was not truncated, so that no reward can follow its last turn.
    """

    id: str
    task: Task
    ids: Ids
    bounds: list[tuple[int, int, int]]
    rewards: NDArray[np.float64]
    behaviour_logprobs: NDArray[np.float64]
    versions: list[int]
    ended: bool

    @classmethod
    def of(cls, trajectory: Trajectory, return_spec: ReturnSpec) -> StoredEpisode:
        """Make a StoredEpisode of a valid trajectory. Raises: CreditError without token ids or log-probabilities."""
        trajectory.require_one_row("a store of transitions")
        bounds, end = [], len(trajectory.prompt_ids)
        for turn in trajectory.turns:
            begin, own_end = end, end + len(turn.token_ids)
            end = own_end + len(turn.observation_ids)
            bounds.append((begin, own_end, end))
        if not trajectory.prompt_ids or any(own_end == begin for begin, own_end, _ in bounds):
            raise CreditError(
                f"The episode {trajectory.id!r} has no token ids, because a policy without a renderer played it. Let "
                "the trained model play the episodes, or tokenise them with its renderer."
            )
        if any(len(turn.logprobs) != len(turn.token_ids) for turn in trajectory.turns):
            raise CreditError(
                f"The episode {trajectory.id!r} has no log-probabilities of its tokens, which a store of transitions "
                "needs to tell how old they are. Play it with a policy that records them."
            )
        return cls(
            trajectory.id,
            trajectory.task,
            trajectory.arrays().ids.astype(np.int32),
            bounds,
            return_spec.rewards(trajectory),
            np.array([sum(turn.logprobs) for turn in trajectory.turns], np.float64),
            [turn.policy_version for turn in trajectory.turns],
            trajectory.stop_reason is None or not trajectory.stop_reason.truncated,
        )

    def __len__(self) -> int:
        return len(self.bounds)

    def transition(self, turn: int) -> TurnTransition:
        """Return one turn as a transition."""
        begin, own_end, end = self.bounds[turn]
        return TurnTransition(
            self.id,
            turn,
            self.task,
            self.ids[:end],
            begin,
            own_end,
            float(self.rewards[turn]),
            self.ended and turn == len(self) - 1,
            float(self.behaviour_logprobs[turn]),
            self.versions[turn],
        )
