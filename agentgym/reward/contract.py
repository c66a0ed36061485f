"""The reward contract: named components for turns, for the outcome and for a group.

A reward never returns one number. It returns components by name, which are logged one by one; a
component that is missing is missing, not 0. A judge that cannot judge raises `JudgeError`: its episode
is kept but not trained on.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from agentgym.errors import RewardError
from agentgym.task import Task
from agentgym.trajectory import Span, Trajectory, Turn

Components = dict[str, float]
RewardStage = Literal["turn", "outcome", "hindsight", "spans", "group", "feedback"]

SUCCESS = "success"
"""The outcome component that evaluation reads: 1.0 where the task is solved, 0.0 where it is not, never outside."""
_NOISE = 1e-9


class Reward:
    """Base of reward functions. Override what the judge has to say; each method may be sync or async.

    In this order: `turn` after each turn, `outcome`, `hindsight` and `spans` when the episode has ended, `group` when
    all episodes of its group have. `weights` says how much a component counts in the scalar that the trainer sees (1.0
    where absent); the components themselves are recorded unweighted.
    """

    weights: Mapping[str, float] = {}
    reads_thoughts: bool = False
    """Whether what an agent thinks may change what it gets. Others read `message.text`, which is what it says."""

    def turn(self, turn: Turn, episode: Trajectory) -> Any:
        """Components earned by this turn, in reward units. Returns: dict[str, float], or an awaitable of it."""
        return {}

    def outcome(self, episode: Trajectory) -> Any:
        """Components earned by the whole episode. Returns: dict[str, float], or an awaitable of it."""
        return {}

    def hindsight(self, episode: Trajectory) -> Any:
        """Components of each turn that only the finished episode tells. Returns: one dict a turn, or an awaitable.

        They are added to what `turn` gave. `episode.outcome` holds what `outcome` said.
        """
        return [{} for _ in episode.turns]

    def spans(self, episode: Trajectory) -> Any:
        """Parts of what each turn wrote, each with a value, for credit finer than a turn (see agentgym.Span).

        Returns: one list of Span a turn, or an awaitable.
        """
        return [() for _ in episode.turns]

    def group(self, episodes: Sequence[Trajectory]) -> Any:
        """Further outcome components of each episode, seen beside the others of its task.

        Args:
            episodes: the valid ones of a group, at least one, each with its outcome and turn components so far.
        Returns: one dict an episode in the same order, or an awaitable of it. Branches are in no group.
        """
        return [{} for _ in episodes]

    def feedback(self, episode: Trajectory) -> Any:
        """Return what an agent may read of an episode or an attempt that it has ended: which tests failed, for example.

        `episode.outcome` holds what `outcome` said. Whatever this tells of the truth, the agent then knows. It is asked
        only where a run wants text as feedback (see agentgym.methods.attempts).
        Returns: str, or an awaitable of it.
        """
        return ""

    def task_fault(self, task: Task) -> Any:
        """Why a task cannot be judged fairly, for an importer: its gold solution is not paid, or nothing is.

        Returns: str, empty for a task that is as it should be, or an awaitable of it.
        Raises: JudgeError if it cannot be found out here and now.
        """
        return ""

    def weights_for(self, episode: Trajectory) -> Mapping[str, float]:
        """Return the weights that count for a judged episode; asked again after its group was judged."""
        return self.weights

    def set_progress(self, progress: float) -> None:
        """Told by a trainer, before a step is played, how much of the training is done: 0 to 1."""

    def bind_policy(self, policy: Any) -> None:
        """Told who plays (an agentgym Policy), before the first episode: for judges that ask the player itself."""

    def has_stage(self, stage: RewardStage) -> bool:
        """Whether it has anything to say at a stage, so that no episode waits for a group that nothing judges."""
        return getattr(type(self), stage) is not getattr(Reward, stage)

    def total(self, components: Mapping[str, float]) -> float:
        """Return the weighted sum of components, in reward units."""
        return math.fsum(self.weights.get(name, 1.0) * value for name, value in components.items())


async def validate_components(answer: Any, reward: Reward) -> Components:
    """Await a reward's answer if need be and check it: a dict of finite numbers by name, `success` from 0 to 1.

    Returns: the components as floats; bools and the numbers of numpy and torch become floats too.
    Raises: RewardError naming the reward, the component and the value.
    """
    if not isinstance(answer, dict) and inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, dict):
        raise RewardError(
            f"{type(reward).__name__} returned {answer!r}: a reward returns a dict of components by name, "
            "for example {'success': 1.0}."
        )
    components: Components = {}
    for name, value in answer.items():
        if (number := _finite(value)) is None:
            raise RewardError(
                f"{type(reward).__name__} returned {value!r} for the component {name!r}: a reward is a finite "
                "number. Leave a component out when there is nothing to say; raise JudgeError when judging failed."
            )
        if name == SUCCESS and not -_NOISE <= number <= 1 + _NOISE:
            raise RewardError(
                f"{type(reward).__name__} returned {value!r} for the component {SUCCESS!r}: it says how much of the "
                "task is solved, from 0 to 1, and evaluation reads it as a share. Divide a score by its largest value, "
                "or give the component another name."
            )
        components[name] = min(max(number, 0.0), 1.0) if name == SUCCESS else number
    return components


def _finite(value: Any) -> float | None:
    """Return a number of any kind, a bool too, as a float; None for anything else, and for NaN and infinity."""
    if isinstance(value, str | bytes | bytearray) or getattr(value, "ndim", None):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


async def validate_feedback(answer: Any, reward: Reward) -> str:
    """Await what `Reward.feedback` returned if need be and check it. Raises: RewardError for what is not text."""
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, str):
        raise RewardError(f"{type(reward).__name__} returned {answer!r:.200} as feedback: it returns text.")
    return answer


async def validate_spans(answer: Any, reward: Reward, turns: Sequence[Turn]) -> list[list[Span]]:
    """Await what `Reward.spans` returned if need be and check it. Raises: RewardError naming the turn and the span."""
    if inspect.isawaitable(answer):
        answer = await answer
    name = type(reward).__name__
    if not isinstance(answer, (list, tuple)) or len(answer) != len(turns):
        raise RewardError(f"{name} returned {answer!r:.200} for {len(turns)} turns: `spans` returns a list for each.")
    for turn, spans in zip(turns, answer, strict=True):
        for span in spans:
            try:
                length = len(span.text(turn.message))
            except (AttributeError, ValueError) as error:
                raise RewardError(f"{name} returned {span!r:.200} for turn {turn.index}: {error}.") from error
            if not (0 <= span.start < span.end <= length) or _finite(span.value) is None:
                raise RewardError(
                    f"{name} returned {span!r:.200} for turn {turn.index}: a span lies within its text of {length} "
                    "characters, holds at least one of them, and has a finite value."
                )
    return [[replace(span, value=float(span.value)) for span in spans] for spans in answer]


async def validate_each(answer: Any, reward: Reward, count: int) -> list[Components]:
    """Validate as `validate_components` does, for a list of one dict for each of `count` turns or episodes. Raises:
    RewardError.
    """
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, (list, tuple)) or len(answer) != count:
        got = f"{len(answer)} answers" if isinstance(answer, (list, tuple)) else repr(answer)[:200]
        raise RewardError(
            f"{type(reward).__name__} returned {got} for {count} turns or episodes: `hindsight` and `group` return a "
            "list with one dict of components for each, in the same order."
        )
    return [await validate_components(components, reward) for components in answer]
