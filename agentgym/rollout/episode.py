"""One episode, from a fresh environment to its judged outcome; every failure is attributed to the agent or to us.

A mistake of the agent becomes a result, or uses up a budget that ends the episode, and is scored. A failure of the
infrastructure (sandbox, policy server, judge, a bug in a tool) is retried, from a checkpoint of the environment if
there is one. When no retry is left, the episode is marked failed: it is recorded, but never trained on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from agentgym.environment import EnvironmentWrapper
from agentgym.errors import LedgerError, LimitUnenforceable, RequestsRefused, RewardError
from agentgym.messages import StopReason
from agentgym.policy.contract import Policy, Request, Sampling
from agentgym.rollout.budgets import BudgetUsage
from agentgym.rollout.environment_handle import EnvironmentHandle
from agentgym.rollout.episodes import EpisodeConfig, EpisodeJob
from agentgym.rollout.failures import Retries
from agentgym.rollout.play_loop import PlayLoop
from agentgym.rollout.prompt import Prompt
from agentgym.rollout.replay import ReplayPolicy
from agentgym.task.definition import Task
from agentgym.trajectory import PromptAddition, Provenance
from agentgym.trajectory.record import Trajectory

NEVER_RETRIED = (RewardError, RequestsRefused, LimitUnenforceable)
"""Failures that a retry would not avoid."""


class Episode:
    """Plays one episode into a trajectory, and retries infrastructure failures while retries are left.

    Use once: `await Episode(config, policy, trajectory).play()`.

    Attributes:
        failure: the error that failed the episode, once its stop reason says so.
        make_loop: makes the PlayLoop; a class or a function.
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
        """The current activity: "running the tool 'add' in turn 2"."""
        return self._retries.activity

    async def play(self) -> Trajectory:
        """Play to the end. The environment is always closed, even on cancellation.

        Raises: LedgerError if a turn cannot be stored; asyncio.CancelledError, with no stop reason recorded.
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
                    if isinstance(error, NEVER_RETRIED) or not self._retries.take(error):
                        self._fail(error)
                        break
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        trajectory.stop_reason = None
                        raise
                    self._fail(
                        RuntimeError(f"a task inside the episode was cancelled, although the episode was not: {error}")
                    )
                    break
        finally:
            await self._close()
        if trajectory.turns:
            trajectory.turns[-1].observation_ids = []  # the policy never read the last results
        trajectory.duration_s = now() - started
        return trajectory

    def _make_environment(self) -> EnvironmentHandle:
        """Make a fresh environment for a new try, and clear the record."""
        trajectory, config = self.trajectory, self._config
        trajectory.turns, trajectory.further_rows, trajectory.prompt_ids = [], [], []
        trajectory.outcome, trajectory.stop_reason = {}, None
        if config.ledger is not None:
            config.ledger.begin(trajectory)
        self._retries.doing = ("making the environment",)
        environment = EnvironmentHandle(
            lambda: config.make_environment(trajectory.task),
            checkpoints=self._retries.remaining > 0 or config.checkpoints is not None,
            state_keys=config.state_keys,
        )
        environment_class = type(EnvironmentWrapper.unwrap(environment.current))
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
        environment.note_sandboxes(self.trajectory.provenance)  # includes those opened since the reset
        if (close_error := await environment.close()) is not None:
            self.trajectory.provenance.close_error = close_error


@dataclass(frozen=True, slots=True)
class EpisodeFactory:
    """Sets up the episodes of a run, each with its policy and provenance.

    Attributes:
        policy: the policy that plays, or a function from a task to its policy.
        provenance: the provenance shared by all episodes.
        prompt: the texts that agents read in addition to their environments' messages.
    """

    policy: Policy | Callable[[Task], Policy]
    config: EpisodeConfig
    provenance: Provenance
    prompt: Prompt

    def policy_for(self, job: EpisodeJob) -> Policy:
        """Return the policy of an episode; for a branch, one that first repeats the turns before the fork."""
        policy = self.policy if isinstance(self.policy, Policy) else self.policy(job.trajectory.task)
        return policy if job.fork is None else ReplayPolicy(job.fork, policy)

    def episode(self, job: EpisodeJob, policy: Policy) -> Episode:
        """Return an episode that is ready to play."""
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

    async def repeat(self, record: Trajectory, policy: Policy) -> None:
        """Let the policy compute the replies of a recorded episode again, beside the episodes being played."""
        config, usage = self.config, BudgetUsage(self.config.budgets)
        prefixes = [list(record.prompt_ids), *(list(row.prompt_ids) for row in record.further_rows)]
        for turn in record.turns:
            limit = max(usage.token_limit(None).tokens, len(turn.token_ids))
            sampling = Sampling(config.temperature, config.top_p, limit, seed=turn.index)
            prefix, episode = prefixes[turn.row], record.id
            request = Request((), (), tuple(prefix), sampling, episode, turn.index, turn.role)
            if turn.token_ids:
                await policy.repeat(request, turn.token_ids)
            prefix += [*turn.token_ids, *turn.observation_ids]
            usage.count(turn, exact=True)
            usage.tokens += len(turn.observation_ids)

    def _additions_for(self, job: EpisodeJob) -> tuple[PromptAddition, ...]:
        """Return the prompt additions of an episode; for a branch, the additions in the original record."""
        if job.fork is not None:
            return job.fork.trajectory.provenance.additions
        additions = self.prompt.additions_for(job.trajectory.task)
        return additions if job.addition is None else (*additions, job.addition)
