"""Gymnasium environments as ours: `register_gymnasium`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import gymnasium
import numpy as np
from pydantic import Field

from agentgym import Checkpoint, Environment, Message, Task, TaskError, TaskSet, ToolError, load, register, tool
from agentgym.reward import SUCCESS, Components

from .toy_text import TOY_TEXT, ActionText

AT_ONCE = 10
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(slots=True)
class GymnasiumEpisode:
    """The state of a Gymnasium episode: all actions so far, the sum of rewards, and whether and how it ended."""

    actions: list[int] = field(default_factory=list)
    total: float = 0.0
    last: float = 0.0
    terminated: bool = False
    truncated: bool = False


class GymnasiumEnvironment(Environment):
    """An environment of Gymnasium with discrete actions. It runs in this process: nothing is isolated.

    Made by `register_gymnasium`. Task parameters, both optional: `seed`, the seed of the reset (by default the
    episode's); `options`, further arguments of `gymnasium.make`. The observation is taken as the whole state.
    """

    reward = "final_state"
    theirs: ClassVar[str]
    options: ClassVar[Mapping[str, Any]]
    words: ClassVar[ActionText]
    solved: ClassVar[Callable[[GymnasiumEpisode], bool]]

    def __init__(self) -> None:
        self._env: gymnasium.Env[Any, Any] | None = None
        self._gymnasium_episode = GymnasiumEpisode()
        self.ended = False
        self._seen: Any = None
        self._identity = b""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Make the Gymnasium environment and reset it. Raises: TaskError if it does not accept the options."""
        self._shut()
        options = {**self.options, **task.parameters.get("options", {})}
        try:
            self._env = gymnasium.make(self.theirs, **options)
        except (TypeError, ValueError, AssertionError, KeyError, gymnasium.error.Error) as error:
            raise TaskError(f"{task.id}: gymnasium.make({self.theirs!r}, **{options!r}) failed: {error}") from error
        self._identity = json.dumps([self.theirs, options, task.parameters.get("seed")], sort_keys=True).encode()
        self._gymnasium_episode, self.ended = GymnasiumEpisode(), False
        self._seen, _ = self._env.reset(seed=int(task.parameters.get("seed", seed)) % 2**31)
        return [*task.opening(), Message("user", self._observation_text())]

    def act(self, actions: Sequence[str]) -> str:
        """Do up to ten actions, one after the other."""
        if self._env is None:
            raise RuntimeError(f"{self.theirs} was used before its reset. Call reset first.")
        if self.ended:
            raise ToolError("The task is over, and nothing changes any more.")
        earned = 0.0
        for action in actions:
            earned += self._step(self.words.actions.index(action))
            if self.ended:
                break
        return f"{self._observation_text()}\nReward: {earned:g}{'. It is over.' if self.ended else ''}"

    def _step(self, action: int) -> float:
        assert self._env is not None
        episode = self._gymnasium_episode
        self._seen, reward, episode.terminated, episode.truncated, _ = self._env.step(action)
        episode.actions.append(action)
        episode.last = float(reward)
        episode.total += episode.last
        if episode.terminated or episode.truncated:
            self.end_episode()
        return episode.last

    def _observation_text(self) -> str:
        return _COLOURS.sub("", self.words.describe(self._env, self._seen)).strip()

    async def state_key(self) -> str | None:
        seen = json.dumps(_plain(self._seen), sort_keys=True).encode()
        return hashlib.blake2b(seen, key=hashlib.sha256(self._identity).digest(), digest_size=12).hexdigest()

    async def checkpoint(self) -> Checkpoint | None:
        """Return the actions so far. Under the same seed they restore the whole state, with its random numbers."""
        return Checkpoint({"actions": list(self._gymnasium_episode.actions)})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self.reset(task, seed=seed)
        for action in checkpoint.data["actions"]:
            self._step(action)

    def verdict(self) -> Components:
        """Return the components of the outcome, for the reward `final_state`."""
        return {SUCCESS: float(type(self).solved(self._gymnasium_episode)), "return": self._gymnasium_episode.total}

    async def close(self) -> None:
        self._shut()
        await super().close()

    def _shut(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


def register_gymnasium(
    theirs: str,
    name: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    words: ActionText | None = None,
    solved: Callable[[GymnasiumEpisode], bool] | None = None,
) -> str:
    """Register a Gymnasium environment under our name, for this process: `register_gymnasium("Taxi-v4")`.

    Args:
        theirs: the Gymnasium id. `options`: further arguments of `gymnasium.make`.
        name: our name; by default `gymnasium/` and the Gymnasium id in lower case.
        words: names of the actions and a description of observations; built in for toy text, else numbers.
        solved: whether an episode is a success; built in for toy text, else a final reward above 0.
    Returns: our name.
    Raises: TaskError if its actions are not discrete; DuplicateNameError; gymnasium.error.Error for an unknown id.
    """
    name = name or f"gymnasium/{theirs.lower()}"
    env = gymnasium.make(theirs, **(options or {}))
    space = env.action_space
    env.close()
    if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
        raise TaskError(
            f"{theirs} has the actions {space}, but only a Discrete space that begins at 0 can become a tool."
        )
    known = TOY_TEXT.get(theirs.partition("-v")[0])
    words = words or known or ActionText(tuple(map(str, range(int(space.n)))), lambda env, seen: str(_plain(seen)))
    if len(words.actions) != space.n:
        raise TaskError(
            f"{theirs} has {space.n} actions, but `words` names {len(words.actions)}: {words.actions}. Name each "
            "action once."
        )
    solved = solved or (_by(known) if known else _rewarded)
    register(name, _environment_class(theirs, dict(options or {}), words, solved))
    return name


def _environment_class(
    theirs: str, options: dict[str, Any], words: ActionText, solved: Callable[[GymnasiumEpisode], bool]
) -> type[GymnasiumEnvironment]:
    """Return a new class whose tool schema names the actions."""
    choice: Any = Literal[words.actions]

    def act(self, actions):  # type: ignore[no-untyped-def]
        return GymnasiumEnvironment.act(self, actions)

    act.__annotations__ = {
        "actions": Annotated[list[choice], Field(min_length=1, max_length=AT_ONCE)],
        "return": str,
    }
    act.__doc__ = f"Do up to {AT_ONCE} actions, one after the other."
    body = {
        "act": tool(inline=True)(act),
        "theirs": theirs,
        "options": options,
        "words": words,
        "solved": staticmethod(solved),
        "__doc__": f"{theirs} of Gymnasium, in this process: nothing is isolated.",
    }
    return type(re.sub(r"\W", "", theirs), (GymnasiumEnvironment,), body)


def gymnasium_tasks(name: str, *, train: int = 200, validation: int = 20, held_out: int = 40, seed: int = 0) -> TaskSet:
    """Return tasks of a registered Gymnasium environment that differ by the reset's seed; the set is called `<name>`.

    Raises: UnknownNameError; TaskError if the name was not registered by `register_gymnasium`.
    """
    environment_class: Any = load("environments", name)
    if not (isinstance(environment_class, type) and issubclass(environment_class, GymnasiumEnvironment)):
        raise TaskError(f"{name!r} is not an environment that register_gymnasium registered.")
    words = environment_class.words
    about = words.rules or f"Play {environment_class.theirs}. The actions are {', '.join(words.actions)}."
    return TaskSet.seeded(name, about, train=train, validation=validation, held_out=held_out, seed=seed)


def _by(words: ActionText) -> Callable[[GymnasiumEpisode], bool]:
    return lambda episode: words.solved(episode.total, episode.last, episode.terminated)


def _rewarded(episode: GymnasiumEpisode) -> bool:
    return episode.terminated and episode.last > 0


def _plain(seen: Any) -> Any:
    """Return an observation as JSON-compatible data."""
    if isinstance(seen, np.ndarray | np.generic):
        return seen.tolist()
    if isinstance(seen, Mapping):
        return {str(key): _plain(value) for key, value in seen.items()}
    return [_plain(item) for item in seen] if isinstance(seen, list | tuple) else seen
