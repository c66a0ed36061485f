"""A limit on the cost of this process's requests to paid servers: by agents, judges, users and teachers together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from agentgym.errors import PolicyError

_open: list[SpendingLimit] = []
"""The accounts that are open now; requests are charged to the last account."""


class SpendingLimit:
    """The cost of paid requests so far. Once the limit is exceeded, further requests are refused.

    Args:
        price: returns the cost of a request, from its `prompt_tokens` and `completion_tokens`.
        most: the limit, in the currency of the price. Requests that run when the limit is reached still count.
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
        """Count an answered request. Raises: PolicyError if the server does not report the number of tokens."""
        if not prompt_tokens and not completion_tokens:
            raise PolicyError(f"{policy} does not report its tokens, so --max-cost cannot limit what they cost.")
        self.spent += self._price({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens})


@contextmanager
def charged_to(account: SpendingLimit | None) -> Iterator[None]:
    """Charge the paid requests of this process to an account inside the block; None charges nothing."""
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
