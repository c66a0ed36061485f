"""Finds where the final answer begins in an episode's tokens, and computes the likelihood of any answer there.

`reference_probability` and `answer_consistency` share these functions; both need a policy that can score tokens.
"""

from __future__ import annotations

import math
from typing import Any

from agentgym import Call, JudgeError, Message, Policy, Trajectory


def answer_message(text: str, tool: str | None, argument: str) -> Message:
    """Return the message that gives an answer: a call of a final tool, or plain text if `tool` is None."""
    if tool is None:
        return Message("assistant", text)
    return Message("assistant", "", (Call(tool, {argument: text}),))


def before_answer(episode: Any, answer_ids: list[int]) -> list[int]:
    """Return the token ids of the prompt, all turns and the last turn's reasoning, up to its answer.

    The answer is the longest common suffix of the last turn and `answer_ids`, which encode only the answer.
    """
    last_turn = episode.turns[-1]
    row = next(row for row in episode.rows() if row.turns and row.turns[-1] is last_turn)
    ids = list(row.prompt_ids)
    for turn in row.turns[:-1]:
        ids += [*turn.token_ids, *turn.observation_ids]
    last = last_turn.token_ids
    shared = 0
    while shared < min(len(last), len(answer_ids)) and last[-1 - shared] == answer_ids[-1 - shared]:
        shared += 1
    return [*ids, *last[: len(last) - shared]]


def renderer_of(policy: Policy | None, judge: str) -> Any:
    """Return the renderer of a policy that can score. Raises: JudgeError saying what is missing."""
    if policy is None:
        raise JudgeError(
            f"{judge} needs a policy that can score tokens. Play with a single Policy, or pass one to the reward."
        )
    if policy.renderer is None:
        raise JudgeError(
            f"{judge} cannot score the tokens of an answer with {policy.name}, because that policy has no renderer. "
            "Use a local model, or one on a vLLM server."
        )
    return policy.renderer


async def probabilities(policy: Policy, prefix: list[int], continuation: list[int]) -> list[float]:
    """Return the probability of each continuation token, 0 to 1. Raises: PolicyError."""
    return [math.exp(min(logprob, 0.0)) for logprob in await policy.score(prefix, continuation)]


def has_tokens(episode: Trajectory) -> bool:
    """Return whether the episode has token ids. Episodes of scripts and APIs have none and cannot be trained on."""
    turns: Any = episode.turns
    return bool(turns) and bool(turns[-1].token_ids)
