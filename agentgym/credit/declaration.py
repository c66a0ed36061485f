"""What an estimator declares of itself, and the edge rules that hold for every one of them.

An estimator is written as a function of a group in which every trajectory is valid. What surrounds it
here is the same for all: failed trajectories are taken out before and get 0 after (they change
nobody's advantage), a group too small to compare anything gets 0, the signals it needs must be there,
and what comes out is checked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from agentgym.credit.composition import parts_of
from agentgym.credit.group import SIGNALS, Group
from agentgym.credit.options import check_options, options_of
from agentgym.credit.signals import Array
from agentgym.errors import CreditError, ShapeError
from agentgym.registry import load

Bias = Literal["unbiased", "direction", "biased", "heuristic"]
"""How the mean of (1/N) sum A grad log pi relates to the true policy gradient.

unbiased: equal. direction: a positive multiple of it; the docstring says which, or under what condition.
biased: it differs, the docstring says how. heuristic: nothing is claimed. Each is checked in the tests by
exact sums over every possible group of small decision problems.
"""

Scope = Literal["group", "batch"]
"""What is compared: the trajectories of a group, or those of all groups of a batch (then groups are not isolated)."""


def unbiased_left_out(options: Mapping[str, Any]) -> Bias:
    """The class of estimators that are unbiased where nobody is in their own baseline and nothing is discounted."""
    return "unbiased" if (options["baseline"], options["gamma"]) == ("loo", 1) else "biased"


Flag = Literal["none_valid", "too_few", "no_spread", "failed", "truncated"]


class CreditWarning(UserWarning):
    """An estimator was chosen that is known to mislead."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What an estimator found.

    Attributes:
        advantages: one float64 array per trajectory, one entry per turn; 0 for a failed trajectory.
        flags: what a reader should know of the group: `none_valid`, `too_few` (fewer valid trajectories
            than the estimator compares, so every advantage is 0), `no_spread` (enough of them, but every
            advantage is 0: nothing to learn), `failed` and `truncated` (some of it is).
        zero_share: share of the valid trajectories' turns whose advantage is exactly 0.
    """

    advantages: list[Array]
    flags: tuple[Flag, ...] = ()
    zero_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimator:
    """A declared estimator with its options: call it with a group, or `over` a batch of groups.

    Attributes:
        name: as registered.
        function: from a group whose trajectories are all valid, and the options, to [N, T] advantages;
            what it writes where no turn was played is ignored. With scope "batch" it gets a list of groups
            and returns a list of such arrays.
        requires: signals that the group must carry.
        bias: see `Bias`; a function of the options where it depends on them.
        source: where the mathematics is from.
        minimum_group: fewest valid trajectories with which it says anything; with fewer, every advantage is 0.
        caution: said as a CreditWarning when the estimator is chosen by name.
        scope: see `Scope`.
        equals_get_zero: whether equal trajectories all get 0. Not where turns of one trajectory are compared with
            each other, or where a critic or a model has its say.
        same_objective: whether `bias` speaks of the group's own rewards. Not where a wrapper replaced them (behind
            gates, less a penalty): it then speaks of what that left.
        options: what was set, the rest is the function's default.
        base: the estimator that this one wraps, None for one that wraps nothing.
    """

    name: str
    function: Callable[..., Any]
    requires: tuple[str, ...]
    declared_bias: Bias | Callable[[Mapping[str, Any]], Bias]
    source: str
    minimum_group: int = 2
    caution: str = ""
    scope: Scope = "group"
    equals_get_zero: bool = True
    same_objective: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    base: Estimator | None = None

    @property
    def bias(self) -> Bias:
        """The bias class under the options that are set."""
        return self.declared_bias(self.settings) if callable(self.declared_bias) else self.declared_bias

    @property
    def settings(self) -> dict[str, Any]:
        """Every option with its value: what was set, and the defaults."""
        return {**{name: default for name, (_, default) in options_of(self.function).items()}, **self.options}

    @property
    def innermost(self) -> Estimator:
        """What is left when every wrapper is taken off: the estimator whose discount and weights count."""
        return self if self.base is None else self.base.innermost

    @property
    def summary(self) -> str:
        """One line that says what it is: its formula, or which estimator it is a preset of."""
        if self.name == self.function.__name__:
            return (self.function.__doc__ or "").strip().split("\n")[0]
        set_to = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.function.__name__} " + (f"with {set_to}" if set_to else "under another name")

    def with_options(self, **options: Any) -> Estimator:
        """The same estimator with options set.

        Raises: CreditError for an unknown option (it names the accepted ones) or a value that does not fit.
        """
        check_options(self.name, options_of(self.function), options)
        return replace(self, options={**self.options, **options})

    def preset(self, name: str, *, source: str, caution: str = "", **options: Any) -> Estimator:
        """The same estimator under another name, with other defaults that can still be set.

        Raises: CreditError as `with_options`.
        """
        return replace(self.with_options(**options), name=name, source=source, caution=caution)

    def __call__(self, group: Group) -> list[Array]:
        """One float64 array per trajectory, one advantage per turn, in reward units unless scaled.

        Degenerate groups: fewer than `minimum_group` valid trajectories give 0 everywhere, and a failed
        trajectory gets 0 (`explain` says so in flags).
        Raises: MissingSignalError; CreditError when what comes out is not finite.
        """
        return self.explain(group).advantages

    def explain(self, group: Group) -> Credit:
        """The advantages together with flags and figures for logs. Raises: as `__call__`."""
        return self.over([group])[0]

    def over(self, groups: Sequence[Group]) -> list[Credit]:
        """Credit of every group of a batch; with scope "group" that of each by itself.

        Degenerate: a group smaller than `minimum_group` is left out and gets 0; with scope "batch" so does
        everyone where fewer than two trajectories are left to compare.
        Raises: as `__call__`.
        """
        for group in groups:
            for name in self.requires:
                group.signal(name)
        counts = [int(group.valid.sum()) for group in groups]
        enough = [count >= self.minimum_group for count in counts]
        if self.scope == "batch" and sum(c for c, ok in zip(counts, enough, strict=True) if ok) < 2:
            enough = [False] * len(groups)
        compared = [group.only(group.valid) for group, ok in zip(groups, enough, strict=True) if ok]
        if self.scope == "batch":
            computed = list(self.function(compared, **self.options)) if compared else []
            if len(computed) != len(compared):
                raise ShapeError(
                    f"The estimator {self.name!r} returned advantages of {len(computed)} groups for {len(compared)}: "
                    "return one [N, T] array for each."
                )
        else:
            computed = [self.function(group, **self.options) for group in compared]
        found = iter([self._checked(one, group) for one, group in zip(computed, compared, strict=True)])
        return [_credit(group, next(found) if ok else None) for group, ok in zip(groups, enough, strict=True)]

    def _checked(self, computed: Any, group: Group) -> Array:
        found, played = np.asarray(computed, np.float64), group.played
        if found.shape != played.shape:
            raise ShapeError(
                f"The estimator {self.name!r} returned shape {found.shape} for {played.shape[0]} trajectories of at "
                f"most {played.shape[1]} turns: return [N, T] = {played.shape}."
            )
        wrong = np.argwhere(~np.isfinite(found) & played)
        if len(wrong):
            i, k = (int(x) for x in wrong[0])
            raise CreditError(
                f"The estimator {self.name!r} gave {found[i, k]} to turn {k} of the {i}th valid trajectory. Finite "
                "signals must give finite advantages: look for a division by 0, or rewards that overflow."
            )
        return found


def _credit(group: Group, found: Array | None) -> Credit:
    """Advantages of the valid trajectories spread to all, with flags; None where too few could be compared."""
    rows = np.flatnonzero(group.valid)
    advantages: list[Array] = [np.zeros(count) for count in group.turns]
    flags: list[Flag] = []
    if found is None:
        flags.append("too_few" if len(rows) else "none_valid")
    else:
        for row, values in zip(rows, found, strict=True):
            advantages[row] = values[: group.turns[row]].copy()
    turns = np.concatenate([advantages[row] for row in rows]) if len(rows) else np.zeros(0)
    if found is not None and not turns.any():
        flags.append("no_spread")
    if len(rows) < group.size:
        flags.append("failed")
    if group.truncated[rows].any():
        flags.append("truncated")
    return Credit(advantages, tuple(flags), float(np.mean(turns == 0)) if len(turns) else 0.0)


def batch_advantages(estimate: Callable[[Group], list[Array]], groups: Sequence[Group]) -> list[list[Array]]:
    """Advantages of every group, from a declared Estimator (over the whole batch, where it compares one) or a function.

    Raises: what the estimator raises.
    """
    if isinstance(estimate, Estimator):
        return [credit.advantages for credit in estimate.over(groups)]
    return [estimate(group) for group in groups]


def declare(
    *,
    requires: tuple[str, ...],
    bias: Bias | Callable[[Mapping[str, Any]], Bias],
    source: str,
    minimum_group: int = 2,
    caution: str = "",
    scope: Scope = "group",
    equals_get_zero: bool = True,
) -> Callable[[Callable[..., Any]], Estimator]:
    """Make an estimator of a function `f(group, *, option=default, ...) -> [N, T] array`; see `Estimator`.

    With scope "batch" the function is `f(groups, *, ...) -> list of [N, T] arrays`.

    Raises: CreditError when the declaration makes no sense.
    """
    if unknown := [name for name in requires if name not in SIGNALS]:
        raise CreditError(f"requires names {unknown}, which no group carries. Signals are {', '.join(SIGNALS)}.")
    if not callable(bias) and bias not in get_args(Bias):
        raise CreditError(f"bias is {bias!r}: expected one of {', '.join(get_args(Bias))}.")
    if not source.strip():
        raise CreditError("source is empty: say where the mathematics is from, or 'our own'.")

    if minimum_group < 1:
        raise CreditError(f"minimum_group is {minimum_group}: without a valid trajectory there is nothing to estimate.")

    def make(function: Callable[..., Any]) -> Estimator:
        return Estimator(
            function.__name__, function, requires, bias, source, minimum_group, caution, scope, equals_get_zero
        )

    return make


def estimator(name: str, **options: Any) -> Estimator:
    """A registered estimator with its options: `estimator("return_to_go", gamma=1.0)(group)`.

    Args:
        name: as registered, or a whole composition with its wrappers, from the inside out:
            "return_to_go(gamma=0.9) | gated(threshold=1.0) | masked(overlong=True)".
        options: of the estimator.
    Warns: CreditWarning when the estimator is one that is kept for reproduction only.
    Raises: UnknownNameError; CreditError for an unknown option, a wrong value or a text that cannot be read.
    """
    if "|" in name or "(" in name:
        inner, *wrappers = parts_of(name)
        wrapped = estimator(inner.name, **{**inner.options, **options})
        for part in wrappers:
            wrapped = load("credit_wrappers", part.name)(wrapped, **part.options)
        return wrapped
    made = load("estimators", name)
    if not isinstance(made, Estimator):
        raise CreditError(
            f"What is registered as the estimator {name!r} is {made!r}: decorate its function with "
            "agentgym.credit.declare(requires=..., bias=..., source=...)."
        )
    if made.caution:
        warnings.warn(f"{name}: {made.caution}", CreditWarning, stacklevel=2)
    return made.with_options(**options)
