"""Several attempts at a task in one episode: the reward judges each, and each begins in a fresh environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from agentgym.errors import RewardError
from agentgym.messages import StopReason
from agentgym.options import validated_dataclass
from agentgym.reward import SUCCESS, Components, Reward, validate_feedback
from agentgym.rollout.judging import Judge, merge_components
from agentgym.trajectory import Trajectory, Turn

ATTEMPT_RATES = ("first", "last", "fixed", "broke")
"""Outcome components of an episode of several attempts that are shares of 1."""
ENDED_EARLY = "This attempt was ended early."
"""What the agent reads where a stop rule ended an attempt; why, only the record says of the last one."""
Weight = Annotated[float, Field(allow_inf_nan=False)]


@validated_dataclass(kw_only=True)
class Attempts:
    """How often an episode tries its task.

    An attempt ends when the agent answers, the environment ends, or a stop rule calls it hopeless. The reward judges
    its turns as it would judge an episode; the environment's tools have no part in that, as they do not know the truth.
    The conversation then goes on with the feedback, in a fresh environment that was reset with the same seed. Budgets
    bound the whole episode, and judging an attempt counts in its `time_s`. The outcome is that of the last attempt,
    with these components beside it:
    `first` and `last`, success of the first and the last attempt; `fixed` = last (1 - first); `broke` =
    first (1 - last); `improvement` = last - first. An episode that a budget ends in its first attempt has that one.

    Source: of `improvement`, with a weight alpha above 1, the reward shaping of SCoRe, Kumar et al. 2024,
        arXiv:2409.12917; from its abstract and not checked against code.
    """

    n: Annotated[int, Field(ge=2, strict=True)] = 2
    """How many attempts an episode has at most."""
    feedback: Literal["verdict", "text", "none"] = "verdict"
    """What the agent reads after an attempt that was not the last: "verdict", whether it was right; "text", what
    `Reward.feedback` says; "none", only that there is another attempt."""
    until_solved: bool = False
    """End the episode with the first attempt that is right. The component `broke` is 0 then."""
    improvement: Weight = 0.0
    """The weight of `improvement`, success of the last attempt minus that of the first, in the return."""
    earlier: Weight = 0.0
    """The weight of the success of each attempt before the last, as the component `attempt_k` of its last turn."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Of the components that attempts add."""
        earlier = {f"attempt_{number}": self.earlier for number in range(1, self.n)}
        return {**dict.fromkeys(ATTEMPT_RATES, 0.0), "improvement": self.improvement, **earlier}


def ends_attempt(attempts: Attempts | None, turn: Turn) -> bool:
    """Whether an attempt that was not the last ended with this turn, as its record says."""
    return attempts is not None and any(f"attempt_{number}" in turn.rewards for number in range(1, attempts.n))


def first_attempt_turns(trajectory: Trajectory) -> int:
    """How many turns the first attempt of an episode had; all of them where it was the only one."""
    several = bool(trajectory.provenance.attempts)
    ends = (turn.index + 1 for turn in trajectory.turns if several and "attempt_1" in turn.rewards)
    return next(ends, len(trajectory.turns))


def weights_of(attempts: Attempts | None, reward: Reward, trajectory: Trajectory) -> dict[str, float]:
    """The weights that count for a judged episode; what the reward says of a component goes before `attempts`."""
    return {**(attempts.weights if attempts is not None else {}), **reward.weights_for(trajectory)}


def judge_for(attempts: Attempts | None, reward: Reward, time_s: float, retry: Callable[[Exception], bool]) -> Judge:
    """Who judges an episode. Arguments: as Judge. Raises: RewardError if the reward has no text as feedback."""
    if attempts is None:
        return Judge(reward, time_s, retry)
    return AttemptsJudge(attempts, reward, time_s, retry)


class AttemptsJudge(Judge):
    """Judges each attempt of an episode by itself: the reward is shown the turns of one attempt alone."""

    def __init__(self, attempts: Attempts, reward: Reward, time_s: float, retry: Callable[[Exception], bool]) -> None:
        super().__init__(reward, time_s, retry)
        if attempts.feedback == "text" and not reward.has_stage("feedback"):
            raise RewardError(
                f"attempts: feedback is 'text', and {type(reward).__name__} has no `feedback`. Choose 'verdict' or "
                "'none', or a reward that overrides Reward.feedback."
            )
        self._attempts = attempts
        self._start = 0
        self._outcomes: list[Components] = []
        self._turns_changed = False

    @property
    def attempt_start(self) -> int:
        """As Judge."""
        return self._start

    async def judge_turn(self, turn: Turn, trajectory: Trajectory) -> None:
        """As Judge."""
        await super().judge_turn(turn, self._view(trajectory, None))

    async def end_attempt(self, trajectory: Trajectory, reason: StopReason) -> str | None:
        """As Judge."""
        number = len(self._outcomes) + 1
        if number == self._attempts.n:
            return None
        view = await self._judge_attempt(trajectory, reason)
        success = view.outcome[SUCCESS]
        if self._attempts.until_solved and success >= 1:
            return None
        last = view.turns[-1]
        last.rewards = merge_components(last.rewards, {f"attempt_{number}": success}, self.reward)
        early = f"{ENDED_EARLY} " if reason is StopReason.HOPELESS else ""
        announcement = f"{early}Attempt {number + 1} of {self._attempts.n}: everything is as at the start."
        return await self._feedback(view, announcement)

    async def judge_end(self, trajectory: Trajectory) -> bool:
        """As Judge; the outcome is that of the last attempt that took a turn."""
        if self._start < len(trajectory.turns) or not self._outcomes:
            await self._judge_attempt(trajectory, trajectory.stop_reason)
        first, last = self._outcomes[0][SUCCESS], self._outcomes[-1][SUCCESS]
        rates = {"first": first, "last": last, "fixed": last * (1 - first), "broke": first * (1 - last)}
        changes = rates | {"improvement": last - first}
        trajectory.outcome = merge_components(self._outcomes[-1], changes, self.reward)
        trajectory.weights = weights_of(self._attempts, self.reward, trajectory)
        return self._turns_changed

    def _view(self, trajectory: Trajectory, reason: StopReason | None) -> Trajectory:
        """The attempt that is played, as an episode."""
        return replace(trajectory, turns=trajectory.turns[self._start :], outcome={}, stop_reason=reason)

    async def _judge_attempt(self, trajectory: Trajectory, reason: StopReason | None) -> Trajectory:
        """Judge the attempt that has ended. Returns: it, with its outcome. Raises: RewardError without `success`."""
        view = self._view(trajectory, reason)
        self._turns_changed |= await super().judge_end(view)
        if SUCCESS not in view.outcome:
            raise RewardError(
                f"{type(self.reward).__name__} judged an attempt without a {SUCCESS!r} component (outcome: "
                f"{view.outcome}). Several attempts need it: return {{'success': 0.0 to 1.0}} from `outcome`."
            )
        self._outcomes.append(view.outcome)
        self._start = len(trajectory.turns)
        return view

    async def _feedback(self, view: Trajectory, announcement: str) -> str:
        if self._attempts.feedback == "none":
            return announcement
        if self._attempts.feedback == "verdict":
            return f"That was {'right' if view.outcome[SUCCESS] >= 1 else 'wrong'}. {announcement}"
        text = await self.ask(self.reward.feedback, view, check=validate_feedback)
        return f"{text}\n{announcement}"
