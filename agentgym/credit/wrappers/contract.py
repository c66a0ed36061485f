"""What a wrapper is: its declaration, and how it turns an estimator into another estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.credit.contract import BiasClass, Estimator, Scope
from agentgym.credit.group import SIGNALS, Group
from agentgym.credit.options import check_options, defaults_of
from agentgym.credit.signals import Array
from agentgym.errors import CreditError

Estimate = Callable[[Sequence[Group]], list[Array]]
"""The wrapped estimator: [N, T] advantages of each group; 0 outside `group.turn_mask` and for failed trajectories."""

TokenWeigher = Callable[[Group, Array], Array]
"""Maps a group and its [N, T] advantages to [N, T, L] weights of the turns' own tokens."""

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A wrapper: call it with an estimator and options to get the wrapped estimator.

    Attributes:
        name: as registered.
        function: maps an `Estimate`, groups whose trajectories are all valid, and the options to [N, T] advantages
            of each group.
        requires: signals that a group must carry in addition to those of the wrapped estimator.
        bias: maps the bias class of the wrapped estimator and the options to the bias class of the result.
        source: the publication of the mathematics.
        scope: "batch" if it compares groups.
        zero_if_equal: False if a group of equal trajectories may get advantages other than 0.
        same_objective: False if the wrapped estimator gets other rewards than the group's own.
        weighs_tokens: the function maps a group, the final [N, T] advantages of the whole estimator, and the options
            to [N, T, L] weights of the turns' own tokens. The advantages are not changed.
    """

    name: str
    function: Callable[..., Any]
    requires: Callable[[Options], tuple[str, ...]]
    bias: Callable[[BiasClass, Options], BiasClass]
    source: str
    scope: Scope
    zero_if_equal: bool
    same_objective: bool
    weighs_tokens: bool = False

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().split("\n")[0]

    def __call__(self, base: Estimator, **options: Any) -> Estimator:
        """Return `base`, wrapped. `base` keeps its own options.

        Raises: CreditError for an unknown option or an invalid value.
        """
        check_options(self.name, self.function, options, kind="wrapper")
        resolved = {**defaults_of(self.function), **options}
        requires = self.requires(resolved)
        if unknown := [name for name in requires if name not in SIGNALS]:
            raise CreditError(
                f"The wrapper {self.name!r} requires {unknown}, which are not signals of a group. Signals are: "
                f"{', '.join(SIGNALS)}."
            )
        scope: Scope = "batch" if "batch" in (self.scope, base.scope) else "group"
        per_turn = replace(base, token_weights=None)

        def estimate(groups: Sequence[Group]) -> list[Array]:
            return [
                pad_turns(credit.advantages, group)
                for credit, group in zip(per_turn.batch(groups), groups, strict=True)
            ]

        def of_batch(groups: Sequence[Group]) -> list[Array]:
            advantages: list[Array] = (
                estimate(groups) if self.weighs_tokens else self.function(estimate, groups, **options)
            )
            return advantages

        def of_group(group: Group) -> Array:
            return of_batch([group])[0]

        function: Callable[..., Any] = of_batch if scope == "batch" else of_group
        name = f"{base.name} | {self.name}"
        function.__name__, function.__doc__ = name, self.function.__doc__
        return Estimator(
            name=name,
            function=function,
            requires=tuple(dict.fromkeys((*base.requires, *requires))),
            declared_bias=self.bias(base.bias, resolved),
            source=self.source,
            minimum_group=base.minimum_group,
            caution=base.caution,
            scope=scope,
            zero_if_equal=base.zero_if_equal and self.zero_if_equal,
            same_objective=base.same_objective and self.same_objective,
            base=base,
            token_weights=self._token_weights(base.token_weights, options),
        )

    def _token_weights(self, of_base: TokenWeigher | None, options: Options) -> TokenWeigher | None:
        """Return the token weights of the result: the wrapped estimator's weights times this wrapper's."""
        if not self.weighs_tokens:
            return of_base

        def weigh(group: Group, advantages: Array) -> Array:
            own: Array = self.function(group, advantages, **options)
            return own if of_base is None else own * of_base(group, advantages)

        return weigh


def define_wrapper(
    *,
    source: str,
    requires: tuple[str, ...] | Callable[[Options], tuple[str, ...]] = (),
    bias: Callable[[BiasClass, Options], BiasClass] = lambda base, options: base,
    scope: Scope = "group",
    zero_if_equal: bool = True,
    same_objective: bool = True,
) -> Callable[[Callable[..., Any]], Wrapper]:
    """Decorate a function `f(estimate, groups, *, option=default, ...) -> list of [N, T] arrays` to make a `Wrapper`.

    Without `bias` the result has the bias class of the wrapped estimator. The arguments are attributes of `Wrapper`.

    Raises: CreditError if the source is empty.
    """
    if not source.strip():
        raise CreditError("source is empty. Name the publication that the mathematics comes from, or write 'our own'.")
    requires_of = requires if callable(requires) else lambda options: requires

    def decorate(function: Callable[..., Any]) -> Wrapper:
        return Wrapper(function.__name__, function, requires_of, bias, source, scope, zero_if_equal, same_objective)

    return decorate


def define_token_weights(
    *,
    source: str,
    requires: tuple[str, ...] | Callable[[Options], tuple[str, ...]],
    bias: Callable[[BiasClass, Options], BiasClass] = lambda base, options: "heuristic",
) -> Callable[[Callable[..., Array]], Wrapper]:
    """Decorate a function `f(group, advantages, *, option=default, ...) -> [N, T, L] array` to make a `Wrapper`.

    It weighs the tokens within turns: the advantage of a turn is multiplied by the weight of each of its tokens.
    Entries after the last token of a turn are ignored. The arguments are attributes of `Wrapper`.

    Raises: CreditError if the source is empty.
    """

    def decorate(function: Callable[..., Array]) -> Wrapper:
        wrapper = define_wrapper(source=source, requires=requires, bias=bias)(function)
        return replace(wrapper, requires=lambda options: (*wrapper.requires(options), "lengths"), weighs_tokens=True)

    return decorate


def pad_tokens(group: Group, of_tokens: Array, *, otherwise: float) -> Array:
    """Return [N, T, L] a signal of the turns' own tokens, L being the longest turn; `otherwise` for missing values."""
    padded = np.full((*group.turn_mask.shape, int(np.nanmax(group.signal("lengths"), initial=0))), otherwise)
    width = min(padded.shape[2], of_tokens.shape[2])
    given = of_tokens[:, :, :width]
    padded[:, :, :width] = np.where(np.isnan(given), otherwise, given)
    return padded


def pad_turns(advantages: Sequence[Array], group: Group) -> Array:
    """Return [N, T] from one array per trajectory; 0 outside `group.turn_mask`."""
    padded = np.zeros(group.turn_mask.shape)
    padded[group.turn_mask] = np.concatenate(advantages) if len(advantages) else 0.0
    return padded
