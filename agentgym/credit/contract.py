"""The contract of an estimator: its declaration, and the rules that hold for every estimator.

The function of an estimator only sees groups in which every trajectory is valid. `Estimator` does the rest in the same
way for all: it removes failed trajectories before the call and gives them advantage 0 afterwards, gives 0 to groups
that are too small to compare, checks that the required signals are present, and checks the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from agentgym.credit.composition import parse_composition
from agentgym.credit.group import SIGNALS, Group
from agentgym.credit.options import check_options, defaults_of
from agentgym.credit.signals import Array
from agentgym.errors import CreditError, ShapeError
from agentgym.registry import load

BiasClass = Literal["unbiased", "direction", "biased", "heuristic"]
"""How the expectation of (1/N) sum A grad log pi relates to the true policy gradient.

- unbiased: the two are equal.
- direction: the expectation is a positive multiple of the gradient. The estimator's docstring says which, or when.
- biased: the two differ. The estimator's docstring says how.
- heuristic: nothing is claimed.

The tests check each class with exact sums over every possible group of small decision problems.
"""

Scope = Literal["group", "batch"]
"""Which trajectories are compared: those within each group, or those of all groups of a batch."""


TokenWeights = list[Array]
"""The token weights of one trajectory: for each turn an array with one weight per own token of the turn."""

Flag = Literal["none_valid", "too_few", "no_spread", "failed", "truncated"]


class CreditWarning(UserWarning):
    """The chosen estimator is known to mislead."""


@dataclass(frozen=True, slots=True)
class Credit:
    """The credit of one group.

    Attributes:
        advantages: one float64 array per trajectory with one entry per turn; 0 for a failed trajectory.
        flags: notes on the group: `none_valid`, `too_few` (fewer valid trajectories than the estimator needs, so
            every advantage is 0), `no_spread` (enough trajectories, but every advantage is 0, so there is nothing
            to learn), `failed` and `truncated` (some trajectories are).
        zero_share: share of the turns of valid trajectories whose advantage is exactly 0.
        token_weights: for each trajectory the factors by which its turns' advantages are multiplied on each token; no
            array for a failed one. None if every factor is 1.
    """

    advantages: list[Array]
    flags: tuple[Flag, ...] = ()
    zero_share: float = 0.0
    token_weights: list[TokenWeights] | None = None


@dataclass(frozen=True, slots=True)
class Estimator:
    """An estimator with its options. Call it with a group, or call `batch` with a list of groups.

    Attributes:
        name: as registered.
        function: maps a group, all of whose trajectories are valid, and the options to [N, T] advantages. Entries
            outside `group.turn_mask` are ignored. With scope "batch" it maps a list of groups to a list of arrays.
        requires: signals that the group must carry.
        declared_bias: a `BiasClass`, or a function from the options to one.
        source: the publication of the mathematics.
        minimum_group: the fewest valid trajectories the estimator can compare; smaller groups get advantage 0.
        caution: the text of a CreditWarning, given when the estimator is chosen by name.
        scope: see `Scope`.
        zero_if_equal: whether equal trajectories get advantage 0. False for estimators that compare turns of one
            trajectory with each other, or that use a critic or another model.
        by_turn: whether the turns of a trajectory may get different advantages.
        same_objective: whether `bias` refers to the group's own rewards. False if a wrapper replaced the rewards (for
            example gated them); `bias` then refers to the new rewards.
        options: the options that were set; all others have the function's defaults.
        base: the estimator that this one wraps; None if it wraps nothing.
        token_weights: maps a group and its final [N, T] advantages to [N, T, L] weights of the turns' own tokens;
            entries after the last token of a turn are ignored. None if every token has the advantage of its turn.
    """

    name: str
    function: Callable[..., Any]
    requires: tuple[str, ...]
    declared_bias: BiasClass | Callable[[Mapping[str, Any]], BiasClass]
    source: str
    minimum_group: int = 2
    caution: str = ""
    scope: Scope = "group"
    zero_if_equal: bool = True
    by_turn: bool = True
    same_objective: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    base: Estimator | None = None
    token_weights: Callable[[Group, Array], Array] | None = None

    @property
    def bias(self) -> BiasClass:
        """The bias class under the options that are set."""
        return self.declared_bias(self.resolved_options) if callable(self.declared_bias) else self.declared_bias

    @property
    def resolved_options(self) -> dict[str, Any]:
        """Every option with its value: those that were set, and the defaults of the others."""
        return {**defaults_of(self.function), **self.options}

    @property
    def unwrapped(self) -> Estimator:
        """The estimator without its wrappers."""
        return self if self.base is None else self.base.unwrapped

    @property
    def summary(self) -> str:
        """The estimator's formula on one line; for a preset, the name and options of its original."""
        if self.name == self.function.__name__:
            return (self.function.__doc__ or "").strip().split("\n")[0]
        preset_options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.function.__name__} " + (f"with {preset_options}" if preset_options else "under another name")

    def with_options(self, **options: Any) -> Estimator:
        """Return the same estimator with options set.

        Raises: CreditError for an unknown option (the message lists the accepted ones) or an invalid value.
        """
        check_options(self.name, self.function, options)
        return replace(self, options={**self.options, **options})

    def preset(self, name: str, *, source: str, caution: str = "", **options: Any) -> Estimator:
        """Return the same estimator under another name and with other defaults, which options can still override.

        Raises: CreditError as `with_options`.
        """
        return replace(self.with_options(**options), name=name, source=source, caution=caution)

    def __call__(self, group: Group) -> list[Array]:
        """Return one float64 array per trajectory with one advantage per turn, in reward units unless scaled.

        Degenerate groups: with fewer than `minimum_group` valid trajectories every advantage is 0, and a failed
        trajectory always gets 0. `explain` reports both in its flags.
        Raises: MissingSignalError; CreditError if an advantage is not finite.
        """
        return self.explain(group).advantages

    def explain(self, group: Group) -> Credit:
        """Return the advantages together with flags and figures for logs. Raises: as `__call__`."""
        return self.batch([group])[0]

    def batch(self, groups: Sequence[Group]) -> list[Credit]:
        """Return the credit of every group of a batch. With scope "group" each group is computed separately.

        Degenerate: a group smaller than `minimum_group` is left out and gets 0. With scope "batch" every group gets 0
        if fewer than two trajectories remain to compare.
        Raises: as `__call__`.
        """
        for group in groups:
            for name in self.requires:
                group.signal(name)
        sizes = [int(group.valid.sum()) for group in groups]
        large_enough = [size >= self.minimum_group for size in sizes]
        if self.scope == "batch" and sum(size for size, ok in zip(sizes, large_enough, strict=True) if ok) < 2:
            large_enough = [False] * len(groups)
        compared = [group.select(group.valid) for group, ok in zip(groups, large_enough, strict=True) if ok]
        results = self._compute(compared)
        checked = [self._check(result, group) for result, group in zip(results, compared, strict=True)]
        weights = [self._weigh_tokens(group, given) for group, given in zip(compared, checked, strict=True)]
        computed = iter(zip(checked, weights, strict=True))
        return [
            _credit(group, *(next(computed) if ok else (None, None)))
            for group, ok in zip(groups, large_enough, strict=True)
        ]

    def _compute(self, groups: Sequence[Group]) -> list[Any]:
        """Return the function's unchecked result for each group."""
        if self.scope == "group":
            return [self.function(group, **self.options) for group in groups]
        results = list(self.function(groups, **self.options)) if groups else []
        if len(results) != len(groups):
            raise ShapeError(
                f"The estimator {self.name!r} returned advantages for {len(results)} groups, but was given "
                f"{len(groups)}. Return one [N, T] array per group."
            )
        return results

    def _check(self, result: Any, group: Group) -> Array:
        """Return the result as a float64 array. Raises: ShapeError, CreditError."""
        advantages, mask = np.asarray(result, np.float64), group.turn_mask
        if advantages.shape != mask.shape:
            raise ShapeError(
                f"The estimator {self.name!r} returned an array of shape {advantages.shape} for {mask.shape[0]} "
                f"trajectories of at most {mask.shape[1]} turns. Return one of shape [N, T] = {mask.shape}."
            )
        not_finite = np.argwhere(~np.isfinite(advantages) & mask)
        if len(not_finite):
            i, k = (int(x) for x in not_finite[0])
            raise CreditError(
                f"The estimator {self.name!r} gave turn {k} of the {i}th valid trajectory the advantage "
                f"{advantages[i, k]}, which is not finite. Look for a division by 0, or for rewards that overflow."
            )
        return advantages

    def _weigh_tokens(self, group: Group, advantages: Array) -> list[TokenWeights] | None:
        """Return the weights of each trajectory's tokens. Raises: ShapeError, CreditError."""
        if self.token_weights is None:
            return None
        weights, lengths = np.asarray(self.token_weights(group, advantages), np.float64), group.signal("lengths")
        longest = int(np.nanmax(lengths, initial=0))
        if weights.shape[:-1] != lengths.shape or weights.shape[-1] < longest:
            raise ShapeError(
                f"The token weights of {self.name!r} have the shape {weights.shape} for {len(lengths)} trajectories "
                f"of at most {lengths.shape[1]} turns and {longest} tokens per turn. Return an array of shape [N, T, "
                "L]."
            )
        rows = [
            [weights[i, k, : int(lengths[i, k])].copy() for k in range(count)] for i, count in enumerate(group.turns)
        ]
        for i, row in enumerate(rows):
            for k, of_turn in enumerate(row):
                if not np.isfinite(of_turn).all():
                    raise CreditError(
                        f"{self.name!r} gave a token of turn {k} of the {i}th valid trajectory a weight that is not "
                        "finite. Give weight 1 to tokens without a signal."
                    )
        return rows


