"""Stages that learn values of tokens from stored episodes, and one that measures the policy as guided by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from agentgym.credit.options import Count, PositiveWeight, Share, Weight, WholeNumber
from agentgym.errors import RecipeError
from agentgym.policy.adapters import has_adapter
from agentgym.policy.local import policy_of
from agentgym.policy.logit_hooks.value_networks import AdvantageHead, OutcomeHead, ValueNetwork, save_values
from agentgym.training.model.models import save_model
from agentgym.training.offline.token_values import fit_implicit_q, fit_outcomes
from agentgym.training.offline.transitions import StoredEpisode
from agentgym.training.signals.return_spec import ReturnSpec
from agentgym.training.stages.context import Learner, RunContext
from agentgym.training.stages.contract import define_stage
from agentgym.training.stages.direct_advantage import check_stored_episodes, stored_episodes
from agentgym.training.stages.measure import measure

if TYPE_CHECKING:
    from agentgym.training.stages.plan import PlannedStage

NAME = "guided"


@define_stage(checkpoint=NAME, check=check_stored_episodes)
def implicit_q_stage(
    context: RunContext,
    learner: Learner,
    *,
    episodes: str = "train-",
    runs: list[str] = [],  # noqa: B006 - options are never changed
    steps: Count = 200,
    batch_size: Count = 16,
    learning_rate: PositiveWeight = 1e-3,
    expectile: Share = 0.7,
    gamma: Share = 1.0,
    conservative: Weight = 0.01,
    follow: Share = 0.05,
) -> Learner:
    """Learns action values of tokens from stored episodes, as ILQL does. The policy itself is left as it is.

    Args:
        episodes, runs: as of `direct_advantage`.
        steps, batch_size, learning_rate, expectile, gamma, conservative, follow: see `fit_implicit_q`.
    """
    options: dict[str, Any] = {"expectile": expectile, "gamma": gamma, "conservative": conservative, "follow": follow}
    fit = partial(fit_implicit_q, steps=steps, batch_size=batch_size, learning_rate=learning_rate, **options)
    configuration = learner.model.config.get_text_config()
    make = partial(AdvantageHead, hidden=configuration.hidden_size, vocabulary=configuration.vocab_size)
    return _learn(context, learner, episodes, runs, make, fit)


@define_stage(checkpoint=NAME, check=check_stored_episodes)
def outcome_head_stage(
    context: RunContext,
    learner: Learner,
    *,
    episodes: str = "train-",
    runs: list[str] = [],  # noqa: B006 - options are never changed
    steps: Count = 200,
    batch_size: Count = 16,
    learning_rate: PositiveWeight = 1e-3,
    low: float = 0.0,
    high: float = 1.0,
    bins: Count = 11,
) -> Learner:
    """Learns the distribution of the return after each token of stored episodes, as Q# does. The policy is left as is.

    Args:
        episodes, runs: as of `direct_advantage`. They have to be of the policy that is guided.
        steps, batch_size, learning_rate: see `fit_outcomes`. low, high, bins: see OutcomeHead.
    """
    if bins < 2 or not low < high:
        raise RecipeError(f"[[stage]] {context.stage!r}: bins = {bins} from {low} to {high}: give two bins or more.")
    fit = partial(fit_outcomes, steps=steps, batch_size=batch_size, learning_rate=learning_rate)
    hidden = learner.model.config.get_text_config().hidden_size
    make = partial(OutcomeHead, hidden=hidden, low=low, high=high, bins=bins)
    return _learn(context, learner, episodes, runs, make, fit)


def _check_guided(stage: PlannedStage, earlier: Sequence[PlannedStage]) -> None:
    named = cast("Mapping[str, Any]", stage.options).get("values", "")
    kinds = {before.name: before.kind for before in earlier}
    if kinds.get(named) not in ("implicit_q", "outcome_head"):
        raise RecipeError(
            f"[[stage]] {stage.name!r}: values = {named!r} names no stage `implicit_q` or `outcome_head` before it. "
            f"Stages before it are {', '.join(kinds) or 'none'}."
        )


@define_stage(check=_check_guided)
def evaluate_guided_stage(
    context: RunContext,
    learner: Learner,
    *,
    values: str = "",
    scale: Weight = 1.0,
    candidates: WholeNumber = 20,
) -> Learner:
    """Measures on held-out tasks the policy whose tokens are sampled by values, as [evaluate] says.

    Args:
        values: name of the stage `implicit_q` or `outcome_head` that learnt them.
        scale, candidates: see the logit hook `value_guided`.
    """
    options = {"path": str(context.earlier_checkpoints[values]), "scale": scale, "candidates": candidates}
    section = context.recipe.policy
    guided = policy_of(
        learner.model,
        learner.processing_class,
        section.call_format,
        section.template_options,
        logit_hook="value_guided",
        logit_hook_options=options,
        lockstep=context.recipe.machine.lockstep,
    )
    guided.name = f"{learner.policy.name} guided by {values}"
    try:
        measure(context, context.stage, replace(learner, policy=guided))
    finally:
        context.rollouts.finish(guided.close())
    return learner


def _learn(
    context: RunContext,
    learner: Learner,
    episodes: str,
    runs: list[str],
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
        stored = [StoredEpisode.of(t, ReturnSpec()) for t in stored_episodes(context, learner, episodes, runs)]
        network = make(learner.model.base_model).to(learner.model.device)
        fit(
            network,
            stored,
            seed=context.recipe.seed,
            on_step=lambda step, loss: context.folder.log(step, phase, **{"values/loss": loss}),
        )
        save_model(learner.model, learner.processing_class, checkpoint := context.folder.checkpoints / f"{NAME}.model")
        save_values(network, learner.tokenizer, checkpoint)
        checkpoint.rename(context.folder.checkpoints / NAME)

    context.processes.share(learn)
    return learner
