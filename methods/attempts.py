"""Several attempts at a task in one episode: the reward judges each, and each begins in a fresh environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from typing_extensions import override

from agentgym import Message, RewardError, StopReason, Trajectory, Turn
from agentgym.options import validated_dataclass
from agentgym.reward import SUCCESS, Components, validate_feedback
from agentgym.rollout import EpisodeHandle, EpisodeHook, Judge, TurnOutcome, WrappedJudge

ENDED_EARLY = "This attempt was ended early."
"""What the agent reads when a stop rule has ended an attempt. The rule's reason is recorded for the last attempt only.
"""
__all__ = ["Attempts"]

Weight = Annotated[float, Field(allow_inf_nan=False)]


@validated_dataclass(kw_only=True)
class Attempts(EpisodeHook):
    """How often an episode tries its task.

    An attempt ends when the agent answers, the environment ends, or a stop rule calls it hopeless. The reward judges
    the attempt's turns as if they were an episode. The environment itself judges nothing, because it does not know the
    truth. The conversation then continues with the feedback, in a fresh environment that was reset with the same seed.
    Budgets bound the whole episode, and judging an attempt counts in its `time_s`. The outcome is that of the last
    attempt, plus these components:
    `first` and `last`, success of the first and the last attempt; `fixed` = last (1 - first); `broke` =
    first (1 - last); `improvement` = last - first. If a budget ends the first attempt, this attempt is also the last.

    Source: `improvement` with a weight alpha above 1 is the reward shaping of SCoRe, Kumar et al. 2024,
        arXiv:2409.12917; from its abstract and not checked against code.
    """

    name: ClassVar[str] = "attempts"
    needs_reward: ClassVar[bool] = True
    fits_programs: ClassVar[bool] = False

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
    @override
    def weights(self) -> Mapping[str, float]:
        earlier = {f"attempt_{number}": self.earlier for number in range(1, self.n)}
        rates = dict.fromkeys(("first", "last", "fixed", "broke"), 0.0)
        return {**rates, "improvement": self.improvement, **earlier}

    @override
    def for_episode(self) -> EpisodeHook:
        return _EpisodeAttempts(self)

    @override
    def renewed_after(self, turn: Turn) -> bool:
        """Return whether an attempt that was not the last ended with this turn, according to the turn's record."""
        return any(f"attempt_{number}" in turn.rewards for number in range(1, self.n))


