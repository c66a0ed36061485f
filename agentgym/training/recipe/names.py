"""Checks that every name in a recipe is registered, and that [train.failures] has known kinds and treatments."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import registry
from agentgym.credit import CreditWarning
from agentgym.credit.named_parts import parse_part
from agentgym.errors import CreditError, RecipeError, UnknownNameError
from agentgym.evaluation.failures import FAILURES, TREATMENTS
from agentgym.options import Registered, Section
from agentgym.training.recipe.tasks_section import TasksSection
from agentgym.training.recipe.train_section import TrainSection


def check_names(
    where: str, sections: Mapping[str, Section | Sequence[Section]], *, tasks: TasksSection, train: TrainSection
) -> None:
    """Check every name in a recipe whose field is marked as `Registered`, and the names of task sets and estimators.

    Args:
        where: begins each message. sections: the recipe's sections by key, some of them lists.
    Raises: RecipeError.
    """
    check_treatments(train.failures)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CreditWarning)  # given when the run starts
            train.make_estimator()
    except (UnknownNameError, CreditError) as error:
        raise RecipeError(f"{where}: train.estimator = {train.estimator!r} cannot be used. {error}") from error
    for key, kind, text in (*_marked(sections), *_task_sets(where, tasks)):
        try:
            if (name := text if kind == "task_sets" else parse_part(text).name) not in registry.names(kind):
                registry.load(kind, name)
        except (UnknownNameError, CreditError) as error:
            raise RecipeError(f"{where}: {key} = {text!r} cannot be used. {error}") from error


def _marked(sections: Mapping[str, Section | Sequence[Section]]) -> Iterator[tuple[str, Any, str]]:
    """Yield key, kind and text of each name that is not a default, from fields that are marked as `Registered`."""
    for key, given in sections.items():
        for section in [given] if isinstance(given, Section) else given:
            for name, field in type(section).model_fields.items():
                value = getattr(section, name)
                for mark in field.metadata:
                    if isinstance(mark, Registered) and value is not None and value != field.default:
                        for text in [value] if isinstance(value, str) else value:
                            yield f"{key}.{name}", mark.kind, text


def _task_sets(where: str, tasks: TasksSection) -> Iterator[tuple[str, Any, str]]:
    """Yield key, kind and name of each registered task set of a recipe.

    Sets given by a path are checked here: the file must exist.
    """
    for name, key in tasks.names():
        if not name.endswith((".jsonl", ".json")):
            yield key, "task_sets", name
        elif not Path(name).is_file():
            raise RecipeError(f"{where}: {key} = {name!r}: this file does not exist. Check the path.")


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
