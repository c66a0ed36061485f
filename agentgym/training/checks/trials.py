"""Tries a run before it starts: resets one task of each environment, and plays one episode of the oracle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from agentgym import registry
from agentgym.environment import EnvironmentWrapper
from agentgym.environment.contract import Environment
from agentgym.errors import AgentGymError, EnvironmentServerError, JudgeError, RecipeError, RewardError, SandboxError
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.reward import SUCCESS, validate_components
from agentgym.reward.combined import Combined
from agentgym.reward.contract import Reward
from agentgym.rollout.checks import check_messages
from agentgym.rollout.config import RolloutConfig
from agentgym.rollout.environment_options import EnvironmentOptionError, check_environment_options
from agentgym.rollout.failures import cause_of
from agentgym.rollout.manager import EpisodeManager
from agentgym.rollout.sandbox_check import check_limits
from agentgym.task.definition import SPLITS, Task
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.reward_section import RewardSection
from agentgym.trajectory.record import Trajectory


class _ParametersRead(dict[str, Any]):
    """Task parameters that record which of them are read."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        super().__init__(parameters)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        self.names |= set(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        self.names |= set(super().keys())
        return super().keys()

    def values(self) -> Any:
        self.names |= set(super().keys())
        return super().values()

    def items(self) -> Any:
        self.names |= set(super().keys())
        return super().items()


@dataclass(frozen=True, slots=True)
class _Reset:
    """Reset the environment of a task as a recipe's episodes do. `title`: the name of the tasks in messages."""

    episode: EpisodeSection
    config: RolloutConfig
    title: str
    seed: int

    async def __call__(self, task: Task, condition: str = "", parameters: _ParametersRead | None = None) -> None:
        """Reset the environment of a task. Raises: RecipeError for an error of the environment.

        Args:
            condition: text that follows the name of the task in messages.
            parameters: replace the task's own, and record which of them the environment reads.
        """
        environment: Environment = registry.make(
            registry.environment_of(self.episode.environment, task.environment),
            backend=self.config.backend,
            **self.config.options_for(task),
        )
        activity = f"resetting {task.environment} for the task {task.id}{condition}"
        try:
            async with asyncio.timeout(self.config.budgets.time_s):
                public = task.public()
                if parameters is not None:
                    public = replace(public, parameters=parameters)
                opening = await environment.reset(public, seed=self.seed)
            check_messages(opening, EnvironmentWrapper.unwrap(environment).reset, "return task.opening()")
        except (SandboxError, EnvironmentServerError):  # the error names what the machine or the server lacks
            raise
        except Exception as error:
            key = "evaluate.control" if condition else self.title
            raise RecipeError(f"{key} failed in the trial before training: {cause_of(error, activity)}") from error
        finally:
            await environment.close()


def check_environments(
    task_set: TaskSet,
    episode: EpisodeSection,
    control: Mapping[str, Any],
    *,
    title: str,
    seed: int,
    source_options: Mapping[str, Mapping[str, Any]] = {},
) -> None:
    """Reset one task of each environment, as the recipe's episodes and its control evaluation do.

    Args:
        episode: the recipe's [episode].
        control: `evaluate.control`, the task parameters that the control evaluation overrides.
        title: the name of the tasks in messages.
        seed: the seed of each reset.
        source_options: see RolloutConfig.
    Raises: RecipeError for an unknown option of an environment, for a key of `evaluate.control` that no environment
        reads, and for an environment whose reset fails; SandboxError, such as SandboxUnavailable, if the machine lacks
        something; EnvironmentServerError.
    """
    config = replace(episode.config(seed=seed, reward=None), source_options=source_options)
    try:
        check_environment_options((task for split in SPLITS for task in task_set[split]), config)
    except EnvironmentOptionError as error:
        raise RecipeError(f"The recipe's environment_options are not valid: {error}") from error
    asyncio.run(_reset_each(task_set, _Reset(episode, config, title, seed), control))


