"""What the loop checks in a policy's reply, and what it tells the agent in its own words."""

from __future__ import annotations

from agentgym.errors import PolicyError
from agentgym.messages import Call, Result, ResultStatus
from agentgym.policy.contract import Policy, Reply

EMPTY = "Your message was empty. Call a tool, or say your answer."
CUT = "Your message was cut off at {tokens} tokens, before it held a complete call. Be shorter and call a tool."


def over_budget(call: Call, what: str) -> Result:
    """The result of a call that was not run to its end, because `what` is used up."""
    text = f"This call was not finished: the episode has used up {what}."
    return Result(text, ResultStatus.OVER_BUDGET, call.name, call.id)


def check_reply(policy: Policy, reply: Reply) -> None:
    """See that a reply keeps the policy contract. Raises: PolicyError that says how it does not."""
    if reply.message.role != "assistant":
        raise PolicyError(f"The policy answered as {reply.message.role!r}; a reply is an assistant message.")
    if policy.renderer is not None and reply.token_ids is None:
        raise PolicyError(
            f"The policy {policy.name!r} has a renderer but returned no token ids, so its episode cannot be "
            "token-exact. Return Reply.token_ids, or set renderer to None."
        )
    if reply.logprobs is not None and len(reply.logprobs) != len(reply.token_ids or ()):
        raise PolicyError(
            f"The policy {policy.name!r} returned {len(reply.token_ids or ())} token ids and "
            f"{len(reply.logprobs)} log-probabilities; there is one for each token."
        )
