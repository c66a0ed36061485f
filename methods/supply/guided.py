"""Replay groups without any success with a hint in the prompt, of which each replay shows a larger part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Literal

from typing_extensions import override

from agentgym import EpisodesFailed, Task, TaskError, TaskSet, Trajectory
from agentgym.options import Count, Share
from agentgym.training import TrainingPlan
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest
from agentgym.trajectory import PromptAddition

from .refined import feedback_on, missing_feedback


class Guided(GathererWrapper):
    """Replays a group whose episodes all fail, with the first part of `Task.hints` in its prompt, longer each time.

    So a task beyond the policy's ability has a gradient. All episodes of a group are shown the same part, so advantages
    never compare episodes with different hints; `provenance.assistance` records the share. If the longest part does not
    help either, the group without a hint stays. Tasks without hints are played unchanged.

    Within a hinted group an estimator's bias class holds for the task with its hint, which is another task: what is
    learnt helps without the hint only as far as it transfers. Hard tasks are played more often than easy ones. Hinted
    episodes are left out of logged success, and the sampler ignores them; measurements never show hints.

    With `source="feedback"` the hint is the reward's feedback on the group's best episode, such as a failing test
    (`hidden_tests`) or the words of a model (`critic`), shown completely at once.

    Args:
        steps: how many parts, each longer than the one before, are tried. most: the share of the hints in the longest
            part; 0 shows none.
        strip: train on the prompt without the hint. The policy then learns to do without it at once. The importance
            ratio then compares the probability after the prompt without the hint with that after the prompt with it:
            the objective `critique_grpo` shapes this ratio, `off_policy` weighs or masks it.
        source: "hints" of the task, or "feedback" of its reward.
    Source: GHPO, Liu et al. 2025, arXiv:2507.10628: hints for tasks that are too hard, in stages. Written from
        descriptions, not checked against its code; the shares 1/4, 1/2, 3/4 are reported by third parties. Guidance
        from failing tests: Agent-RLVR, Da et al. 2025, arXiv:2506.11425, from descriptions; it also has a model write a
        plan.
    """

    def __init__(
        self,
        inner: Gatherer,
        *,
        steps: Count = 3,
        most: Share = 0.75,
        strip: bool = False,
        source: Literal["hints", "feedback"] = "hints",
    ) -> None:
        super().__init__(inner)
        self._steps, self._most, self._strip, self._source = steps, most, strip, source

    @override
    def read_tasks(self, task_set: TaskSet) -> None:
        # Check that some training task has hints, and each that has some has a truth.
        if self._source == "feedback":
            return
        tasks = [task for task in task_set["train"] if task.hints]
        if not tasks:
            raise TaskError(
                f"guided: no training task of {task_set.name} has hints. Give tasks `hints`, which are the steps of a "
                "solution, or remove `guided` from train.gather."
            )
        if untrue := [task.id for task in tasks if task.truth is None]:
            raise TaskError(
                f"guided: {untrue[0]!r} of {task_set.name} has hints, but no truth that they could be a part of. Give "
                "the task the `truth` that judges it."
            )

    @override
    def requires(self, plan: TrainingPlan) -> Iterator[str]:
        yield from super().requires(plan)
        if self._source == "feedback":
            yield from missing_feedback(plan, "guided")

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step, and replay its failed groups with hints. Raises: CreditError if a reward has no feedback."""
        groups = self.inner(step)
        failed = [row for row, group in enumerate(groups) if group.fails_whole]
        if self._source == "feedback":
            self._help(step, groups, self._feedback(step, groups, failed), "feedback")
            return groups
        texts: dict[int, str] = {}
        for number in range(1, self._steps + 1):
            share, longer = self._most * number / self._steps, {}
            for row in failed:
                if (text := hint_of(groups[row].trained[0].task, share)) != texts.get(row, ""):
                    texts[row] = text
                    longer[row] = PromptAddition.training_help("hint", text, share)
            solved = self._help(step, groups, longer, f"hint{number}")
            failed = [row for row in failed if row not in solved]
        return groups

    @staticmethod
    def _feedback(
        step: StepRequest, groups: Sequence[GatheredGroup], failed: Sequence[int]
    ) -> dict[int, PromptAddition]:
        """Return the reward's feedback on the best episode of each failed group, keyed by row."""
        best = [max((t for t in groups[row].trained if t.valid), key=Trajectory.return_from) for row in failed]
        texts = feedback_on(step, best, gatherer="guided") if best else []
        return {
            row: PromptAddition.training_help("feedback", f"Hint:\n{text}")
            for row, text in zip(failed, texts, strict=True)
            if text
        }

    def _help(
        self, step: StepRequest, groups: list[GatheredGroup], assistance: Mapping[int, PromptAddition], name: str
    ) -> set[int]:
        """Replay groups, given by row, with help. Returns: the rows of the groups that it improved, now replaced."""
        if not assistance:
            return set()
        try:
            episodes = step.play(
                [groups[row].trained[0].task for row in assistance],
                f"{step.label}-{name}",
                step.group_size,
                assistance=[helped for helped in assistance.values() for _ in range(step.group_size)],
            )
        except EpisodesFailed:  # all hinted episodes failed, but those without a hint were played
            return set()
        solved = set()
        for row, group in zip(assistance, GatheredGroup.split(episodes, step.group_size), strict=True):
            if group.fails_whole or not group.returns:
                groups[row] = replace(groups[row], left_out=[*groups[row].left_out, *group.episodes])
            else:
                groups[row] = self._in_place_of(groups[row], group)
                solved.add(row)
        return solved

    def _in_place_of(self, plain: GatheredGroup, helped: GatheredGroup) -> GatheredGroup:
        trained = helped.trained
        if self._strip:
            trained = [plain.without_help(episode) for episode in trained]
        return GatheredGroup(trained, plain.episodes)


def hint_of(task: Task, share: float) -> str:
    """Return this share of a task's hints from the first on, rounded up; if there is one hint, this share of its words.

    Empty for a share of 0.
    """
    parts, joint = (list(task.hints), "\n") if len(task.hints) > 1 else (" ".join(task.hints).split(), " ")
    chosen = parts[: ceil(share * len(parts))]
    return f"Hint:\n{joint.join(chosen)}" if chosen else ""
