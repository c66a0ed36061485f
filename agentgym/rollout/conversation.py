"""The conversation of an episode: its messages, and their exact token ids if the policy has a renderer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.messages import Call, Message, Result, ResultStatus
from agentgym.policy.contract import Renderer, Reply
from agentgym.rollout.environment_handle import EnvironmentState
from agentgym.trajectory.turn import Turn

EMPTY = "Your message was empty. Call a tool, or say your answer."
CUT = "Your message was cut off at {tokens} tokens, before it held a complete call. Be shorter and call a tool."
FILTERED = "A content filter stopped your message. Say it in other words, or go another way."
OVER_BUDGET = "This call was not finished: the episode has used up {budget}."


class Conversation:
    """The messages of an episode so far. The policy's own token ids are kept as sampled and never re-encoded.

    Attributes:
        messages: all messages, in order.
        prompt_ids: token ids of the opening messages; empty without a renderer.
        prefix_ids: token ids of everything so far, which the next reply continues; None without a renderer.
    """

    def __init__(
        self, opening: Sequence[Message], tool_schemas: Sequence[dict[str, Any]], renderer: Renderer | None
    ) -> None:
        self.messages = list(opening)
        self._renderer = renderer
        self.prompt_ids: list[int] = [] if renderer is None else renderer.prompt(opening, tool_schemas)
        self.prefix_ids: list[int] | None = None if renderer is None else list(self.prompt_ids)
        self._end_of_turn = [] if renderer is None else renderer.encode(Message("assistant", ""))[-1:]

    def append(self, turn: Turn) -> list[int]:
        """Add the agent's message and its results. Returns: token ids from the results up to the next reply."""
        observation = [Message("tool", r.content, (), r.call_id, r.name) for r in turn.results]
        observation += turn.replies
        return self.extend(turn, observation)

    def extend(self, turn: Turn, observation: Sequence[Message]) -> list[int]:
        """Add the agent's message and the messages that the policy reads next. Returns: as `append`."""
        self.messages.append(turn.message)
        self.messages += observation
        if self.prefix_ids is None or self._renderer is None:
            return []
        if after_turn := getattr(self._renderer, "after_turn", None):
            observation_ids: list[int] = after_turn(turn.token_ids, observation)
        else:
            observation_ids = self._renderer.observation(observation)
            if turn.token_ids[-1:] != self._end_of_turn:  # truncated or ended by a stop text: add the end
                observation_ids = [*self._end_of_turn, *observation_ids]
        self.prefix_ids += turn.token_ids
        self.prefix_ids += observation_ids
        return observation_ids

    def room(self, context_tokens: int | None) -> int | None:
        """Return how many tokens are left in the policy's context window; None if unknown."""
        if self.prefix_ids is None or context_tokens is None:
            return None
        return context_tokens - len(self.prefix_ids)


class Attempt:
    """The part of an ongoing conversation that belongs to a renewed environment.

    Args:
        start: the first turn in the environment.
        opening: the environment's opening messages.
    """

    def __init__(self, start: int, opening: Sequence[Message]) -> None:
        self._start, self._opening = start, opening
        self._conversation: Conversation | None = None
        self._earlier = 0  # messages of the conversation before the renewal

    def at(self, conversation: Conversation, turn: int) -> tuple[int, Sequence[Message]]:
        """Return the first turn in the environment, and the conversation as if the episode had begun there."""
        if turn == self._start:
            self._conversation, self._earlier = conversation, len(conversation.messages)
        if conversation is not self._conversation:  # the conversation of a context that the environment has begun
            return self._start, tuple(conversation.messages)
        return self._start, (*self._opening, *conversation.messages[self._earlier :])


def open_turn(index: int, reply: Reply, state: EnvironmentState, costs: Mapping[str, float]) -> Turn:
    """Return the turn that a reply begins, without its results.

    Args:
        state: the state of the environment before the turn.
        costs: cost per call, by tool name.
    """
    message = reply.message
    usage: dict[str, float] = {}
    if reply.prompt_tokens or reply.completion_tokens:
        usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    if costs and (cost := sum(costs.get(call.name, 0.0) for call in message.calls)):
        usage["cost"] = cost
    return Turn(
        index=index,
        message=message,
        calls=message.calls,
        token_ids=reply.token_ids or [],
        logprobs=reply.logprobs or [],
        masks=reply.masks,
        policy=reply.policy,
        policy_version=reply.policy_version,
        version_changes=tuple(reply.version_changes),
        state_key=state.state_key,
        potential=state.potential,
        finish_reason=reply.finish_reason,
        usage=usage,
    )


def tools_change(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> str:
    """Return the message that tells an agent of changed tools during an episode; empty if they did not change.

    The prompt is rendered only once, so a policy that continues its own tokens would otherwise not see the change.

    Args:
        before, after: schemas in the OpenAI function-call shape.
    """
    new = [json.dumps(schema, ensure_ascii=False) for schema in after if schema not in before]
    names = {schema["function"]["name"] for schema in after}
    gone = [schema["function"]["name"] for schema in before if schema["function"]["name"] not in names]
    lines = [f"New tools:\n{chr(10).join(new)}"] if new else []
    lines += [f"Tools that are no longer available: {', '.join(gone)}."] if gone else []
    return "\n".join(lines)


def over_budget(call: Call, budget: str) -> Result:
    """Return the result of a call that was not run, or not to its end, because `budget` is used up."""
    return Result(OVER_BUDGET.format(budget=budget), ResultStatus.OVER_BUDGET, call.name, call.id)
