"""Whether a server that runs already has the base model that an adapter is trained for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.errors import RecipeError
from agentgym.messages import Message
from agentgym.policy.decoding import score
from agentgym.policy.transformers import evaluating
from agentgym.policy.vllm import VllmPolicy

PROMPT = "Sort the numbers 12, 7 and 305, add them up, and say in one short sentence which of them is the largest."
"""Scored by both. Any text does on which two models differ."""


@dataclass(frozen=True, slots=True)
class BaseModelCheck:
    """Compares the log-probabilities of a short prompt: those of a server, and of the model beneath an adapter here.

    Attributes:
        model: with its adapter, which is left out of the comparison.
        url: of the server. source: of the model, for the error.
        most: nats a token by which they may differ on average: rounding, not another model.
        autocast: torch dtype that training computes in.
    """

    model: Any
    url: str
    source: str
    most: float
    autocast: Any = None

    async def __call__(self, server: VllmPolicy) -> None:
        """Raise RecipeError if they differ; PolicyError if the server does not score."""
        ids = server.renderer.prompt([Message("user", PROMPT)], [])
        served = await server.score(ids[:1], ids[1:])
        own = self._own_logprobs(ids)  # not in threads: for two servers at once they would switch one adapter
        difference = float(np.mean(np.abs(np.subtract(served, own))))
        if not difference <= self.most:
            raise RecipeError(
                f"vllm.url = {self.url!r}: the server's model {server.model!r} is not the base model of policy.path = "
                f"{self.source!r}, for which the adapter is trained: the log-probabilities of a short prompt are "
                f"{difference:.2g} nats a token apart, and guard.drift = {self.most:g} allows for rounding. Start the "
                "server anew with that model. A server that was given the weights of another run needs that, too."
            )

    def _own_logprobs(self, ids: list[int]) -> list[float]:
        """[L - 1] of the tokens after the first, in nats."""
        with self.model.disable_adapter(), evaluating(self.model, self.autocast):
            logprobs: list[float] = score(self.model, ids[0], [(ids[:1], ids[1:])])[0]
        return logprobs
