"""The recipe's [evaluate]: measurement on held-out tasks."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from agentgym.evaluation.search import make_search
from agentgym.options import Count, Section
from agentgym.training.recipe.episode_section import parse_hooks


class EvaluateSection(Section):
    """Measurement on the held-out split, before and after training."""

    tasks: Count | None = None
    """How many tasks are measured, the same ones each time. By default all are."""
    group_size: Count = 1
    """How many episodes of each task are played."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """The sampling temperature. 0 takes the likeliest token."""
    control: dict[str, Any] = {}
    """Task parameters to override in a third measurement of the trained policy: the same questions and truth, but tools
    that answer from another environment, for example `{seed = 1}`. A task solved there was guessed."""
    stratum: str | None = None
    """The tag of the tasks that the headline figure covers. The tables show all tasks."""
    zero_shot: bool = False
    """Measure the model of policy.path also before its warm start."""
    search: str = ""
    """A search over the turns of each episode, such as "best_first(nodes=200)"; see docs/stages.md. Its cost is
    recorded."""
    max_turns: Count | None = None
    """The turns of an episode in validations and evaluations. By default they are those of [episode]."""
    max_turn_tokens: Count | None = None
    """The tokens of one message in validations and evaluations. By default they are those of [episode]."""
    stop_if: list[str] = []
    """Rules that end hopeless episodes of validations and evaluations early, written as in [episode]. By default there
    are no rules, even if training has some."""

    @field_validator("stop_if")
    @classmethod
    def _known_rules(cls, texts: list[str]) -> list[str]:
        parse_hooks(texts)
        return texts

    @model_validator(mode="after")
    def _honest_search(self) -> EvaluateSection:
        if self.search:
            make_search(self.search).check_evaluation()
        return self