def _credit(group: Group, computed: Array | None, weights: list[TokenWeights] | None) -> Credit:
    """Return a group's credit from its valid trajectories' advantages, `computed`; None if these were too few."""
    valid_rows = np.flatnonzero(group.valid)
    advantages: list[Array] = [np.zeros(count) for count in group.turns]
    flags: list[Flag] = []
    if computed is None:
        flags.append("too_few" if len(valid_rows) else "none_valid")
    else:
        for row, values in zip(valid_rows, computed, strict=True):
            advantages[row] = values[: group.turns[row]].copy()
    flat = np.concatenate([advantages[row] for row in valid_rows]) if len(valid_rows) else np.zeros(0)
    if computed is not None and not flat.any():
        flags.append("no_spread")
    if len(valid_rows) < group.size:
        flags.append("failed")
    if group.truncated[valid_rows].any():
        flags.append("truncated")
    token_weights: list[TokenWeights] | None = None
    if weights is not None:
        token_weights = [[] for _ in range(group.size)]
        for row, of_trajectory in zip(valid_rows, weights, strict=True):
            token_weights[row] = of_trajectory
    return Credit(advantages, tuple(flags), float(np.mean(flat == 0)) if len(flat) else 0.0, token_weights)


def batch_advantages(estimate: Callable[[Group], list[Array]], groups: Sequence[Group]) -> list[list[Array]]:
    """Return the advantages of every group, from an Estimator or from a function of one group.

    Raises: any error of the estimator.
    """
    if isinstance(estimate, Estimator):
        return [credit.advantages for credit in estimate.batch(groups)]
    return [estimate(group) for group in groups]


