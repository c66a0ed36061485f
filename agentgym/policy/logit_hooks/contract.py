"""The contracts of a logit hook, which forbids tokens, and of a tilt, which changes logits."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym.errors import PolicyError
from agentgym.policy.contract import Policy, Request
from agentgym.registry import load
from agentgym.trajectory import TokenMask

if TYPE_CHECKING:
    from agentgym.policy.rendering import TemplateRenderer


class LogitHook(Protocol):
    """A hook for one request, called before each of its tokens."""

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        """Return a mask, which allows at least one token, for the token after `tokens`; None if any may follow."""
        ...


class HookMaker(Protocol):
    """Makes the hooks of a policy.

    A factory registered in the kind `logit_hooks` returns it: `f(renderer, end_ids, *, option=default, ...)`, where
    `renderer` is the policy's and `end_ids` end a turn. A keyword-only parameter `policy` receives the policy itself.
    """

    def __call__(self, request: Request) -> LogitHook | None:
        """Return the hook of a request; None if its turn is not restricted."""
        ...


@runtime_checkable
class TrainedHookMaker(Protocol):
    """A hook maker that changes during training, with a state that is saved in checkpoints."""

    def begin(self) -> None:
        """Begin a training with the current policy."""
        ...

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        ...

    def restore(self, folder: Path) -> None:
        """Continue from a checkpoint; called instead of `begin`."""
        ...


def note_mask(masks: list[tuple[int, int, TokenMask]], at: int, mask: TokenMask) -> None:
    """Add the mask of token number `at` to a turn's record; consecutive equal masks share one entry."""
    begin = masks.pop()[0] if masks and masks[-1][1:] == (at, mask) else at
    masks.append((begin, at + 1, mask))


def make_hook(
    name: str,
    renderer: TemplateRenderer,
    end_ids: Sequence[int],
    options: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
) -> HookMaker:
    """Return the hook maker of a policy. A factory with a parameter `policy` receives the policy.

    Raises: UnknownNameError; PolicyError for invalid options.
    """
    factory = load("logit_hooks", name)
    own: dict[str, Any] = {"policy": policy} if "policy" in inspect.signature(factory).parameters else {}
    try:
        inspect.signature(factory).bind(renderer, end_ids, **own, **(options or {}))
    except TypeError as error:
        known = [name for name in list(inspect.signature(factory).parameters)[2:] if name != "policy"]
        raise PolicyError(
            f"The logit hook {name!r} does not accept the options {dict(options or {})}: {error}. Its options are: "
            f"{', '.join(known) or 'none'}."
        ) from error
    maker: HookMaker = factory(renderer, end_ids, **own, **(options or {}))
    return maker


@runtime_checkable
class LogitTilt(Protocol):
    """A logit hook that changes logits. Log-probabilities refer to the changed distribution.

    The changes are not recorded. So episodes sampled with a tilt can be used for measurement and imitation, but not for
    training on their log-probabilities.
    """

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        """Return None, since no token is masked."""
        ...

    def tilt(self, tokens: Sequence[int], logits: Any) -> Any:
        """Return the next token's logits, a tensor [V], from the model's own and the tokens of this turn so far."""
        ...
