"""`@reward_function`: turn one function into a Reward."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from agentgym.reward.contract import Components, Reward, RewardStage
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


class FunctionReward(Reward):
    """A reward computed by one function, either per episode outcome or per turn.

    Args:
        function: takes the episode, or a turn and its episode; sync or async. Returns a number, which becomes the
            component named after the function, or components by name.
    Raises: TypeError for a function with other parameters.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = list(inspect.signature(function).parameters)
        if len(parameters) not in (1, 2):
            raise TypeError(
                f"{function.__name__} takes {parameters}, but a reward function must take the episode, or a turn and "
                "its episode. Derive a class from Reward for one that needs more."
            )
        self.function = function
        self.name = function.__name__
        self.__doc__ = function.__doc__
        self._stage: RewardStage = "outcome" if len(parameters) == 1 else "turn"

    def __call__(self, *arguments: Any) -> Any:
        """Return the function's own result."""
        return self.function(*arguments)

    def has_stage(self, stage: RewardStage) -> bool:
        return stage == self._stage

    def turn(self, turn: Turn, episode: Trajectory) -> Any:
        return self._components(self.function(turn, episode)) if self._stage == "turn" else {}

    def outcome(self, episode: Trajectory) -> Any:
        return self._components(self.function(episode)) if self._stage == "outcome" else {}

    def _components(self, answer: Any) -> Any:
        if inspect.isawaitable(answer):

            async def awaited() -> Components:
                components: Components = self._components(await answer)
                return components

            return awaited()
        return answer if isinstance(answer, dict) else {self.name: answer}


def reward_function(function: Callable[..., Any]) -> FunctionReward:
    """Turn a function into a Reward, for RolloutConfig(reward=...), `register(..., kind="rewards")` or Combined.

        @reward_function
        def success(episode: Trajectory) -> float:
            return float(episode.turns[-1].message.text == episode.task.truth)

    The function takes the episode, or a turn and its episode, and may be async. A returned number becomes the component
    named after the function; a dict holds components by name. Raise JudgeError in it if it cannot judge.

    Raises: TypeError for a function with other parameters.
    """
    return FunctionReward(function)
