"""A limit on what a run's requests to paid servers cost in all: those of agents, judges, users and teachers.

The account belongs to the run: code finds it in its context, and workers on other nodes report to it. It stores the
sums in a file of the run, so that a resumed run continues them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock
from typing import Protocol

from agentgym.errors import LedgerError, PolicyError

TOKENS = ("prompt_tokens", "completion_tokens")


class PaidAccount(Protocol):
    """What paid requests are charged to. `refusal`: why further requests are refused; empty while they are allowed."""

    @property
    def refusal(self) -> str: ...

    def check(self) -> None:
        """Raise PolicyError with the remedy if no more requests may be sent."""

    def charge(self, policy: str, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Count an answered request. Raises: PolicyError if the server does not report the number of tokens."""


class SpendingLimit:
    """The cost of paid requests so far. Once the limit is exceeded, further requests are refused.

    Args:
        price: returns the cost of requests, from the sums of their `prompt_tokens` and `completion_tokens`.
        most: the limit, in the currency of the price. A request that runs when the limit is exceeded is still counted.
        file: stores the sums; an existing file's sums are continued.
    Raises: LedgerError for a file that holds no sums.
    """

    def __init__(self, price: Callable[[Mapping[str, float]], float], most: float, file: Path | None = None) -> None:
        self.price, self.most, self._file, self._lock = price, most, file, Lock()
        self._tokens = dict.fromkeys(TOKENS, 0)
        if file is not None and file.exists():
            self._tokens = _read(file)

    @property
    def spent(self) -> float:
        """The cost so far, including earlier parts of a resumed run."""
        return self.price(self._tokens)

    @property
    def refusal(self) -> str:
        """Why further requests are refused; empty below the limit."""
        if (spent := self.spent) <= self.most:
            return ""
        return (
            f"The requests have cost {spent:.4g}, more than --max-cost {self.most:g}: no more are sent. Give a higher "
            "--max-cost to go on."
        )

    def check(self) -> None:
        """Raise PolicyError with the remedy if the limit is exceeded."""
        if refusal := self.refusal:
            raise PolicyError(refusal)

    def charge(self, policy: str, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Count an answered request. Raises: PolicyError if the server does not report the number of tokens."""
        check_reported(policy, prompt_tokens, completion_tokens)
        with self._lock:
            self._tokens = {
                "prompt_tokens": self._tokens["prompt_tokens"] + prompt_tokens,
                "completion_tokens": self._tokens["completion_tokens"] + completion_tokens,
            }
            if self._file is not None:
                part = self._file.with_name(f"{self._file.name}.part")
                part.write_text(json.dumps(self._tokens), encoding="utf-8")
                part.replace(self._file)


def check_reported(policy: str, prompt_tokens: int, completion_tokens: int) -> None:
    """Raise PolicyError if a server reports no numbers of tokens, which a limit on the cost needs."""
    if not prompt_tokens and not completion_tokens:
        raise PolicyError(
            f"{policy} does not report how many tokens a request took, so --max-cost cannot limit its cost."
        )


def _read(file: Path) -> dict[str, int]:
    try:
        sums = json.loads(file.read_text(encoding="utf-8"))
        return {name: int(sums[name]) for name in TOKENS}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            f"{file} does not hold what the run has spent ({type(error).__name__}: {error}). Restore it, or remove it "
            "to begin at 0."
        ) from error


_account: ContextVar[PaidAccount | None] = ContextVar("agentgym_account", default=None)


@contextmanager
def charged_to(account: PaidAccount | None) -> Iterator[None]:
    """Charge the paid requests made inside the block to an account; None charges nothing."""
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


def open_account() -> PaidAccount | None:
    """Return the account of the enclosing `charged_to`; None outside one."""
    return _account.get()
