"""Playing in the background, as `train.staleness` or `train.group_quorum` asks for it, and what it does not go with."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from agentgym.training.fit import PlannedPart, TrainingPlan


class BackgroundPlay(PlannedPart):
    """Episodes that are played while the model trains. Gatherers that play episodes exclude it by themselves."""

    @override
    def conflicts(self, plan: TrainingPlan) -> Iterator[str]:
        train, begins = plan.train, f"{plan.train.stream_key} plays episodes in the background:"
        if plan.hardware.sharding is not None:
            yield f"{begins} machine.sharding brings the weights together only when a step is played. Leave it out."
        if train.generation != "transformers":
            yield f"{begins} it needs train.generation = 'transformers'."
        if "branches" in train.make_estimator().requires:
            yield (
                f"{begins} {train.estimator} compares branches, which are grown a step at once. Choose another "
                "estimator."
            )
        if train.adapt is not None:
            yield f"{begins} train.adapt lets another reward judge than validations do. Leave it out."
        if train.group_quorum is not None and plan.has_group_reward:
            yield (
                f"{begins} the reward judges whole groups, and a group_quorum does not wait for them. Leave one of "
                "them out."
            )
