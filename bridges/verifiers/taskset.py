"""Our task sets for verifiers: a taskset and the harness that plays it, for your own module to export.

Each rollout is an ordinary episode of ours. Its policy is verifiers' model, its judge is our reward.
Source: `verifiers.v1` of verifiers 0.4.0, whose harnesses may run in the verifiers process if every model call goes
through the rollout's endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

from agentgym import (
    AgentGymError,
    Budgets,
    EpisodeManager,
    PolicyError,
    PolicyLeft,
    RolloutConfig,
    Task,
    TaskError,
    Trajectory,
    load_task_set,
)
from agentgym.policy import JsonEndpoint, Reply, Request, RetryPolicy

from ..chat_api import ChatApiPolicy

__all__ = ["AgentgymEnv", "AgentgymHarness", "AgentgymTaskset"]


class AgentgymConfig(vf.TasksetConfig):
    """The tasks to play, and the settings of the episodes.

    Attributes:
        tasks: a task set and a split, `text/sokoban-v1:train`, or a file of tasks; without a split: train.
        reward: the reward's registered name; by default the environment's. `backend`: makes the sandboxes of the tools.
        seed: seeds the environments' resets, together with each task's id; rollouts of one task begin alike.
        max_turns, time_s: limits of an episode; verifiers' own limits apply too.
    """

    tasks: str = ""
    reward: str | None = None
    backend: str | None = None
    seed: int = 0
    max_turns: int = Field(16, gt=0)
    time_s: float = Field(3600.0, gt=0)


class AgentgymData(vf.TaskData):
    """A task as verifiers records it: what to play, without the truth."""

    play: AgentgymConfig
    canary: str = ""


class AgentgymState(vf.State):
    """The verdict of our judge."""

    outcome: dict[str, float] = Field(default_factory=dict)
    earned: float = 0.0


class AgentgymTask(vf.Task[AgentgymData, AgentgymState]):
    """A task that our reward judges when the episode has ended."""

    @vf.reward
    async def episode_return(self, trace: Any) -> float:
        """Return the weighted sum of the components of all turns and of the outcome."""
        return float(trace.state.earned)

    @vf.metric
    async def outcome(self, trace: Any) -> dict[str, float]:
        """Return the components of the outcome, `success` among them."""
        return dict(trace.state.outcome)


class AgentgymTaskset(vf.Taskset[AgentgymTask, AgentgymConfig]):
    """One split of one of our task sets."""

    def load(self) -> Iterator[AgentgymTask]:
        """Yield the tasks. Raises: TaskError for a split without tasks, or a name that is not a task set."""
        canary, tasks = _tasks(self.config.tasks)
        for task in tasks.values():
            prompt = "\n\n".join(message.text for message in task.opening())
            yield AgentgymTask(AgentgymData(id=task.id, prompt=prompt, play=self.config, canary=canary))


class AgentgymHarnessConfig(vf.HarnessConfig):
    """Configuration without options."""


class AgentgymHarness(vf.Harness[AgentgymHarnessConfig]):
    """Plays a task of `AgentgymTaskset` in the verifiers process, with our loop, environment and judge."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False  # no code runs outside of our sandboxes
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
    ) -> Any:
        """Play the episode to its end. Raises: AgentGymError if the infrastructure failed, not the agent."""
        trajectory = await _play(data, _Model(endpoint, secret, ctx.model, trace), trace.id)
        if trajectory.error is not None:
            raise AgentGymError(f"The episode failed, so it has no reward: {trajectory.error}")
        trace.state.outcome, trace.state.earned = dict(trajectory.outcome), trajectory.return_from()
        trace.info["agentgym"] = {
            "task": trajectory.task.id,
            "stop_reason": str(trajectory.stop_reason),
            "turn_rewards": [dict(turn.rewards) for turn in trajectory.turns],
        }
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class AgentgymEnvConfig(vf.EnvConfig):
    """Lets the only agent play in the verifiers process: tools that need isolation run in our sandboxes."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class AgentgymEnv(vf.Env[AgentgymEnvConfig]):
    """An environment with one agent and one task of `AgentgymTaskset`."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play the task once."""
        await agents.agent.run(task)


class _Model(ChatApiPolicy):
    """The model of a rollout, reached through its endpoint. It counts as gone once verifiers stops the rollout."""

    name = "verifiers"

    def __init__(self, endpoint: str, secret: str, model: str, trace: Any) -> None:
        super().__init__(endpoint, model, omit=("temperature", "top_p", "max_tokens", "seed"))  # verifiers sets these
        headers = {"Authorization": f"Bearer {secret}"}
        self._endpoint = JsonEndpoint(endpoint, headers=headers, retry_policy=RetryPolicy(attempts=3))
        self._trace = trace

    async def generate(self, request: Request) -> Reply:
        """Ask the model. Raises: PolicyError; PolicyLeft for a rollout that is over."""
        try:
            return await super().generate(request)
        except PolicyError as error:
            if self._trace.stop_condition is not None:
                raise PolicyLeft(f"verifiers stopped the rollout: {self._trace.stop_condition}.") from error
            raise


async def _play(data: Any, model: _Model, label: str) -> Trajectory:
    play = data.play
    task = _tasks(play.tasks)[1][data.id]
    budgets = Budgets(max_turns=play.max_turns, max_calls=16 * play.max_turns, time_s=play.time_s, infra_retries=0)
    config = RolloutConfig(
        reward=play.reward,
        backend=play.backend,
        seed=play.seed,
        budgets=budgets,
        instruction=data.system_prompt or "",
    )
    try:
        [trajectory] = await EpisodeManager(model, config, label=label).collect([task])
    finally:
        await model.close()
    return trajectory


@cache
def _tasks(text: str) -> tuple[str, dict[str, Task]]:
    """Return the canary of the task set that the config names, and its tasks by id, in order.

    Raises: TaskError for a split without tasks, or an unknown name.
    """
    name, _, split = text.partition(":")
    if not name:
        raise TaskError("The taskset's config names no tasks. Set --env.taskset.tasks, such as text/sokoban-v1:train.")
    task_set = load_task_set(name)
    tasks = task_set[split or "train"]
    if not tasks:
        raise TaskError(f"{text} has no tasks.")
    return task_set.canary, {task.id: task for task in tasks}
