"""Every registered objective and loss term keeps its contract, and the check finds one that does not."""

from __future__ import annotations

import pytest
import torch

from agentgym.errors import ConformanceError
from agentgym.registry import names
from agentgym.testing import check_objective


@pytest.mark.parametrize("name", [*names("objectives"), *names("loss_terms")])
def test_an_objective_or_term_keeps_its_contract(name):
    check_objective(name)


def whole_batch(tokens):
    """Divides by the tokens of all episodes."""
    return (tokens.logps * tokens.own).sum(1) / tokens.own.sum()


def every_token(tokens):
    """Trains results too."""
    return tokens.logps.sum(1)


def one_number(tokens):
    """Means over the batch."""
    return tokens.per_row(tokens.logps).mean()


def without_the_failed(tokens):
    """Divides by 0 where an episode failed."""
    return (tokens.logps * tokens.own).sum(1) / tokens.own.sum(1)


def explodes(tokens):
    """Reads what is not there."""
    return tokens.logp


def nameless(tokens):
    return tokens.per_row(tokens.logps)


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        (whole_batch, "must not depend on others"),
        (every_token, "Tokens that the agent did not write have a gradient"),
        (one_number, r"the shape \(\) for 5 episodes"),
        (without_the_failed, "not finite"),
        (explodes, "raised AttributeError"),
        (nameless, "no docstring"),
    ],
)
def test_a_breach_is_found(function, finding):
    with pytest.raises(ConformanceError, match=finding):
        check_objective(function)


def test_options_are_handed_on():
    def scaled(tokens: object, *, factor: float) -> torch.Tensor:
        """A factor of any kind."""
        return tokens.per_row(tokens.logps) * factor

    check_objective(scaled, factor=2.0)
    with pytest.raises(ConformanceError, match="not finite"):
        check_objective(scaled, factor=float("inf"))
