"""One episode, from a fresh environment to its judged outcome, with every failure assigned to its cause.

What the agent does wrong becomes a result, or a budget that ends the episode, and is scored. What the infrastructure
does wrong (sandbox, policy server, judge, a bug in a tool) is retried, from a checkpoint of the environment where
there is one; when no retry is left, the episode is marked failed: it is recorded, and never trained on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentgym.environment import unwrapped
from agentgym.errors import LedgerError, RewardError
from agentgym.messages import StopReason
from agentgym.policy.contract import Policy
from agentgym.rollout.environment_handle import EnvironmentHandle
from agentgym.rollout.episodes import EpisodeConfig, EpisodeJob
from agentgym.rollout.failures import Retries
from agentgym.rollout.play_loop import PlayLoop
from agentgym.rollout.prompt import Prompt
from agentgym.rollout.replay import ReplayPolicy
from agentgym.task import Task
from agentgym.trajectory import PromptAddition, Provenance, Trajectory


class Episode:
    """Plays one episode into a trajectory, trying again where the infrastructure failed and a retry is left.

    Used once: `await Episode(config, policy, trajectory).play()`.

    Attributes:
        failure: what failed it, once its stop reason says that it failed. make_loop: a PlayLoop, or a class of it.
    """

    def __init__(self, config: EpisodeConfig, policy: Policy, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self._config, self._policy = config, policy
        self._retries = Retries(trajectory, config.budgets.infra_retries)
        self._environment: EnvironmentHandle | None = None
        self.failure: Exception | None = None
        self.make_loop: Callable[..., PlayLoop] = PlayLoop

    @property
    def activity(self) -> str:
        """What is being done now: "running the tool 'add' in turn 2"."""
        return self._retries.activity

    async def play(self) -> Trajectory:
        """Play to the end. The environment is closed whatever happens, also on cancellation.

        Raises: LedgerError when a turn cannot be kept; asyncio.CancelledError, with no stop reason recorded.
        """
        trajectory, now = self.trajectory, asyncio.get_running_loop().time
        started = now()
        try:
            while True:
                try:
                    await self._close()
                    environment = self._environment = self._make_environment()
                    loop = self.make_loop(self._config, self._policy, trajectory, environment, self._retries)
                    trajectory.stop_reason = await loop.play()
                    await loop.conclude()
                    break
                except LedgerError:
                    raise
                except Exception as error:  # noqa: BLE001  whatever it is, it is not the agent's fault
                    if isinstance(error, RewardError) or not self._retries.take(error):
                        self._fail(error)
                        break
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        trajectory.stop_reason = None
                        raise
                    self._fail(RuntimeError(f"something inside was cancelled, though the episode was not: {error}"))
                    break
        finally:
            await self._close()
        if trajectory.turns:
            trajectory.turns[-1].observation_ids = []  # the policy never read what came back last
        trajectory.duration_s = now() - started
        return trajectory

    def _make_environment(self) -> EnvironmentHandle:
        """Make a fresh environment for a try, which begins the record anew."""
        trajectory, config = self.trajectory, self._config
        trajectory.turns, trajectory.further_rows, trajectory.prompt_ids = [], [], []
        trajectory.outcome, trajectory.stop_reason = {}, None
        if config.ledger is not None:
            config.ledger.begin(trajectory)
        self._retries.activity = "making the environment"
        environment = EnvironmentHandle(
            lambda: config.make_environment(trajectory.task),
            checkpoints=self._retries.remaining > 0 or config.checkpoints is not None,
            state_keys=config.state_keys,
        )
        environment_class = type(unwrapped(environment.current))
        trajectory.provenance.environment = f"{environment_class.__module__}.{environment_class.__qualname__}"
        return environment

    def _fail(self, error: Exception) -> None:
        self.trajectory.stop_reason = StopReason.INFRA_ERROR
        self.trajectory.outcome = {}
        self.trajectory.error = self._retries.describe(error)
        self.failure = error

    async def _close(self) -> None:
        if (environment := self._environment) is None:
            return
        self._environment = None
        if digests := environment.current.sandboxes.image_digests:  # of sandboxes opened since the reset too
            self.trajectory.provenance.image_digests = digests
        if (close_error := await environment.close()) is not None:
            self.trajectory.provenance.close_error = close_error


@dataclass(frozen=True, slots=True)
class EpisodeFactory:
    """Sets up the episodes of a run: who plays each, and what its record says of its making.

    Attributes:
        policy: who plays, or a function from a task to the policy that plays it.
        provenance: what all episodes have in common.
        prompt: what the agents of this run read beside the words of their environments.
    """

    policy: Policy | Callable[[Task], Policy]
    config: EpisodeConfig
    provenance: Provenance
    prompt: Prompt

    def policy_for(self, job: EpisodeJob) -> Policy:
        """Who plays an episode; of a branch, a policy that repeats the turns before the fork."""
        policy = self.policy if isinstance(self.policy, Policy) else self.policy(job.trajectory.task)
        return policy if job.fork is None else ReplayPolicy(job.fork, policy)

    def episode(self, job: EpisodeJob, policy: Policy) -> Episode:
        """Make an episode that is ready to be played."""
        config, fork = self.config, job.fork
        common = self.provenance
        job.trajectory.provenance = Provenance(
            agentgym=common.agentgym,
            seed=common.seed,
            temperature=common.temperature,
            top_p=common.top_p,
            max_turn_tokens=common.max_turn_tokens,
            hooks=common.hooks,
            additions=self._additions_for(job),
            policy=policy.name,
        )
        if fork is not None:
            job.trajectory.provenance.branch = fork.point
            config = replace(config, fork=fork)
        return Episode(config, policy, job.trajectory)

    def _additions_for(self, job: EpisodeJob) -> tuple[PromptAddition, ...]:
        """Return what is added to the prompt of an episode; of a branch, what was added in its record."""
        if job.fork is not None:
            return job.fork.trajectory.provenance.additions
        additions = self.prompt.additions_for(job.trajectory.task)
        return additions if job.addition is None else (*additions, job.addition)
