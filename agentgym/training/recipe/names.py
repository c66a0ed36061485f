"""Check that every name in a recipe is registered, and that [train.failures] has known kinds and treatments."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym import registry
from agentgym.credit import CreditWarning
from agentgym.credit.named_parts import parse_part
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.evaluation.failures import FAILURES, TREATMENTS
from agentgym.policy.formats.choice import AUTO
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.policy_section import PolicySection
from agentgym.training.recipe.reward_section import RewardSection
from agentgym.training.recipe.stage_section import StageSection
from agentgym.training.recipe.tasks_section import TasksSection
from agentgym.training.recipe.train_section import TrainSection


def check_names(
    where: str,
    *,
    policy: PolicySection,
    reward: RewardSection,
    episode: EpisodeSection,
    tasks: TasksSection,
    stages: Sequence[StageSection],
    train: TrainSection,
) -> None:
    """Check that every name in a recipe's sections is registered. Raises: RecipeError that begins with `where`."""
    check_treatments(train.failures)
    references: list[tuple[registry.Kind, str, str]] = []
    if policy.call_format != AUTO:
        references.append(("call_formats", policy.call_format, "policy.call_format"))
    if policy.logit_hook is not None:
        references.append(("logit_hooks", policy.logit_hook, "policy.logit_hook"))
    for name in reward.names:
        references.append(("rewards", name, "reward.name" if name == reward.name else "reward.also"))
    if episode.backend:
        references.append(("backends", episode.backend, "episode.backend"))
    for name, key in tasks.names():
        if not name.endswith((".jsonl", ".json")):
            references.append(("task_sets", name, key))
        elif not Path(name).is_file():
            raise RecipeError(f"{where}: {key} = {name!r}: this file does not exist. Check the path.")
    references += [("stages", stage.kind, "stage.kind") for stage in stages]
    references += [("loss_terms", name, "train.terms") for name in train.terms]
    try:
        key, value = "estimator", train.estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CreditWarning)  # given when the run starts
            train.make_estimator()
        key, value = "objective", train.objective
        references.append(("objectives", parse_part(value).name, "train.objective"))
        if train.sampler:
            key, value = "sampler", train.sampler
            references.append(("samplers", parse_part(value).name, "train.sampler"))
        for value in train.gather:
            key = "gather"
            references.append(("gatherers", parse_part(value).name, "train.gather"))
    except (UnknownNameError, CreditError) as error:
        raise RecipeError(f"{where}: train.{key} = {value!r} cannot be used. {error}") from error
    for kind, name, key in references:
        if name not in registry.names(kind):
            try:
                registry.load(kind, name)
            except UnknownNameError as error:
                raise RecipeError(f"{where}: {key} = {name!r} cannot be used. {error}") from error


def check_treatments(treatments: Mapping[str, str]) -> None:
    """Check [train.failures].

    Raises: RecipeError for an unknown kind, an unknown treatment, or a treatment that its kind cannot have.
    """
    for kind, treatment in treatments.items():
        if kind not in FAILURES:
            raise RecipeError(
                f"train.failures.{kind}: there is no failure kind {kind!r}. Kinds are: {', '.join(FAILURES)}."
            )
        if treatment not in TREATMENTS:
            raise RecipeError(
                f"train.failures.{kind} = {treatment!r}: there is no such treatment. Treatments are: "
                f"{', '.join(TREATMENTS)}."
            )
        if (kind == "failed") != (treatment == "excluded"):
            raise RecipeError(
                f"train.failures.{kind} = {treatment!r} is not possible: the kind 'failed' is always 'excluded', "
                "because those episodes were not judged, and no other kind can be. Use mask_turn or mask_episode for "
                "other kinds."
            )
        if treatment == "mask_turn" and FAILURES[kind].level == "end":
            raise RecipeError(
                f"train.failures.{kind} = 'mask_turn': a failure of this kind concerns the whole episode, not one "
                "turn. Write 'mask_episode'."
            )
