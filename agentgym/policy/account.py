"""A limit on what the requests of this process to paid servers cost, by agents, judges, users and teachers together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from agentgym.errors import PolicyError

_open: list[SpendingLimit] = []
"""The accounts that are open now; requests are charged to the last."""


class SpendingLimit:
    """What paid requests have cost so far. Requests after the limit is exceeded are refused.

    Args:
        price: returns what a request costs, from its `prompt_tokens` and `completion_tokens`.
        most: the limit, in the currency of the price. Requests that are under way when it is reached still count.
    """

    def __init__(self, price: Callable[[Mapping[str, float]], float], most: float) -> None:
        self._price, self._most, self.spent = price, most, 0.0

    def check(self) -> None:
        """Raise PolicyError with the remedy if the limit is exceeded."""
        if self.spent > self._most:
            raise PolicyError(
                f"The requests have cost {self.spent:.4g}, more than --max-cost {self._most:g}: no more are sent. Give "
                "a higher --max-cost to go on."
            )

    def charge(self, policy: str, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Count a request that was answered. Raises: PolicyError if its server does not say how many tokens it took."""
        if not prompt_tokens and not completion_tokens:
            raise PolicyError(f"{policy} does not report its tokens, so --max-cost cannot limit what they cost.")
        self.spent += self._price({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens})


@contextmanager
def charged_to(account: SpendingLimit | None) -> Iterator[None]:
    """Charge the paid requests of this process to an account inside of the block; None charges nothing."""
    if account is None:
        yield
        return
    _open.append(account)
    try:
        yield
    finally:
        _open.remove(account)


def open_account() -> SpendingLimit | None:
    """Return the account that a paid request is charged to now."""
    return _open[-1] if _open else None