async def _reset_each(task_set: TaskSet, reset: _Reset, control: Mapping[str, Any]) -> None:
    user = registry.BackendUser()
    splits = ("held_out", "train")
    first_tasks = {(task.environment, task.source): task for split in splits for task in task_set[split]}
    parameters_read: set[str] = set()
    try:
        await check_limits(first_tasks.values(), reset.config)
        for task in first_tasks.values():
            await reset(task)
        for task in {task.environment: task for task in task_set["held_out"]}.values() if control else ():
            parameters = _ParametersRead({**task.parameters, **control})
            await reset(task, f" with evaluate.control = {control}", parameters)
            parameters_read |= parameters.names | set(task.parameters)
    finally:
        await user.close()
    for key in control.keys() - parameters_read:
        close = get_close_matches(key, parameters_read, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"They read: {', '.join(sorted(parameters_read))}."
        raise RecipeError(
            f"evaluate.control.{key}: no environment of {task_set.name} reads a task parameter {key!r}, so the "
            f"control would only repeat the evaluation. {hint}"
        )


_ALIKE = 0.8  # difflib's ratio: about one different letter in a name of five


class _ReadTask(Task):
    """A task that records whether its truth was read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "truth":
            object.__setattr__(self, "truth_was_read", True)
        return super().__getattribute__(name)


def check_reward(task_set: TaskSet, section: RewardSection, episode: EpisodeSection, *, title: str, seed: int) -> None:
    """Let the oracle play the first training task of each set, and compare the reward's components with the recipe.

    If another task asks the same question, it is played too. Nothing is checked if the set has no oracle, if the recipe
    plays in another environment than the tasks' own, or if the episode cannot be judged before the run, as with a
    reward that asks the model.

    Args:
        section, episode: the recipe's [reward] and [episode].
        title: the name of the tasks in messages.
        seed: the seed of the episode.
    Raises: RecipeError for a component in [reward] that no reward gives, for a likely misspelt name in a reward's
        `weights`, for a reward that reads the truth of tasks without truth, and for a reward that cannot judge the
        oracle's episode.
    """
    if task_set.oracle is None or not task_set["train"] or episode.environment is not None:
        return
    known: set[str] = set()
    for task in {task.source: task for task in reversed(task_set["train"])}.values():  # the first task of each set
        reward = _reward_of(section, task_set, task)
        if reward is None:
            return
        trajectory = _oracle_episode(task_set, _with_pair(task, task_set), episode.config(seed=seed, reward=reward))
        if _cannot_judge(reward, error := trajectory.error or ""):
            raise RecipeError(
                f"{title}: the reward cannot judge the oracle's episode of {task.id!r}, so it could not judge "
                f"training episodes. {error}"
            )
        if not trajectory.valid:
            return
        known |= _components(reward, trajectory)
        tasks = [other for other in task_set["train"] if other.source == task.source]
        if all(other.truth is None for other in tasks) and not (trajectory.success or 0) > 0:
            asyncio.run(_check_truth(reward, trajectory, title))
    _check_section(section, known)


def _cannot_judge(reward: Reward, error: str) -> bool:
    """Return whether the reward failed on the oracle's episode and so would fail on every episode.

    Other failures are ignored: a reward that asks the player finds only a script here, and a reward that compares
    groups may wait for another group.
    """
    if error.startswith(RewardError.__name__):
        return True
    parts = reward.rewards if isinstance(reward, Combined) else (reward,)
    asks_player = any(type(part).bind_policy is not Reward.bind_policy for part in parts)
    return error.startswith(JudgeError.__name__) and not asks_player and "gave no verdict in" not in error


def _components(reward: Reward, trajectory: Trajectory) -> set[str]:
    """Return the components that a reward gives or names. Raises: RecipeError for a likely misspelt name."""
    parts = reward.rewards if isinstance(reward, Combined) else (reward,)
    given = {SUCCESS, *trajectory.outcome, *(name for turn in trajectory.turns for name in turn.rewards)}
    declared = {name for part in parts for name in part.weights}
    for name in sorted(declared - given):
        if close := get_close_matches(name, given - declared, n=1, cutoff=_ALIKE):
            raise RecipeError(
                f"A reward's `weights` name the component {name!r}, but it gives {close[0]!r}, which would therefore "
                "count with weight 1. Write both names alike."
            )
    return given | declared


def _check_section(section: RewardSection, known: Iterable[str]) -> None:
    """Raise RecipeError for the first unknown component in [reward]."""
    names = sorted(known)
    used = {
        **{f"weights.{name}": name for name in section.weights},
        **{f"schedules.{name}": name for name in section.schedules},
        **{f"caps.{name}": name for name in section.caps},
        **{f"gates: by = {gate.by!r}": gate.by for gate in section.gates},
        **{f"gates: opens {name!r}": name for gate in section.gates for name in gate.opens},
    }
    for key, name in used.items():
        if name not in names:
            close = get_close_matches(name, names, n=1)
            raise RecipeError(
                f"reward.{key}: no reward of this recipe gives a component {name!r}. "
                + (f"Did you mean {close[0]!r}? " if close else "")
                + (
                    f"Components are: {', '.join(names)}. If only some episodes have this component, name it in the "
                    "reward's `weights`."
                )
            )


async def _check_truth(reward: Reward, trajectory: Trajectory, title: str) -> None:
    """Judge the outcome again, with a task that records whether its truth is read. Raises: RecipeError if it is."""
    task = trajectory.task
    noted = _ReadTask(**{field.name: getattr(task, field.name) for field in fields(Task)})
    trajectory.task = noted
    await validate_components(reward.outcome(trajectory), reward)
    if getattr(noted, "truth_was_read", False):
        raise RecipeError(
            f"{title}: the reward reads `task.truth`, which is None in every training task, so the oracle's episode "
            f"of {task.id!r} has no success. Give each task its `truth`."
        )


def _reward_of(section: RewardSection, task_set: TaskSet, task: Task) -> Reward | None:
    reward = section.make_for(task_set)
    name = registry.prototype(task.environment).reward if reward is None else reward
    return registry.load_reward(name) if isinstance(name, str) else name


def _with_pair(task: Task, task_set: TaskSet) -> list[Task]:
    """Return the task, and the first other task that asks the same question: a reward may compare the two."""
    pair = task.pair
    return [task, *[other for other in task_set["train"] if pair and other.pair == pair and other != task][:1]]


def _oracle_episode(task_set: TaskSet, tasks: list[Task], config: RolloutConfig) -> Trajectory:
    """Return the oracle's episode of the first task."""
    oracle = task_set.oracle
    assert oracle is not None
    manager = EpisodeManager(lambda task: ScriptedPolicy(oracle(task)), config, label="trial")
    try:
        trajectories = asyncio.run(manager.collect(tasks, 1))
    except AgentGymError as error:
        raise RecipeError(f"The trial episode, which the oracle plays before training, failed: {error}") from error
    return next(trajectory for trajectory in trajectories if trajectory.task.id == tasks[0].id)
