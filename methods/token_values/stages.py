"""Stages that learn token values from stored episodes, or measure the policy guided or reranked by token values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, ClassVar

import torch
from pydantic import Field, model_validator

from agentgym import RecipeError, Trajectory
from agentgym.options import Count, Positive, Section, Share
from agentgym.training.stages import Learner, PlannedStage, ReadsEpisodes, RunContext, define_stage, measure_held_out

from ..stored_turns.transitions import ReturnSpec, StoredEpisode
from .conservative_q import fit_conservative_q, mean_value
from .fitting import Descent, fit_implicit_q, fit_outcomes
from .networks import AdvantageHead, OutcomeHead, ValueNetwork, load_values, save_values

NAME = "guided"


class TokenValuesSection(ReadsEpisodes):
    """How values of tokens are learnt."""

    reads_last_player: ClassVar[bool] = True

    steps: Count = 200
    """How many optimiser steps are taken."""
    batch_size: Count = 16
    """How many episodes a step learns from."""
    learning_rate: Positive = 1e-3
    """The learning rate of the optimiser."""


class ImplicitQSection(TokenValuesSection):
    """Options of `implicit_q`: action values of tokens."""

    expectile: Share = 0.7
    """0.5 values the policy that played; values towards 1 value the best of what it did."""
    gamma: Share = 1.0
    """The discount per token."""
    conservative: Annotated[float, Field(ge=0)] = 0.01
    """The weight of the loss that keeps the values of tokens low that occur in no episode."""
    follow: Share = 0.05
    """How far the slow copy moves towards the values in each step, 0 to 1."""


class ConservativeQSection(TokenValuesSection):
    """Options of `conservative_q`: action values of tokens, bootstrapped from tokens that the policy finds likely.

    The episodes may be the policy's, those of experts, or both.
    """

    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    """A target's maximum is over the smallest set of tokens that holds this much of the policy's probability."""
    gamma: Share = 1.0
    """The discount per token."""
    follow: Share = 0.05
    """How far the slow copy moves towards the values in each step, 0 to 1."""


class OutcomeHeadSection(TokenValuesSection):
    """Options of `outcome_head`: the distribution of the return after each token.

    The episodes must come from the policy that is guided.
    """

    low: float = 0.0
    """The least return."""
    high: float = 1.0
    """The greatest return."""
    bins: Annotated[int, Field(ge=2)] = 11
    """How many returns the distribution covers, including `low` and `high`."""

    @model_validator(mode="after")
    def _ascending(self) -> OutcomeHeadSection:
        if not self.low < self.high:
            raise ValueError(f"low = {self.low} must be below high = {self.high}")
        return self


class EvaluateGuidedSection(Section):
    """Options of `evaluate_guided`: a held-out measurement of the policy when token values guide it."""

    values: str = ""
    """The name of the stage `implicit_q` or `outcome_head` that learnt the values."""
    scale: Annotated[float, Field(ge=0)] = 1.0
    """How strongly the values guide, see the logit hook `value_guided`."""
    candidates: Annotated[int, Field(ge=0)] = 20
    """How many of the likeliest tokens the values choose from, see the logit hook `value_guided`."""


class EvaluateRerankedSection(Section):
    """Options of `evaluate_reranked`: a held-out measurement of the best of several episodes, chosen by values."""

    values: str = ""
    """The name of the stage `conservative_q` or `implicit_q` that learnt the values."""
    episodes: Annotated[int, Field(ge=2)] = 4
    """How many episodes of each task are played. The one whose tokens have the highest mean value counts."""


@define_stage(options=ImplicitQSection, checkpoint=NAME)
def implicit_q_stage(context: RunContext, learner: Learner, options: ImplicitQSection) -> Learner:
    """Learns action values of tokens from stored episodes, as ILQL does. The policy itself is left as it is."""
    settings = {name: getattr(options, name) for name in ("expectile", "gamma", "conservative", "follow")}
    configuration = learner.model.config.get_text_config()
    make = partial(AdvantageHead, hidden=configuration.hidden_size, vocabulary=configuration.vocab_size)
    return _learn(context, learner, options, make, partial(fit_implicit_q, **settings))


@define_stage(options=ConservativeQSection, checkpoint=NAME)
def conservative_q_stage(context: RunContext, learner: Learner, options: ConservativeQSection) -> Learner:
    """Learns action values of tokens from stored episodes, as B-Coder does. The policy itself is left as it is."""
    settings = {name: getattr(options, name) for name in ("top_p", "gamma", "follow")}
    configuration = learner.model.config.get_text_config()
    make = partial(AdvantageHead, hidden=configuration.hidden_size, vocabulary=configuration.vocab_size)

    def behaviour(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = learner.model.eval()(input_ids=ids, attention_mask=mask, use_cache=False).logits
        return logits

    return _learn(context, learner, options, make, partial(fit_conservative_q, behaviour=behaviour, **settings))


@define_stage(options=OutcomeHeadSection, checkpoint=NAME)
def outcome_head_stage(context: RunContext, learner: Learner, options: OutcomeHeadSection) -> Learner:
    """Learns the distribution of the return after each token of stored episodes, as Q# does. The policy is left as is.

    The episodes must come from the policy that is guided.
    """
    hidden = learner.model.config.get_text_config().hidden_size
    make = partial(OutcomeHead, hidden=hidden, low=options.low, high=options.high, bins=options.bins)
    return _learn(context, learner, options, make, fit_outcomes)


def _learnt_by(*kinds: str) -> Callable[[PlannedStage, Sequence[PlannedStage]], None]:
    """Return a check that a stage's option `values` names an earlier stage of these kinds."""

    def check(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
        known = {before.name: before.kind for before in earlier}
        if known.get(stage.section.values) not in kinds:
            raise RecipeError(
                f"[[stage]] {stage.name!r}: values = {stage.section.values!r} must name an earlier stage "
                f"{', '.join(f'`{kind}`' for kind in kinds[:-1])} or `{kinds[-1]}`. The earlier stages are: "
                f"{', '.join(known) or 'none'}."
            )

    return check


@define_stage(
    options=EvaluateRerankedSection, result="evaluation/{name}.json", check=_learnt_by("implicit_q", "conservative_q")
)
def evaluate_reranked_stage(context: RunContext, learner: Learner, options: EvaluateRerankedSection) -> Learner:
    """Measures, on held-out tasks, the episode of several whose tokens have the highest mean value."""
    network = load_values(context.earlier_checkpoints[options.values], learner.tokenizer, context.device)
    assert isinstance(network, AdvantageHead)  # both kinds of stage store one

    def best(group: Sequence[Trajectory]) -> Trajectory:
        valid = [trajectory for trajectory in group if trajectory.valid]
        return max(valid or group[:1], key=lambda trajectory: mean_value(network, trajectory) if valid else 0.0)

    measure_held_out(context, context.stage, learner, group_size=options.episodes, choose=best)
    return learner


@define_stage(
    options=EvaluateGuidedSection,
    result="evaluation/{name}.json",
    check=_learnt_by("implicit_q", "conservative_q", "outcome_head"),
)
def evaluate_guided_stage(context: RunContext, learner: Learner, options: EvaluateGuidedSection) -> Learner:
    """Measures, on held-out tasks and according to [evaluate], the policy whose tokens are sampled by values."""
    hook_options = {
        "path": str(context.earlier_checkpoints[options.values]),
        "scale": options.scale,
        "candidates": options.candidates,
    }
    with context.hooked(learner, "value_guided", hook_options, f"guided by {options.values}") as guided:
        measure_held_out(context, context.stage, guided)
    return learner


def _learn(
    context: RunContext,
    learner: Learner,
    options: TokenValuesSection,
    make: Callable[..., ValueNetwork],
    fit: Callable[..., None],
) -> Learner:
    if context.recipe.policy.lora is not None:
        raise RecipeError(
            f"[[stage]] {context.stage!r}: token values are learnt by a copy of the whole model, but the recipe "
            "trains an adapter. Leave policy.lora out."
        )
    phase = context.folder.phase("train")

    def learn() -> None:
        context.folder.forget((phase,), 0)
        episodes = context.stored_episodes.choose(learner.renderer, options).episodes.values()
        stored = [StoredEpisode.of(episode, ReturnSpec()) for episode in episodes]
        if warning := describe_equal_returns(stored):
            context.console.print(f"{context.stage}: {warning}", style="yellow", markup=False, soft_wrap=True)
        network = make(learner.model.base_model).to(learner.model.device)
        with context.progress_bar(context.stage, options.steps) as advance:

            def log(step: int, loss: float) -> None:
                context.folder.log(step, phase, **{"values/loss": loss})
                advance()

            descent = Descent(
                steps=options.steps,
                batch_size=options.batch_size,
                learning_rate=options.learning_rate,
                seed=context.recipe.seed,
                on_step=log,
            )
            fit(network, stored, descent)
        learner.save(checkpoint := context.folder.checkpoints / f"{NAME}.model")
        save_values(network, learner.tokenizer, checkpoint)
        checkpoint.rename(context.folder.checkpoints / NAME)

    context.processes.share(learn)
    return learner


def describe_equal_returns(episodes: Sequence[StoredEpisode]) -> str:
    """Return a sentence that says what to do if all episodes have the same return, so that no token is better than
    another; else "".
    """
    returns = {round(float(sum(episode.rewards)), 9) for episode in episodes}
    if len(returns) != 1:
        return ""
    return (
        f"all {len(episodes)} stored episodes have the return {returns.pop():g}, so their values tell nothing about "
        "what to do. Learn from episodes that fared differently, such as those of both `oracle` and `imperfect_oracle`."
    )
