"""A policy in which another policy takes some turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agentgym import Policy
from agentgym.policy import Reply, Request


class GuidedPolicy(Policy):
    """Plays with the learner's policy, except in the turns that `when` chooses, which a guide takes.

    The learner's renderer encodes what the guide writes, so that the record is exact. The guide's turns have no
    log-probabilities, and `Turn.policy` names the guide. Training on such an episode leaves these turns out of
    the loss.

    Args:
        learner: the policy of the episode. guide: an oracle's script, a chat policy or a checkpoint; any tokeniser
            works.
        when: returns whether the guide answers a request, for example `lambda request: request.turn < 2`.
    """

    def __init__(self, learner: Policy, guide: Policy, when: Callable[[Request], bool]) -> None:
        self.learner, self.guide, self.when = learner, guide, when
        self.name, self.renderer = learner.name, learner.renderer
        self.version, self.context_tokens = learner.version, learner.context_tokens

    @override
    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "learner": self.learner, "guide": self.guide, "when": self.when}

    @override
    async def check(self, request: Request) -> None:
        """Let the guide or the learner, whichever answers, check the constraints of a request."""
        await (self.guide if self.when(request) else self.learner).check(request)

    async def generate(self, request: Request) -> Reply:
        """Return the reply of the guide or the learner. Raises: as their `generate`."""
        if not self.when(request):
            return await self.learner.generate(request)
        renderer = self.guide.renderer
        prefix_ids = None if renderer is None else renderer.prompt(request.messages, request.tools)
        reply = await self.guide.generate(replace(request, prefix_ids=prefix_ids))
        token_ids = None
        if self.renderer is not None:
            token_ids = self.renderer.encode(request.with_call_ids(reply.message, self.renderer))
        return Reply(
            reply.message,
            token_ids,
            finish_reason=reply.finish_reason,
            policy_version=self.learner.version,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            policy=self.guide.name,
        )

    async def score(self, prefix_ids: Sequence[int], continuation_ids: Sequence[int]) -> list[float]:
        return await self.learner.score(prefix_ids, continuation_ids)

    async def refresh(self) -> None:
        await self.learner.refresh()
        await self.guide.refresh()

    def episode_started(self, episode: str) -> None:
        self.learner.episode_started(episode)
        self.guide.episode_started(episode)

    def episode_ended(self, episode: str) -> None:
        self.learner.episode_ended(episode)
        self.guide.episode_ended(episode)