def define_estimator(
    *,
    requires: tuple[str, ...],
    bias: BiasClass | Callable[[Mapping[str, Any]], BiasClass],
    source: str,
    minimum_group: int = 2,
    caution: str = "",
    scope: Scope = "group",
    zero_if_equal: bool = True,
    by_turn: bool = True,
) -> Callable[[Callable[..., Any]], Estimator]:
    """Decorate a function `f(group, *, option=default, ...) -> [N, T] array` to make it an `Estimator`.

    With scope "batch" the function is `f(groups, *, ...) -> list of [N, T] arrays`. The arguments are attributes of
    `Estimator`. Register the result in the entry-point group `agentgym.estimators` to look it up with `estimator`.

    Raises: CreditError for an unknown signal or bias class, an empty source, or a minimum group below 1.
    """
    if unknown := [name for name in requires if name not in SIGNALS]:
        raise CreditError(f"requires = {unknown} names signals that no group has. Signals are: {', '.join(SIGNALS)}.")
    if not callable(bias) and bias not in get_args(BiasClass):
        raise CreditError(f"bias = {bias!r} is not valid. Choose one of: {', '.join(get_args(BiasClass))}.")
    if not source.strip():
        raise CreditError("source is empty. Name the publication that the mathematics comes from, or write 'our own'.")

    if minimum_group < 1:
        raise CreditError(
            f"minimum_group = {minimum_group} is not valid: an estimator needs at least 1 valid trajectory."
        )

    def decorate(function: Callable[..., Any]) -> Estimator:
        return Estimator(
            function.__name__, function, requires, bias, source, minimum_group, caution, scope, zero_if_equal, by_turn
        )

    return decorate


def estimator(name: str, **options: Any) -> Estimator:
    """Look up a registered estimator and set its options: `estimator("return_to_go", gamma=1.0)(group)`.

    Args:
        name: a registered name, or an estimator with its wrappers, the innermost first:
            "return_to_go(gamma=0.9) | gated(threshold=1.0) | masked(overlong=True)".
        options: options of the estimator.
    Warns: CreditWarning if the estimator is kept for reproduction only.
    Raises: UnknownNameError; CreditError for an unknown option, an invalid value or a text that cannot be parsed.
    """
    if "|" in name or "(" in name:
        inner, *wrappers = parse_composition(name)
        composed = estimator(inner.name, **{**inner.options, **options})
        for part in wrappers:
            composed = load("credit_wrappers", part.name)(composed, **part.options)
        return composed
    registered = load("estimators", name)
    if not isinstance(registered, Estimator):
        raise CreditError(
            f"The object registered as the estimator {name!r} is {registered!r}, which is not an estimator. Decorate "
            "its function with agentgym.credit.define_estimator(requires=..., bias=..., source=...)."
        )
    if registered.caution:
        warnings.warn(f"{name}: {registered.caution}", CreditWarning, stacklevel=2)
    return registered.with_options(**options)
