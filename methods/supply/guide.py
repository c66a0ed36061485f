"""Groups in which another policy plays the first turns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from typing_extensions import override

from agentgym import AgentGymError, CreditError, Policy, ScriptedPolicy, Task, TaskError, TaskSet, load, seed_of
from agentgym.options import Count
from agentgym.training.gatherers import GatheredGroup, Gatherer, GathererWrapper, StepRequest
from agentgym.trajectory import PromptAddition

from .guided_policy import GuidedPolicy

SCRIPTED = ("oracle", "imperfect_oracle")


class Guide(GathererWrapper):
    """Lets a guide take the first k turns of a group's episodes, k drawn from 0 to `turns`; then the policy continues.

    So the policy meets states that it does not reach alone. k is drawn for each group before it is played, and is the
    same for all its episodes. The guide's turns have no loss, and `Turn.policy` names it. From the guide's last turn
    on, the group is a sample of the policy, so an estimator's bias class holds for the policy's turns. The group does
    not teach how to reach the state in which the guide stops. Its episodes are left out of logged success, and the
    sampler ignores them.

    Args:
        player: "oracle" or "imperfect_oracle" of the task set, or a registered policy such as "chat_api".
        options: of a registered policy, for example {'base_url': ..., 'model': ...}.
        turns: the largest k.
    Source: RLGF, Chang et al. 2023, arXiv:2306.11816: a guide's turns, then the learner's (PPO++). Written from
        descriptions, not checked against its code.
    """

    def __init__(
        self, inner: Gatherer, *, player: str = "oracle", options: Mapping[str, Any] | None = None, turns: Count = 4
    ) -> None:
        super().__init__(inner)
        self._player, self._turns = player, turns
        self._script: Callable[[Task], Any] | None = None
        self._guide: Policy | None = None
        if player not in SCRIPTED:
            try:
                self._guide = load("policies", player)(**(options or {}))
            except TypeError as error:
                raise CreditError(f"guide: the policy {player!r} does not accept these options: {error}") from error

    @override
    def read_tasks(self, task_set: TaskSet) -> None:
        # Check that the set has the player.
        if self._player not in SCRIPTED:
            return
        self._script = getattr(task_set, self._player)
        if self._script is None:
            raise TaskError(
                f"guide: {task_set.name} has no {self._player}. Give the TaskSet one, or name another player: "
                f"{', '.join(SCRIPTED)}, or a registered policy."
            )

    def __call__(self, step: StepRequest) -> list[GatheredGroup]:
        """Gather a step; the groups that the guide began come first."""
        draws = random.Random(seed_of("guide", step.label))
        guided_turns: dict[str, int] = {}
        begun: list[Task] = []
        rest: list[Task] = []
        for task in step.tasks:
            turns = draws.randint(0, self._turns)
            if turns and task.id not in guided_turns:
                guided_turns[task.id] = turns
                begun.append(task)
            else:  # groups without a guide, or a second group of the same task
                rest.append(task)
        groups = self._begin(step, begun, guided_turns)
        return [*groups, *(self.inner(replace(step, tasks=rest)) if rest else ())]

    def _begin(self, step: StepRequest, tasks: list[Task], guided_turns: Mapping[str, int]) -> list[GatheredGroup]:
        if not tasks:
            return []
        step.rollouts.finish(step.policy.refresh())
        policies = _PolicyByTask(step.policy, self._guide_of, guided_turns)
        label, size = f"{step.label}-guide", step.group_size
        assistance = [PromptAddition.training_help("guide")] * (len(tasks) * size)
        episodes = step.play(tasks, label, size, policy=policies, assistance=assistance)
        return [
            replace(
                group,
                untrained_turns={t.id: len([*takewhile(lambda turn: turn.policy, t.turns)]) for t in group.trained},
            )
            for group in GatheredGroup.split(episodes, size)
        ]

    def _guide_of(self, task: Task) -> Policy:
        if self._guide is not None:
            return self._guide
        if self._script is None:
            raise AgentGymError("guide: it has no task set. Call read_tasks(task_set) before the first step.")
        return ScriptedPolicy(self._script(task), name=self._player)


class _PolicyByTask:
    """Chooses, for each task, the policy that plays its episode. To engines it looks like the learner."""

    def __init__(self, learner: Policy, guide_of: Callable[[Task], Policy], turns: Mapping[str, int]) -> None:
        self._learner, self._guide_of, self._turns = learner, guide_of, turns
        self.name, self.renderer = learner.name, learner.renderer
        self.version, self.context_tokens = learner.version, learner.context_tokens

    def __call__(self, task: Task) -> Policy:
        turns = self._turns[task.id]
        return GuidedPolicy(self._learner, self._guide_of(task), lambda request: request.turn < turns)