class _EpisodeAttempts(EpisodeHook):
    """Starts the next attempt of one episode when an attempt ends."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._judge: AttemptsJudge | None = None

    @override
    def wrap_judge(self, judge: Judge) -> Judge:
        self._judge = AttemptsJudge(judge, self._attempts)
        return self._judge

    @override
    async def before_turn(self, episode: EpisodeHandle) -> None:
        """Check before the first turn that the reward gives the feedback that the agent is to read.

        Raises: RewardError.
        """
        if self._judge is not None and not episode.trajectory.turns:
            self._judge.check_feedback()

    @override
    async def after_turn(self, episode: EpisodeHandle, turn: Turn, stop: StopReason | None) -> TurnOutcome:
        recorded, judge = episode.recorded_turn, self._judge
        if stop is None and recorded is not None and self._attempts.renewed_after(recorded):
            is_early = any(ENDED_EARLY in reply.text for reply in recorded.replies)
            stop = StopReason.HOPELESS if is_early else StopReason.ENVIRONMENT
        if judge is None or stop is None or not stop.ends_attempt or episode.used_up():
            return TurnOutcome(stop)
        episode.note(f"judging the attempt that turn {turn.index} ended")
        if (feedback := await judge.end_attempt(episode.trajectory, stop)) is None:
            return TurnOutcome(stop)
        episode.trajectory.provenance.hopeless = None
        return TurnOutcome(messages=[Message("user", feedback)], renew=True)


class AttemptsJudge(WrappedJudge):
    """Judges each attempt of an episode separately: the reward sees only the turns of one attempt."""

    def __init__(self, judge: Judge, attempts: Attempts) -> None:
        super().__init__(judge)
        self._attempts = attempts
        self._start = 0
        self._outcomes: list[Components] = []
        self._turns_changed = False

    def check_feedback(self) -> None:
        """Check that the reward gives the feedback to show between attempts. Raises: RewardError."""
        if self._attempts.feedback == "text" and not self.reward.has_stage("feedback"):
            raise RewardError(
                "attempts: feedback = 'text' needs a reward that overrides Reward.feedback, and "
                f"{type(self.reward).__name__} does not. Choose another reward, or the feedback 'verdict' or 'none'."
            )

    @override
    async def judge_turn(self, turn: Turn, trajectory: Trajectory) -> None:
        await super().judge_turn(turn, self._view(trajectory, None))

    @override
    async def judge_recorded_turn(self, recorded: Turn, trajectory: Trajectory) -> None:
        await self.judge_turn(trajectory.turns[-1], trajectory)
        if self._attempts.renewed_after(recorded):
            await self._end_attempt(trajectory, StopReason.ANSWERED)

    async def end_attempt(self, trajectory: Trajectory, reason: StopReason) -> str | None:
        """Judge the attempt that has ended.

        Returns: the feedback that the agent reads before its next attempt; None if no attempt follows.
        Raises: as `judge_turn`; RewardError for an outcome without `success`.
        """
        number = len(self._outcomes) + 1
        if number == self._attempts.n or (view := await self._end_attempt(trajectory, reason)) is None:
            return None
        early = f"{ENDED_EARLY} " if reason is StopReason.HOPELESS else ""
        announcement = f"{early}Attempt {number + 1} of {self._attempts.n}: everything is as at the start."
        return await self._feedback(view, announcement)

    @override
    async def judge_end(self, trajectory: Trajectory) -> bool:
        """Judge the episode: its outcome is that of the last attempt that has a turn."""
        if self._start < len(trajectory.turns) or not self._outcomes:
            await self._judge_attempt(trajectory, trajectory.stop_reason)
        first, last = self._outcomes[0][SUCCESS], self._outcomes[-1][SUCCESS]
        rates = {"first": first, "last": last, "fixed": last * (1 - first), "broke": first * (1 - last)}
        changes = rates | {"improvement": last - first}
        trajectory.outcome = self.merge(self._outcomes[-1], changes)
        trajectory.weights = self.weights_for(trajectory)
        return self._turns_changed

    async def _end_attempt(self, trajectory: Trajectory, reason: StopReason) -> Trajectory | None:
        """Judge an attempt and store its outcome.

        Returns: the attempt as an episode; None if the episode ends with it.
        """
        number = len(self._outcomes) + 1
        view = await self._judge_attempt(trajectory, reason)
        success = view.outcome[SUCCESS]
        if self._attempts.until_solved and success >= 1:
            return None
        last = view.turns[-1]
        last.rewards = self.merge(last.rewards, {f"attempt_{number}": success})
        return view

    def _view(self, trajectory: Trajectory, reason: StopReason | None) -> Trajectory:
        """Return the current attempt as an episode."""
        return replace(trajectory, turns=trajectory.turns[self._start :], outcome={}, stop_reason=reason)

    async def _judge_attempt(self, trajectory: Trajectory, reason: StopReason | None) -> Trajectory:
        """Judge the attempt that has ended, and return it with its outcome. Raises: RewardError without `success`."""
        view = self._view(trajectory, reason)
        self._turns_changed |= await super().judge_end(view)
        if SUCCESS not in view.outcome:
            raise RewardError(
                f"{type(self.reward).__name__} judged an attempt without the component {SUCCESS!r}, which several "
                f"attempts need (its outcome is {view.outcome}). Return {{'success': 0.0 to 1.0}} from `outcome`."
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
