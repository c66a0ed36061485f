"""The reward contract: named components for turns, for the outcome and for a group.

A reward returns components by name, never a single number. Each component is logged separately; a missing
component is missing, not 0. A judge that cannot judge raises `JudgeError`: the episode is kept but not
trained on.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from agentgym.errors import RewardError
from agentgym.task.definition import Task
from agentgym.trajectory import Span
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

Components = dict[str, float]
RewardStage = Literal["turn", "outcome", "hindsight", "spans", "group", "feedback"]

SUCCESS = "success"
"""The outcome component that evaluation reads: 1.0 if the task is solved, 0.0 if not, never outside that range."""
_NOISE = 1e-9


class Reward:
    """Base of reward functions. Override the methods that the judge needs; each may be sync or async.

    Methods are called in this order: `turn` after each turn; `outcome`, `hindsight` and `spans` after the episode;
    `group` after all episodes of the group. `weights` holds each component's weight in the scalar that the trainer sees
    (1.0 if absent); the components themselves are recorded unweighted.
    """

    weights: Mapping[str, float] = {}
    reads_thoughts: bool = False
    """Whether an agent's thoughts may affect its reward. If not, the reward reads only `message.text`, the speech."""
    sampler: str = ""
    """The sampler (`train.sampler`) that draws the tasks whose groups this reward compares; empty if any will do."""

    def turn(self, turn: Turn, episode: Trajectory) -> Any:
        """Return the components of this turn, in reward units: dict[str, float], or an awaitable of it."""
        return {}

    def outcome(self, episode: Trajectory) -> Any:
        """Return the components of the whole episode: dict[str, float], or an awaitable of it."""
        return {}

    def hindsight(self, episode: Trajectory) -> Any:
        """Return components of each turn that need the finished episode: one dict per turn, or an awaitable of them.

        They are added to the components from `turn`. `episode.outcome` holds the result of `outcome`.
        """
        return [{} for _ in episode.turns]

    def spans(self, episode: Trajectory) -> Any:
        """Return valued parts of each turn's text, for credit finer than a turn (see agentgym.trajectory.Span).

        Returns: one list of Span per turn, or an awaitable of them.
        """
        return [() for _ in episode.turns]

    def group(self, episodes: Sequence[Trajectory]) -> Any:
        """Return further outcome components of each episode, judged in comparison with the task's other episodes.

        Args:
            episodes: the valid episodes of a group, at least one, with their outcome and turn components so far.
        Returns: one dict per episode, in the same order, or an awaitable of them. Branches are in no group.
        """
        return [{} for _ in episodes]

    def feedback(self, episode: Trajectory) -> Any:
        """Return feedback for the agent on an ended episode or attempt: which tests failed, for example.

        `episode.outcome` holds the result of `outcome`. The agent learns whatever the feedback reveals of the truth.
        Called only if a run wants text as feedback (see agentgym.methods.attempts).
        Returns: str, or an awaitable of it.
        """
        return ""

    def task_fault(self, task: Task) -> Any:
        """Return why a task cannot be judged fairly, for importers: for example, its gold solution earns no reward.

        Returns: str, empty for a sound task, or an awaitable of it.
        Raises: JudgeError if the fault cannot be determined on this machine now.
        """
        return ""

    def weights_for(self, episode: Trajectory) -> Mapping[str, float]:
        """Return the weights for a judged episode; called again after its group was judged."""
        return self.weights

    def set_progress(self, progress: float) -> None:
        """Receive the share of the training that is done, 0 to 1; called by a trainer before each step."""

    def bind_policy(self, policy: Any) -> None:
        """Receive the playing agentgym Policy before the first episode, for judges that query the player itself."""

    def has_stage(self, stage: RewardStage) -> bool:
        """Return whether the reward judges at a stage. Without the stage `group`, no episode waits for its group."""
        return getattr(type(self), stage) is not getattr(Reward, stage)

    def total(self, components: Mapping[str, float]) -> float:
        """Return the weighted sum of components, in reward units."""
        return math.fsum(self.weights.get(name, 1.0) * value for name, value in components.items())


async def validate_components(answer: Any, reward: Reward) -> Components:
    """Await a reward's answer if necessary and check it: a dict of finite numbers by name, `success` from 0 to 1.

    Returns: the components as floats; bools and the numbers of numpy and torch become floats too.
    Raises: RewardError naming the reward, the component and the value.
    """
    if not isinstance(answer, dict) and inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, dict):
        raise RewardError(
            f"{type(reward).__name__} returned {answer!r}, but a reward must return a dict of components by name, for "
            "example {'success': 1.0}."
        )
    components: Components = {}
    for name, value in answer.items():
        number = _finite(value)
        if number is None:
            raise RewardError(
                f"{type(reward).__name__} returned {value!r} for the component {name!r}, but a reward must be a "
                "finite number. Leave the component out when it does not apply, and raise JudgeError when judging "
                "failed."
            )
        if name == SUCCESS:
            if not -_NOISE <= number <= 1 + _NOISE:
                raise RewardError(
                    f"{type(reward).__name__} returned {value!r} for the component {SUCCESS!r}, which must be from 0 "
                    "to 1: it is the share of the task that is solved. Divide a score by its largest value, or give "
                    "the component another name."
                )
            number = min(max(number, 0.0), 1.0)
        components[name] = number
    return components


def _finite(value: Any) -> float | None:
    """Return any kind of number, even a bool, as a float; None for anything else, and for NaN and infinity."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, (str, bytes, bytearray)) or getattr(value, "ndim", None):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


async def validate_feedback(answer: Any, reward: Reward) -> str:
    """Await the result of `Reward.feedback` if necessary and check it. Raises: RewardError if it is not text."""
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, str):
        raise RewardError(f"{type(reward).__name__} returned {answer!r:.200} as feedback, but feedback must be text.")
    return answer


async def validate_spans(answer: Any, reward: Reward, turns: Sequence[Turn]) -> list[list[Span]]:
    """Await the result of `Reward.spans` if necessary and check it. Raises: RewardError naming turn and span."""
    if inspect.isawaitable(answer):
        answer = await answer
    name = type(reward).__name__
    if not isinstance(answer, (list, tuple)) or len(answer) != len(turns):
        raise RewardError(
            f"{name} returned {answer!r:.200} for {len(turns)} turns, but `spans` must return a list with one entry "
            "per turn."
        )
    for turn, spans in zip(turns, answer, strict=True):
        for span in spans:
            try:
                length = len(span.text(turn.message))
            except (AttributeError, ValueError) as error:
                raise RewardError(f"{name} returned {span!r:.200} for turn {turn.index}: {error}.") from error
            if not (0 <= span.start < span.end <= length) or _finite(span.value) is None:
                raise RewardError(
                    f"{name} returned {span!r:.200} for turn {turn.index}. A span must cover at least one character "
                    f"of its text, which has {length}, and have a finite value."
                )
    return [[replace(span, value=float(span.value)) for span in spans] for spans in answer]


async def validate_each(answer: Any, reward: Reward, count: int) -> list[Components]:
    """Validate a list of `count` dicts, one per turn or episode, as `validate_components` does. Raises: RewardError."""
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, (list, tuple)) or len(answer) != count:
        got = f"{len(answer)} answers" if isinstance(answer, (list, tuple)) else repr(answer)[:200]
        raise RewardError(
            f"{type(reward).__name__} returned {got} for {count} turns or episodes, but `hindsight` and `group` must "
            "return a list with one dict of components for each, in the same order."
        )
    return [await validate_components(components, reward) for components in answer]
