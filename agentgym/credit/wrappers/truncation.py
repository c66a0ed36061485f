"""Truncation: other outcomes for episodes that a budget ended, or nearly ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agentgym.credit.contract import BiasClass
from agentgym.credit.group import Group
from agentgym.credit.options import Count, Weight
from agentgym.credit.signals import Array
from agentgym.credit.truncation import bootstrapped, overlong_penalised
from agentgym.credit.wrappers.contract import Estimate, Options, define_wrapper


def _requires(options: Options) -> tuple[str, ...]:
    return ("outcomes", "values" if options["mode"] == "bootstrap" else "lengths")


def _bias(base: BiasClass, options: Options) -> BiasClass:
    return "biased" if options["mode"] == "bootstrap" and base != "heuristic" else base


@define_wrapper(
    source="overlong: DAPO, arXiv:2503.14476, eq. 13; bootstrap: the critic's word",
    requires=_requires,
    bias=_bias,
    same_objective=False,
)
def truncation(
    estimate: Estimate,
    groups: Sequence[Group],
    *,
    mode: Literal["overlong", "bootstrap"] = "overlong",
    limit_tokens: Count = 4096,
    buffer_tokens: Count = 1024,
    penalty: Weight = 1.0,
) -> list[Array]:
    """The wrapped estimator with a penalty on long episodes, or with bootstrapped outcomes of truncated ones.

    With "overlong" the class is that of the wrapped estimator, of another objective; with "bootstrap" it is as
    biased as the critic is wrong. To leave such episodes out of the loss instead, see `masked`.

    Args:
        mode: "overlong" as `truncation.overlong_penalised`, "bootstrap" as `truncation.bootstrapped`.
        limit_tokens, buffer_tokens, penalty: of "overlong", in the trajectory's own tokens and in reward units.
    Returns: as the wrapped estimator. Degenerate: without long or truncated episodes, exactly the wrapped estimator.
    Raises: CreditError for a buffer above the limit, or a truncated trajectory without a value after its last turn.
    """
    if mode == "bootstrap":
        return estimate([bootstrapped(group) for group in groups])
    limits = {"limit_tokens": limit_tokens, "buffer_tokens": buffer_tokens}
    return estimate([overlong_penalised(group, **limits, penalty=penalty) for group in groups])
