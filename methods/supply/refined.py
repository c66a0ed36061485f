"""Let the policy answer again after a critique of its answer, and train on the best of these refinements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from typing_extensions import override

from agentgym import CreditError, EpisodesFailed, JudgeError, Reward, Task, Trajectory, load_reward, prototype
from agentgym.options import Count
from agentgym.reward import validate_feedback
from agentgym.training import Exclusion, TrainingPlan
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest
from agentgym.trajectory import PromptAddition

from .writing import MAX_CHARS, attempt_of


class Refined(GathererWrapper):
    """Replays each episode that did not succeed, with its messages and a critique of them in the prompt.

    The critique is `Reward.feedback`: a judge's own text, which tests failed, or a chat model's remarks (the reward
    `critic`). The `best` refinements of a group replace its worst episodes if their returns are greater, and are
    trained on as if they had answered the task alone. The importance ratio of the loss then compares the probability
    after the task's own prompt with that after the prompt with the critique: the objective `critique_grpo` shapes this
    ratio, and `off_policy` weighs or masks it.

    A group with refinements is not a sample of the policy, so an estimator's bias class is not valid for it.
    Refinements are left out of logged success, and the sampler ignores them; evaluations play no refinements.

    Args:
        best: how many refinements may join a group.
    Source: Critique-GRPO, Zhang et al. 2025, arXiv:2506.03106; written from descriptions. Its released code was read
        only for the ratio (see the objective).
    """

    excludes: ClassVar[tuple[Exclusion, ...]] = (GathererWrapper.background_play, GathererWrapper.group_rewards)

    def __init__(self, inner: Gatherer, *, best: Count = 1) -> None:
        super().__init__(inner)
        self._best = best

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        yield from super().requires(plan)
        yield from missing_feedback(plan, "refined")

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step, and refine its failures. Raises: CreditError if the reward has no feedback."""
        groups = self.inner(step)
        failed = [
            (row, episode)
            for row, group in enumerate(groups)
            for episode in group.trained
            if episode.valid and episode.success_or_reward < 1 and episode.id not in group.replayed
            if not episode.task.is_of_one_step
        ]
        if not failed:
            return groups
        critiques = feedback_on(step, [episode for _, episode in failed], gatherer="refined")
        critiqued = [
            (row, episode.task, prompt_of(episode, critique))
            for (row, episode), critique in zip(failed, critiques, strict=True)
            if critique
        ]
        refinements: dict[int, list[Trajectory]] = {}
        episodes = self._play(step, [task for _, task, _ in critiqued], [text for _, _, text in critiqued])
        for (row, _, _), episode in zip(critiqued, episodes, strict=False):
            refinements.setdefault(row, []).append(episode)
        return [self._joined(group, refinements.get(row, [])) for row, group in enumerate(groups)]

    def _play(self, step: StepRequest, tasks: Sequence[Task], prompts: Sequence[str]) -> list[Trajectory]:
        if not tasks:
            return []
        assistance = [PromptAddition.training_help("critique", text) for text in prompts]
        try:
            return step.play(tasks, f"{step.label}-refined", 1, assistance=assistance)
        except EpisodesFailed:  # only the refinements failed; the step has other episodes
            return []

    def _joined(self, group: GatheredGroup, refinements: Sequence[Trajectory]) -> GatheredGroup:
        """Return the group with its worst episodes replaced by its best refinements."""
        trained, left_out = list(group.trained), list(group.left_out)
        by_return = sorted((t for t in refinements if t.valid), key=lambda t: -t.return_from())
        rows = sorted((row for row, t in enumerate(trained) if t.valid), key=lambda row: trained[row].return_from())
        joining = {}
        for row, refinement in zip(rows, by_return[: self._best], strict=False):
            if refinement.return_from() > trained[row].return_from():
                joining[row] = refinement
        for row, refinement in joining.items():
            left_out.append(trained[row])
            trained[row] = group.without_help(refinement)
        joined = {refinement.id for refinement in joining.values()}
        left_out += [refinement for refinement in refinements if refinement.id not in joined]
        return replace(group, trained=trained, left_out=left_out)


def feedback_on(step: StepRequest, episodes: Sequence[Trajectory], *, gatherer: str) -> list[str]:
    """Return the rewards' feedback on episodes; empty if a critic cannot be reached.

    Args:
        gatherer: name of the caller, for the error.
    Raises: CreditError if a reward has no feedback.
    """
    rewards: dict[str, Reward] = {}

    async def of_episode(episode: Trajectory) -> str:
        reward = _reward_of(step, episode.task, rewards, gatherer)
        try:
            return await validate_feedback(reward.feedback(episode), reward)
        except JudgeError:  # the step continues without feedback
            return ""

    async def of_all() -> list[str]:
        return await asyncio.gather(*map(of_episode, episodes))

    return step.rollouts.finish(of_all())


def prompt_of(episode: Trajectory, critique: str) -> str:
    """Return the prompt of a refinement: what the agent wrote and called before, and the critique."""
    return (
        f"An earlier attempt of yours:\n{attempt_of(episode)}\n\nWhat is to be said of it:\n{critique[:MAX_CHARS]}\n\n"
        "Do it better."
    )


def _reward_of(step: StepRequest, task: Task, known: dict[str, Reward], gatherer: str) -> Reward:
    """Return the reward that judges a task. Raises: CreditError if the reward has no feedback."""
    if task.environment not in known:
        reward = judge_of(step.rollouts.reward, task.environment)
        if reward is None or not reward.has_stage("feedback"):
            raise CreditError(_NO_FEEDBACK.format(gatherer, type(reward).__name__, task.environment, gatherer))
        known[task.environment] = reward
    return known[task.environment]


def missing_feedback(plan: TrainingPlan, gatherer: str) -> Iterator[str]:
    """Yield a sentence for each environment of a run whose judge has no feedback.

    Args:
        gatherer: name of the caller.
    """
    for environment in sorted({task.environment for task in plan.task_set["train"]}):
        reward = judge_of(plan.reward, environment)
        if reward is None or not reward.has_stage("feedback"):
            yield _NO_FEEDBACK.format(gatherer, type(reward).__name__, environment, gatherer)


def judge_of(reward: Reward | str | None, environment: str) -> Reward | None:
    """Return the reward of a run, or else its environment's reward."""
    judge = prototype(environment).reward if reward is None else reward
    return load_reward(judge) if isinstance(judge, str) else judge


_NO_FEEDBACK = (
    "{}: {}, which judges {}, has no `feedback`. Add one that has, such as [reward] also = ['critic'], or take `{}` "
    "out of train.gather."
)
