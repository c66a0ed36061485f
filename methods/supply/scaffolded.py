"""Show part of a rubric in the prompts of some episodes of a group, and less of it as training progresses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from typing_extensions import override

from agentgym import Task, TaskError, TaskSet
from agentgym.options import Share, Weight
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest
from agentgym.trajectory import PromptAddition


class Scaffolded(GathererWrapper):
    """Shows the first lines of the task's rubric in the prompt: all in the first episode of a group, none in the last.

    The shown share of the lines is lambda_step x lambda_group: lambda_group falls evenly from 1 to 0 over the episodes
    of a group, and lambda_step = 1 / (1 + exp(slope (t - middle))) falls with the completed share t of the training.
    The lines are the criteria of `truth["rubric"]`, by which `rubric_judge` judges, or else `Task.hints`. The judge
    does not know which episodes saw them. Tasks without either are played unchanged.

    Episodes of a group have different prompts but their returns are compared, so an estimator's bias class is not
    valid. Episodes with lines are left out of logged success; measurements never show any.

    Args:
        slope: how fast the shown share falls. middle: the share of the training at which half of it is left.
        strip: train on the prompt without the lines, as with `guided`.
    Source: RuscaRL, Zhou et al. 2025, arXiv:2508.16949; the two factors from descriptions, not checked against its
        code.
    """

    def __init__(self, inner: Gatherer, *, slope: Weight = 8.0, middle: Share = 0.5, strip: bool = False) -> None:
        super().__init__(inner)
        self._slope, self._middle, self._strip = slope, middle, strip

    @override
    def read_tasks(self, task_set: TaskSet) -> None:
        # Check that some training task has a rubric or hints.
        if not any(map(lines_of, task_set["train"])):
            raise TaskError(
                f"scaffolded: no training task of {task_set.name} has truth['rubric'] or hints. Give tasks one of "
                "them, or remove `scaffolded` from train.gather."
            )

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step with scaffolds."""
        done = 0.0 if step.progress is None else step.progress
        step_share = 1 / (1 + math.exp(self._slope * (done - self._middle)))

        def assist(task: Task, row: int, group_size: int) -> PromptAddition | None:
            lines = lines_of(task)
            chosen = lines[: round(step_share * (group_size - 1 - row) / max(1, group_size - 1) * len(lines))]
            if not chosen:
                return None
            text = "A good answer meets these criteria:\n" + "\n".join(f"- {line}" for line in chosen)
            return PromptAddition.training_help("rubric", text, len(chosen) / len(lines))

        groups = self.inner(replace(step, assist=assist))
        if not self._strip:
            return groups
        return [
            replace(
                group,
                trained=[group.without_help(t) if t.provenance.assistance is not None else t for t in group.trained],
            )
            for group in groups
        ]


def lines_of(task: Task) -> list[str]:
    """Return the criteria of a task's rubric, or else its hints."""
    rubric = task.truth.get("rubric") if isinstance(task.truth, Mapping) else None
    return [str(item["criterion"]) for item in rubric] if rubric else list(task.hints)
