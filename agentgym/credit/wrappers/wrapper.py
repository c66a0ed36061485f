"""What a wrapper declares of itself, and how it makes an estimator of an estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.credit.declaration import Bias, Estimator, Scope
from agentgym.credit.group import Group
from agentgym.credit.kinds import KINDS
from agentgym.credit.options import check_options, options_of
from agentgym.credit.signals import Array
from agentgym.errors import CreditError

Estimate = Callable[[Sequence[Group]], list[Array]]
"""The wrapped estimator: [N, T] advantages of each group, 0 where no turn was played and for a failed trajectory."""

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A declared wrapper: call it with an estimator and options.

    Attributes:
        name: as registered.
        function: from an `Estimate`, groups whose trajectories are all valid, and the options, to the
            [N, T] advantages of each group.
        requires: signals that a group must carry, beside those of the wrapped estimator.
        bias: the class of the result, from that of the wrapped estimator and the options.
        source: where the mathematics is from.
        scope: "batch" where it compares groups.
        equals_get_zero: False where equal trajectories that got 0 may no longer do so.
        same_objective: False where the wrapped estimator is shown other rewards than the group's.
    """

    name: str
    function: Callable[..., list[Array]]
    requires: Callable[[Options], tuple[str, ...]]
    bias: Callable[[Bias, Options], Bias]
    source: str
    scope: Scope
    equals_get_zero: bool
    same_objective: bool

    @property
    def summary(self) -> str:
        """One line that says what it does."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def __call__(self, base: Estimator, **options: Any) -> Estimator:
        """The wrapped estimator. What `base` compares it still compares; its options are set already.

        Raises: CreditError for an unknown option or a value that does not fit.
        """
        known = options_of(self.function)
        check_options(self.name, known, options, kind="wrapper")
        chosen = {**{name: default for name, (_, default) in known.items()}, **options}
        requires = self.requires(chosen)
        if unknown := [name for name in requires if name not in KINDS]:
            raise CreditError(f"The wrapper {self.name!r} requires {unknown}, which no group carries.")
        scope: Scope = "batch" if "batch" in (self.scope, base.scope) else "group"

        def estimate(groups: Sequence[Group]) -> list[Array]:
            found = base.over(groups)
            return [padded(credit.advantages, group) for credit, group in zip(found, groups, strict=True)]

        def over_batch(groups: Sequence[Group]) -> list[Array]:
            return self.function(estimate, groups, **options)

        def over_group(group: Group) -> Array:
            return over_batch([group])[0]

        function: Callable[..., Any] = over_batch if scope == "batch" else over_group
        function.__doc__, name = self.function.__doc__, f"{base.name} | {self.name}"
        function.__name__ = name
        return Estimator(
            name=name,
            function=function,
            requires=tuple(dict.fromkeys((*base.requires, *requires))),
            declared_bias=self.bias(base.bias, chosen),
            source=self.source,
            minimum_group=base.minimum_group,
            caution=base.caution,
            scope=scope,
            equals_get_zero=base.equals_get_zero and self.equals_get_zero,
            same_objective=base.same_objective and self.same_objective,
            base=base,
        )


def wrapper(
    *,
    source: str,
    requires: tuple[str, ...] | Callable[[Options], tuple[str, ...]] = (),
    bias: Callable[[Bias, Options], Bias] = lambda base, options: base,
    scope: Scope = "group",
    equals_get_zero: bool = True,
    same_objective: bool = True,
) -> Callable[[Callable[..., list[Array]]], Wrapper]:
    """Make a wrapper of a function `f(estimate, groups, *, option=default, ...) -> list of [N, T] arrays`.

    Without `bias` the result is of the class of the wrapped estimator.

    Raises: CreditError when no source is given.
    """
    if not source.strip():
        raise CreditError("source is empty: say where the mathematics is from, or 'our own'.")
    needs = requires if callable(requires) else lambda options: requires

    def make(function: Callable[..., list[Array]]) -> Wrapper:
        return Wrapper(function.__name__, function, needs, bias, source, scope, equals_get_zero, same_objective)

    return make


def padded(advantages: Sequence[Array], group: Group) -> Array:
    """[N, T] of one array per trajectory, 0 where no turn was played."""
    found = np.zeros(group.played.shape)
    found[group.played] = np.concatenate(advantages) if len(advantages) else 0.0
    return found
