"""The inputs and results of objectives and loss terms, and their names in a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch

from agentgym import registry
from agentgym.credit.named_parts import load_part, parse_part
from agentgym.errors import CreditError, ShapeError
from agentgym.reward.combined import Schedule

if TYPE_CHECKING:
    from agentgym.training.recipe.train_section import TermSection

EpisodeKind = str
"""The kind of a batch's episodes: "policy" for the policy's, or the name that a training part gives to other episodes,
such as "experts" for an expert's episodes of the same tasks.
"""

Average = Literal["constant", "episode", "none"]
"""The divisor of a sum over an episode's own tokens: "constant", the same for all episodes; "episode", the episode's
number of own tokens; "none", 1.
"""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """The tokens of B episodes after their prompts, padded to T. A group has G episodes.

    Attributes:
        logps: (B, T) log-probabilities of the tokens under the trained model, with gradient, in nats.
        entropies: (B, T) entropies of the model's distribution at each token, with gradient, in nats.
        own: (B, T) 1 on the tokens that the agent wrote, 0 on results, padding and failed episodes. The other tensors
            are undefined where `own` is 0.
        advantages: (B, T) the advantage of each token's turn.
        behaviour_logps: (B, T) `logps` under the policy that sampled the tokens, without gradient.
        reference_logps: (B, T) `logps` under the reference model; None in a run without one.
        turns: (B, T) the index of each token's turn; -1 where the token is not the agent's.
        returns: (B,) sum of the outcome and turn rewards of each episode; NaN for a failed one.
        max_length: maximum number of tokens in an episode after its prompt.
        mean_length: mean number of own tokens per episode, over the step's episodes of this kind.
        groups: (B,) the index of each episode's group in the step.
        group_returns: (B, G) `returns` of all episodes of each episode's group.
        group_successes: (B, G) outcome component `success` of the same episodes; NaN for failed or unjudged ones.
        expert_returns: (B,) `returns` of the expert's episode of each episode's task; NaN if there is none.
        outcomes: by name, (B,) the values of each outcome component; NaN where an episode does not have it.
        first_attempt_turns: (B,) number of turns of each episode's first attempt; all turns if there is one attempt.
        help_removed: (B,) whether an episode was sampled with help in its prompt and is trained on without that help;
            None for a batch without help.
        inputs: (B,) or (B, T) further columns from training parts, by name.
        rows: the kind of the batch's episodes.
        proximal_logps: (B, T) `logps` under the model at the start of this batch's update, without gradient; None where
            they equal `logps`, as with one iteration per batch.
    """

    logps: torch.Tensor
    entropies: torch.Tensor
    own: torch.Tensor
    advantages: torch.Tensor
    behaviour_logps: torch.Tensor
    reference_logps: torch.Tensor | None
    turns: torch.Tensor
    returns: torch.Tensor
    max_length: int
    groups: torch.Tensor
    group_returns: torch.Tensor
    group_successes: torch.Tensor
    mean_length: float = 1.0
    expert_returns: torch.Tensor | None = None
    outcomes: Mapping[str, torch.Tensor] = field(default_factory=dict)
    first_attempt_turns: torch.Tensor | None = None
    help_removed: torch.Tensor | None = None
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    rows: EpisodeKind = "policy"

    def outcome(self, name: str) -> torch.Tensor:
        """Return an outcome component of each episode, (B,); NaN for episodes without it.

        Raises: CreditError if no episode of the step has the component, though some were judged.
        """
        if (values := self.outcomes.get(name)) is not None:
            return values
        if not self.returns.isnan().all():
            raise CreditError(
                f"No episode has the outcome component {name!r}, which the objective reads. The components are: "
                f"{', '.join(self.outcomes) or 'none'}. Choose a reward that gives {name!r}."
            )
        return torch.full_like(self.returns, float("nan"))

    @property
    def successes(self) -> torch.Tensor:
        """Return the outcome component `success`, (B,). Raises: as `outcome` does."""
        return self.outcome("success")

    @property
    def success_rates(self) -> torch.Tensor:
        """Return the mean success of the judged episodes in each episode's group, (B,); NaN if none was judged."""
        return self.group_successes.nanmean(1)

    proximal_logps: torch.Tensor | None = None

    def per_row(self, values: torch.Tensor, average: Average = "constant") -> torch.Tensor:
        """Return (B,) the sum of (B, T) values over each episode's own tokens, divided by `max_length`.

        A constant divisor weights all tokens equally; a mean per episode weights the tokens of short episodes more.
        Source: Dr. GRPO, Liu et al. 2025, arXiv:2503.20783.

        Args:
            average: "episode" divides by the episode's number of own tokens instead, "none" by nothing.
        """
        sums = (values * self.own).sum(1)
        if average == "constant":
            return sums / self.max_length
        return sums / self.own.sum(1).clamp(min=1) if average == "episode" else sums

    def turn_means(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the means of (B, T) values over each turn's own tokens, (B, K), and a mask of the turns, (B, K)."""
        count = max(int(self.turns.max()) + 1, 1)
        turns, own = self.turns.clamp(min=0), self.own.to(values)
        empty = values.new_zeros(len(turns), count)
        lengths = empty.scatter_add(1, turns, own)
        means = empty.scatter_add(1, turns, values * own) / lengths.clamp(min=1)
        return means, (lengths > 0).to(values)

    def reference_kls(self) -> torch.Tensor:
        """Return (B, T) w (r - 1 - log r) of each own token, r = reference / policy and w = policy / behaviour.

        Over tokens of the behaviour policy, its mean and its gradient are those of KL(policy, reference). Without w,
        the gradient would be that of KL(reference, policy). `train.kl` is its weight in the loss.

        Source: the estimator k3, Schulman 2020, http://joschu.net/blog/kl-approx.html; w as in TRL's own losses
            (`use_bias_correction_kl`).
        """
        moved = torch.where(self.own.bool(), self.logps - self.behaviour_logps, 0.0)
        return moved.exp() * k3(self.reference_gaps())

    def reference_gaps(self) -> torch.Tensor:
        """Return (B, T) log(p_reference / p_policy) of each token that the agent wrote.

        Raises: CreditError in a run without a reference model.
        """
        if self.reference_logps is None:
            raise CreditError(
                "The objective reads a reference model, and there is none. Set train.kl above 0, or set "
                "[train.reference] kind."
            )
        return (self.reference_logps - self.logps) * self.own

    def row_log_ratios(self) -> torch.Tensor:
        """Return (B,) the sum of log(p_policy / p_behaviour) over the tokens that the agent wrote in each episode."""
        return ((self.logps - self.behaviour_logps) * self.own).sum(1)

    def select(self, rows: Any) -> TokenBatch:
        """Return a batch of some of this batch's episodes. `rows`: any tensor index."""
        return self.changed(lambda _, value: value[rows])

    def changed(self, change: Callable[[str, torch.Tensor], torch.Tensor]) -> TokenBatch:
        """Return the batch with `change` applied to each tensor, by its name: `inputs.NAME` for a part's column."""
        changed: dict[str, Any] = {}
        for name, value in ((each.name, getattr(self, each.name)) for each in fields(self)):
            if isinstance(value, torch.Tensor):
                changed[name] = change(name, value)
            elif isinstance(value, Mapping):
                changed[name] = {key: change(f"{name}.{key}", column) for key, column in value.items()}
        return replace(self, **changed)


RowLosses = Callable[[TokenBatch], torch.Tensor]
"""A function that returns (B,) one loss per episode. The step minimises their mean over all episodes of the batch,
including failed ones.

A batch may be computed in parts, so an episode's loss must not depend on other episodes unless it `needs` whole groups.
"""


def k3(log_ratio: torch.Tensor) -> torch.Tensor:
    """Return r - 1 - log r for log r = log q - log p: a non-negative estimate of KL(p, q) from tokens of p."""
    return log_ratio.exp() - 1 - log_ratio


@dataclass(frozen=True, slots=True)
class LossRequirements:
    """The requirements of an objective or a loss term; they are checked before a run starts.

    Attributes:
        advantages: whether the loss uses advantages, so that the recipe's estimator matters. Ignored for a loss term.
        critic: whether the advantages must come from a critic.
        estimator: the estimator for a recipe that names none; "" for the recipe's default.
        corrects_old_policies: whether the loss itself reweights tokens that an older policy sampled, so that the
            estimator need not.
        group_outcomes: whether the loss needs `success` of groups of complete, independent episodes.
        reference: whether it needs `reference_logps`.
        whole_groups: whether an episode's loss depends on the rest of its group, so that batches must hold whole
            groups.
        rows: the kind of episodes on which the loss is computed.
        parts: registered names of the training parts that supply the batch's `inputs`.
        instead: whether the term replaces part of the objective: its weight, 0 to 1, is subtracted from the
            objective's.
        average: the divisor with which the objective, and the KL of `train.kl`, average over an episode's tokens.
    """

    advantages: bool = True
    critic: bool = False
    estimator: str = ""
    corrects_old_policies: bool = False
    group_outcomes: bool = False
    reference: bool = False
    whole_groups: bool = False
    rows: tuple[EpisodeKind, ...] = ("policy",)
    parts: tuple[str, ...] = ()
    instead: bool = False
    average: Average = "constant"

    @property
    def from_parts(self) -> tuple[str, ...]:
        """Return the inputs that training parts must provide, named as in their `provides`."""
        return (*(kind for kind in self.rows if kind != "policy"), *self.parts)


F = TypeVar("F", bound=Callable[..., torch.Tensor])
_NEEDS_OF_MOST = LossRequirements()


def define_loss(needs: LossRequirements) -> Callable[[F], F]:
    """Decorate an objective or a loss term that needs more than its own episodes and their advantages."""

    def decorate(function: F) -> F:
        function.needs = needs  # type: ignore[attr-defined]
        return function

    return decorate


def needs_of(losses: RowLosses | TrlLoss | None) -> LossRequirements:
    """Return the requirements of an objective or a loss term, even if its options are already bound."""
    function = losses.func if isinstance(losses, partial) else losses
    needs: LossRequirements = getattr(function, "needs", _NEEDS_OF_MOST)
    return needs


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A loss added to the objective's.

    Attributes:
        name: the registered name; the unweighted term is logged as `loss/<name>`.
        schedule: a factor on the weight over the training; None for a constant weight.
        warmup: fraction of the training over which the weight rises from 0.
    """

    name: str
    row_losses: RowLosses
    weight: float = 1.0
    schedule: Schedule | None = field(default=None)
    warmup: float = 0.0

    def weight_at(self, progress: float) -> float:
        """Return the weight when `progress` of the training, 0 to 1, is done."""
        rising = min(progress / self.warmup, 1.0) if self.warmup else 1.0
        return rising * (self.weight if self.schedule is None else self.weight * self.schedule.factor(progress))


def objective_share(terms: Sequence[WeightedTerm], progress: float) -> float:
    """Return the objective's weight: 1 minus the weights of the terms that replace part of it."""
    return 1.0 - sum(term.weight_at(progress) for term in terms if needs_of(term.row_losses).instead)


def losses_by_row(
    tokens: TokenBatch, objective: RowLosses | None, terms: Sequence[WeightedTerm], *, kl: float, progress: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """Return agentgym's part of each episode's loss, (B,), and its summands and the entropy as metrics.

    Args:
        objective: None if TRL computes it; then only the terms are summed.
        kl: weight of the KL to the reference model; used only with an objective that agentgym computes.
        progress: fraction of the training done, 0 to 1.
    """
    weighted: list[tuple[str, float, torch.Tensor]] = []
    metrics: dict[str, float] = {}
    if objective is not None and tokens.rows in needs_of(objective).rows:
        share = objective_share(terms, progress)
        weighted.append(("objective", share, objective(tokens)))
        if kl and tokens.rows == "policy":
            distances = tokens.per_row(tokens.reference_kls(), needs_of(objective).average)
            weighted.append(("reference_kl", share * kl, distances))
    if objective is not None and tokens.rows == "policy":
        metrics["entropy"] = float((tokens.entropies.detach() * tokens.own).sum() / tokens.own.sum().clamp(min=1))
    for term in terms:
        if tokens.rows in needs_of(term.row_losses).rows:
            weighted.append((term.name, term.weight_at(progress), term.row_losses(tokens)))
    of_others = "" if tokens.rows == "policy" else f"_of_{tokens.rows}"
    for name, _, losses in weighted:
        if losses.shape != tokens.returns.shape:
            raise ShapeError(
                f"The objective {name} returned losses of shape {tuple(losses.shape)}, but it must return one loss "
                f"for each of the {len(tokens.own)} episodes."
            )
        key = f"loss/{name}" + (of_others if name == "objective" else "")
        metrics[key] = float(losses.detach().mean())
    if not weighted:
        return tokens.logps.sum(1) * 0.0, metrics
    return torch.stack([weight * losses for _, weight, losses in weighted]).sum(0), metrics


class TrlLoss:
    """An objective that TRL computes.

    Attributes:
        loss_type: TRL's name of the loss.
        constants: the paper's constants that differ from TRL's defaults, as options of GRPOConfig.
    """

    def __init__(self, function: Callable[[], None], **constants: float) -> None:
        self.loss_type, self.__doc__, self.constants = function.__name__, function.__doc__, constants


def trl_loss(**constants: float) -> Callable[[Callable[[], None]], TrlLoss]:
    """Decorate an empty function named like TRL's loss; see `TrlLoss` for the constants."""
    return lambda function: TrlLoss(function, **constants)


def make_objective(text: str) -> RowLosses | TrlLoss:
    """Make an objective from its name and options: `dr_grpo`, `topr(max_ratio=1.0)`.

    Raises: UnknownNameError; CreditError for unknown options.
    """
    part = parse_part(text)
    registered: RowLosses | TrlLoss = registry.load("objectives", part.name)
    if not isinstance(registered, TrlLoss):
        return load_part("objectives", part.name, part.options)
    if part.options:
        raise CreditError(f"{text!r}: TRL computes this loss, so it takes no options here. Write them in [train.trl].")
    return registered


def make_terms(terms: Mapping[str, TermSection]) -> list[WeightedTerm]:
    """Make the loss terms of [train.terms] with their options. Raises: UnknownNameError, CreditError."""
    weighted_terms = []
    for name, term in terms.items():
        schedule = None if term.schedule is None else term.schedule.make()
        weighted_terms.append(make_term(name, term.weight, schedule, term.options, warmup=term.warmup))
    return weighted_terms


def make_term(
    name: str, weight: float, schedule: Schedule | None, options: Mapping[str, Any], *, warmup: float = 0.0
) -> WeightedTerm:
    """Make a loss term. Raises: UnknownNameError; CreditError for unknown options."""
    return WeightedTerm(name, load_part("loss_terms", name, options), weight, schedule, warmup)
