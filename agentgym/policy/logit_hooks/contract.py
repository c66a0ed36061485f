"""What a logit hook is, and how one is made by its registered name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agentgym.errors import PolicyError
from agentgym.policy.contract import Policy, Request
from agentgym.registry import load
from agentgym.trajectory import TokenMask

if TYPE_CHECKING:  # rendering needs tokenizers
    from agentgym.policy.rendering import TemplateRenderer


class LogitHook(Protocol):
    """Made for one request, and asked before each of its tokens."""

    def __call__(self, tokens: Sequence[int]) -> TokenMask | None:
        """Which tokens may follow those sampled so far in this turn; None if any may. At least one has to be left."""
        ...


class HookMaker(Protocol):
    """What is registered in the kind `logit_hooks` returns one: it makes the hooks of a policy.

    It is registered as `f(renderer, end_ids, *, option=default, ...) -> HookMaker`: `renderer` of the policy, and the
    tokens that end a turn. With a keyword-only parameter `policy` it is given the policy itself.
    """

    def __call__(self, request: Request) -> LogitHook | None:
        """Return the hook of a request; None if its turn is not restricted."""
        ...


@runtime_checkable
class TrainedHookMaker(Protocol):
    """A maker of hooks that follows a training, and whose state a checkpoint keeps."""

    def begin(self) -> None:
        """Begin a training, which starts with the policy as it is now."""
        ...

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        ...

    def restore(self, folder: Path) -> None:
        """Continue as at a checkpoint, instead of `begin`."""
        ...


def note_mask(masks: list[tuple[int, int, TokenMask]], at: int, mask: TokenMask) -> None:
    """Add the mask of the token number `at` to a turn's record, where runs of one mask are one entry."""
    begin = masks.pop()[0] if masks and masks[-1][1:] == (at, mask) else at
    masks.append((begin, at + 1, mask))


def make_hook(
    name: str,
    renderer: TemplateRenderer,
    end_ids: Sequence[int],
    options: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
) -> HookMaker:
    """Make the hooks of a policy; one with a parameter `policy` is given it.

    Raises: UnknownNameError; PolicyError for options that it refuses.
    """
    factory = load("logit_hooks", name)
    own: dict[str, Any] = {"policy": policy} if "policy" in inspect.signature(factory).parameters else {}
    try:
        inspect.signature(factory).bind(renderer, end_ids, **own, **(options or {}))
    except TypeError as error:
        known = [name for name in list(inspect.signature(factory).parameters)[2:] if name != "policy"]
        raise PolicyError(
            f"The logit hook {name!r} refuses {dict(options or {})}: {error}. Its options are "
            f"{', '.join(known) or 'none'}."
        ) from error
    maker: HookMaker = factory(renderer, end_ids, **own, **(options or {}))
    return maker
