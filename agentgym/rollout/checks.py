"""Check the results of environments and policies, so that an error names the code that returned a wrong result."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.policy.contract import Policy, Reply
from agentgym.rollout.failures import defined_at


def check_messages(answer: Any, method: Callable[..., Any], example: str) -> None:
    """Check the result of `reset` or `respond`. Raises: TypeError naming the method and where it is defined."""
    if isinstance(answer, (list, tuple)) and all(isinstance(message, Message) for message in answer):
        return
    location = defined_at(method)
    raise TypeError(
        (
            f"{method.__qualname__} returned {answer!r:.80}, but it must return a list of messages, for example "
            f"`{example}`."
        )
        + (f" See {location}." if location else "")
    )


async def awaited(answer: Awaitable[Any], method: Callable[..., Any]) -> Any:
    """Await the result of an environment's method. Raises: TypeError, with the location, if it is not async."""
    if inspect.isawaitable(answer):
        return await answer
    location = defined_at(method)
    raise TypeError(
        (
            f"{method.__qualname__} must be a coroutine, but it returned a {type(answer).__name__}. Define it "
            "with `async def`, and `return` the messages in place of `yield`."
        )
        + (f" See {location}." if location else "")
    )


def check_reply(policy: Policy, reply: Reply) -> None:
    """Check that a reply satisfies the policy contract. Raises: PolicyError naming the breach."""
    if reply.message.role != "assistant":
        raise PolicyError(
            f"The policy answered with the role {reply.message.role!r}, but a reply must be an assistant message."
        )
    if policy.renderer is not None and reply.token_ids is None:
        raise PolicyError(
            f"The policy {policy.name!r} has a renderer but returned no token ids, so its episode cannot be "
            "token-exact. Return Reply.token_ids, or set renderer to None."
        )
    if reply.logprobs is not None and len(reply.logprobs) != len(reply.token_ids or ()):
        raise PolicyError(
            f"The policy {policy.name!r} returned {len(reply.token_ids or ())} token ids, but {len(reply.logprobs)} "
            "log-probabilities. Return one for each token."
        )
