"""Make the environments of a run, and look up their rewards and tool schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentgym.environment.contract import Environment
from agentgym.errors import AgentGymError
from agentgym.policy.contract import Policy
from agentgym.registry import load, load_reward, make, prototype
from agentgym.reward.contract import Reward
from agentgym.rollout.config import RolloutConfig
from agentgym.task.definition import Task
from agentgym.tools.definition import Tool
from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class ToolSchemas:
    """The tools of an environment as a policy sees them, and their costs.

    Attributes:
        tools: the mapping that the schemas were made from.
        schemas: in the OpenAI function-call shape.
        costs: cost per call by tool name; only tools with a cost.
    """

    tools: Mapping[str, Tool]
    schemas: Sequence[dict[str, Any]]
    costs: Mapping[str, float]

    @classmethod
    def of(cls, tools: Mapping[str, Tool]) -> ToolSchemas:
        return cls(
            tools,
            tuple(tool.shown_schema() for tool in tools.values()),
            {name: tool.options.cost for name, tool in tools.items() if tool.options.cost},
        )


class EnvironmentFactory:
    """Makes a fresh environment for each episode, and loads each declared reward only once.

    Args:
        config: names the environment, its options, its backend, and the reward if not the environment's own.
        policy: the policy that plays. It is passed to the rewards, for judges that query it, unless it is a function
            that makes policies.
        is_remote: whether the episodes are read on other machines than this one.
    Raises: UnknownNameError for a reward, environment or backend that is not registered.
    """

    def __init__(
        self, config: RolloutConfig, policy: Policy | Callable[[Task], Policy], *, is_remote: bool = False
    ) -> None:
        self._config, self._is_remote = config, is_remote
        self._policy = policy if isinstance(policy, Policy) else None
        self._rewards_by_name: dict[str, Reward] = {}
        self._rewards_by_source: dict[object, Reward | None] = {}
        self._schemas: dict[type[Environment], ToolSchemas] = {}
        self._given_reward: Reward | None = None
        if isinstance(config.environment, str):  # report an unknown name now, not in each episode
            load("environments", config.environment)
        if isinstance(config.backend, str):
            load("backends", config.backend)
        if isinstance(config.reward, str):
            self._given_reward = self._load(config.reward)
        elif config.reward is not None:
            self._given_reward = config.reward
            if self._policy is not None:
                config.reward.bind_policy(self._policy)

    @property
    def config(self) -> RolloutConfig:
        return self._config

    def make(self, task: Task) -> Environment:
        """Make a fresh environment for a task. Raises: as `agentgym.make`."""
        source = self._config.environment_for(task)
        environment = make(source, backend=self._config.backend, **self._config.options_for(task))
        environment.is_remote = self._is_remote
        self._rewards_by_source[source] = self.reward_for(environment)
        return environment

    def reward_for(self, environment: Environment | type[Environment]) -> Reward | None:
        """Return the reward that judges an environment: the config's, else the environment's own; None without one."""
        if self._given_reward is not None or environment.reward is None:
            return self._given_reward
        reward = environment.reward
        return reward if isinstance(reward, Reward) else self._load(reward)

    def group_reward(self, task: Task, *, make: bool = False) -> Reward | None:
        """Return the reward that judges a task's episodes as a group; None if they are judged singly, as by most.

        Args:
            make: make an environment if only an instance knows its reward, and none was made yet.
        """
        reward = self._given_reward
        if reward is None:
            source = self._config.environment_for(task)
            if source not in self._rewards_by_source:
                with suppress(AgentGymError):  # an unknown id: its episodes have already failed and report it
                    environment_class = load("environments", source) if isinstance(source, str) else source
                    if isinstance(environment_class, type):
                        self._rewards_by_source[source] = self.reward_for(environment_class)
            if make and source not in self._rewards_by_source:
                self.make(task)
            reward = self._rewards_by_source.get(source)
        return reward if reward is not None and reward.has_stage("group") else None

    def tool_schemas(self, environment: Environment) -> ToolSchemas:
        """Return the tool schemas, cached by environment class unless the instance has its own tools."""
        environment_class = type(environment)
        if environment.tools is not environment_class.tools:
            return ToolSchemas.of(environment.tools)
        schemas = self._schemas.get(environment_class)
        if schemas is None:
            schemas = self._schemas[environment_class] = ToolSchemas.of(environment.tools)
        return schemas

    def _load(self, name: str) -> Reward:
        reward = self._rewards_by_name.get(name)
        if reward is None:
            reward = self._rewards_by_name[name] = load_reward(name)
            if self._policy is not None:
                reward.bind_policy(self._policy)
        return reward


def schemas_of(trajectory: Trajectory) -> Sequence[dict[str, Any]]:
    """Return the schemas of the agent's initial tools, in the OpenAI function-call shape.

    Raises: UnknownNameError if they must be read from an environment that is not registered here.
    """
    if trajectory.tools is not None:
        return trajectory.tools
    return [tool.shown_schema() for tool in prototype(trajectory.task.environment).tools.values()]
