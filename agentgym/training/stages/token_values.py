"""Stages that learn token values from stored episodes, or measure the policy guided or reranked by token values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from agentgym.errors import RecipeError
from agentgym.policy.adapters import has_adapter
from agentgym.policy.local import policy_of
from agentgym.policy.logit_hooks.value_networks import (
    AdvantageHead,
    OutcomeHead,
    ValueNetwork,
    load_values,
    save_values,
)
from agentgym.training.model.models import save_model
from agentgym.training.offline.conservative_q import fit_conservative_q, mean_value
from agentgym.training.offline.token_values import Descent, fit_implicit_q, fit_outcomes
from agentgym.training.recipe.stage_options import (
    ConservativeQSection,
    EvaluateGuidedSection,
    EvaluateRerankedSection,
    ImplicitQSection,
    OutcomeHeadSection,
    TokenValuesSection,
)
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import CheckStage, define_stage
from agentgym.training.stages.measure import EVALUATION, BestOf, measure
from agentgym.training.stages.stored_episodes import stored_episodes
from agentgym.training.stored_turns.transitions import ReturnSpec, StoredEpisode
from agentgym.trajectory import Trajectory

if TYPE_CHECKING:
    from agentgym.training.stages.contract import PlannedStage

NAME = "guided"


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

    The episodes have to be of the policy that is guided.
    """
    hidden = learner.model.config.get_text_config().hidden_size
    make = partial(OutcomeHead, hidden=hidden, low=options.low, high=options.high, bins=options.bins)
    return _learn(context, learner, options, make, fit_outcomes)


def _learnt_by(*kinds: str) -> CheckStage:
    """Return a check that a stage's option `values` names an earlier stage of these kinds."""

    def check(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
        known = {before.name: before.kind for before in earlier}
        if known.get(stage.section.values) not in kinds:
            raise RecipeError(
                f"[[stage]] {stage.name!r}: values = {stage.section.values!r} names no stage "
                f"{', '.join(f'`{kind}`' for kind in kinds[:-1])} or `{kinds[-1]}` before it. Stages before it are "
                f"{', '.join(known) or 'none'}."
            )

    return check


@define_stage(options=EvaluateRerankedSection, result=EVALUATION, check=_learnt_by("implicit_q", "conservative_q"))
def evaluate_reranked_stage(context: RunContext, learner: Learner, options: EvaluateRerankedSection) -> Learner:
    """Measures on held-out tasks the one of several episodes whose tokens have the highest mean value."""
    network = load_values(context.earlier_checkpoints[options.values], learner.tokenizer, context.device)
    assert isinstance(network, AdvantageHead)  # both kinds of stage leave one

    def best(group: Sequence[Trajectory]) -> Trajectory:
        valid = [trajectory for trajectory in group if trajectory.valid]
        return max(valid or group[:1], key=lambda trajectory: mean_value(network, trajectory) if valid else 0.0)

    measure(context, context.stage, learner, best_of=BestOf(options.episodes, best))
    return learner


@define_stage(
    options=EvaluateGuidedSection,
    result=EVALUATION,
    check=_learnt_by("implicit_q", "conservative_q", "outcome_head"),
)
def evaluate_guided_stage(context: RunContext, learner: Learner, options: EvaluateGuidedSection) -> Learner:
    """Measures on held-out tasks the policy whose tokens are sampled by values, as [evaluate] says."""
    hook_options = {
        "path": str(context.earlier_checkpoints[options.values]),
        "scale": options.scale,
        "candidates": options.candidates,
    }
    section = context.recipe.policy
    guided = policy_of(
        learner.model,
        learner.processing_class,
        section.call_format,
        section.template_options,
        logit_hook="value_guided",
        logit_hook_options=hook_options,
        lockstep=context.recipe.machine.lockstep,
    )
    guided.name = f"{learner.policy.name} guided by {options.values}"
    try:
        measure(context, context.stage, replace(learner, policy=guided))
    finally:
        context.rollouts.finish(guided.close())
    return learner


def _learn(
    context: RunContext,
    learner: Learner,
    options: TokenValuesSection,
    make: Callable[..., ValueNetwork],
    fit: Callable[..., None],
) -> Learner:
    if has_adapter(learner.model):
        raise RecipeError(
            f"[[stage]] {context.stage!r}: values of tokens are learnt by a copy of the whole model, and this one is "
            "trained through an adapter. Leave policy.lora out."
        )
    phase = context.folder.phase("train")

    def learn() -> None:
        context.folder.forget((phase,), 0)
        stored = [StoredEpisode.of(t, ReturnSpec()) for t in stored_episodes(context, learner, options)]
        network = make(learner.model.base_model).to(learner.model.device)
        descent = Descent(
            steps=options.steps,
            batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            seed=context.recipe.seed,
            on_step=lambda step, loss: context.folder.log(step, phase, **{"values/loss": loss}),
        )
        fit(network, stored, descent)
        save_model(learner.model, learner.processing_class, checkpoint := context.folder.checkpoints / f"{NAME}.model")
        save_values(network, learner.tokenizer, checkpoint)
        checkpoint.rename(context.folder.checkpoints / NAME)

    context.processes.share(learn)
    return learner
