"""The price of an evaluation's tokens, and a limit on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.errors import EvaluationError
from agentgym.policy.account import SpendingLimit
from agentgym.trajectory.record import Trajectory

PRICE = "price"
"""The key in an episode's `usage` that holds the price of its tokens."""


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of a million prompt tokens and of a million tokens that the policy writes, in any currency.

    Raises: EvaluationError for a negative or infinite price.
    """

    prompt: float
    completion: float

    def __post_init__(self) -> None:
        if not all(math.isfinite(price) and price >= 0 for price in (self.prompt, self.completion)):
            raise EvaluationError(
                f"The price {self.prompt:g},{self.completion:g} is not valid: give two numbers of at least 0."
            )

    @classmethod
    def parse(cls, text: str) -> Price:
        """Read a price such as "0.15,0.6". Raises: EvaluationError."""
        try:
            prompt, completion = map(float, text.split(","))
        except ValueError as error:
            raise EvaluationError(
                f"--price {text!r} is not valid: give two numbers, the price of a million tokens read and of a "
                "million written, such as --price 0.15,0.6."
            ) from error
        return cls(prompt, completion)

    def of(self, usage: Mapping[str, float]) -> float:
        """Return the price of an episode's tokens."""
        tokens = (usage.get(name, 0.0) for name in ("prompt_tokens", "completion_tokens"))
        return sum(count * price for count, price in zip(tokens, (self.prompt, self.completion), strict=True)) / 1e6


@dataclass(slots=True)
class Spending:
    """What the episodes of an evaluation have cost so far.

    Attributes:
        price: the prices of tokens; if None, nothing is counted.
        most: the limit; None for no limit.
        spent: the price of the episodes counted so far.
    """

    price: Price | None = None
    most: float | None = None
    spent: float = 0.0

    def __post_init__(self) -> None:
        if self.most is not None and self.price is None:
            raise EvaluationError(
                "--max-cost needs --price IN,OUT, the price of a million tokens read and of a million written."
            )
        if self.most is not None and not self.most > 0:
            raise EvaluationError(f"--max-cost {self.most:g} is not valid: give a number above 0.")

    def account(self, file: Path) -> SpendingLimit | None:
        """Return an account that refuses paid requests beyond the limit; None without a limit.

        Args:
            file: keeps what was spent. Raises: LedgerError.
        """
        return None if self.price is None or self.most is None else SpendingLimit(self.price.of, self.most, file)

    def add(self, trajectory: Trajectory, done: int, total: int) -> None:
        """Count a finished episode. Raises: EvaluationError if the limit is exceeded, or the tokens are not known.

        Args:
            done: number of ended episodes, including this one. total: number of all episodes.
        """
        if self.price is None:
            return
        usage = trajectory.usage()
        if self.most is not None and trajectory.valid and trajectory.turns and "completion_tokens" not in usage:
            raise EvaluationError(
                "--max-cost has no effect with this policy, because it does not report how many tokens it uses. "
                "Leave it out."
            )
        self.spent += self.price.of(usage)
        if self.most is not None and self.spent > self.most and done < total:
            raise EvaluationError(
                f"The evaluation stopped after {done} of {total} episodes: they cost {self.spent:.4g}, more than "
                f"--max-cost {self.most:g}. With --out DIR they are kept. Give a higher --max-cost to continue, or a "
                "lower --limit."
            )
