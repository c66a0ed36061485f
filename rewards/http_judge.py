"""`http_judge`: an HTTP service judges the episode.

The request is `{"task": {id, prompt, truth}, "answer": ..., "messages": [...], "stop_reason": ...}`, the response
`{"components": {"success": 1.0, ...}}`. The request contains the truth: run the service on a machine that may know the
truth.
Source: verifier server of V-Triune, Ma et al. 2025, arXiv:2505.18129, section 3.2.
"""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, PolicyError, Reward, RewardError, Trajectory
from agentgym.policy import JsonEndpoint, RetryPolicy
from agentgym.reward import Components, judge_submission, validate_components

from .chat_judge import HARMLESS
from .final_answer import final_answer


class _Refused(Exception):
    """The service did not judge a request."""


def _harmless(body: dict[str, Any]) -> dict[str, Any]:
    """Return the request with a harmless answer in place of everything that the agent wrote."""
    answer = {"role": "assistant", "text": HARMLESS, "calls": []}
    opening = [message for message in body["messages"] if message["role"] in ("system", "user")]
    return {**body, "answer": HARMLESS, "messages": [*opening, answer]}


class HttpJudge(Reward):
    """Outcome components as the service at `url` returns them.

    An episode may prevent its verdict: the service refuses it, or returns no components, but judges the same task with
    a harmless answer. Such an episode gets the harmless answer's components, each lowered to at most 0.

    Args:
        url: base URL of the service. path: the path that accepts episodes.
        weights: weights of the returned components. argument: the final tool's argument with the answer.
        connections: largest number of open connections; further episodes wait.
        attempts: tries per request. attempt_s: seconds per try.
        remembered: size of the cache of verdicts, which avoids sending an equal episode again.
    """

    def __init__(
        self,
        url: str | None = None,
        path: str = "/judge",
        *,
        weights: Mapping[str, float] | None = None,
        argument: str = "text",
        connections: int = 16,
        attempts: int = 4,
        attempt_s: float = 30.0,
        remembered: int = 10_000,
    ) -> None:
        self.weights, self.argument, self.path, self.remembered = dict(weights or {}), argument, path, remembered
        retry_policy = RetryPolicy(attempt_s=attempt_s, total_s=attempt_s * attempts, attempts=attempts)
        self._endpoint = JsonEndpoint(url, retry_policy=retry_policy, connections=connections) if url else None
        self._cache: OrderedDict[str, Components] = OrderedDict()

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError without a URL, if the service cannot be reached, or if its response has another form.
        """
        if self._endpoint is None:
            raise JudgeError("http_judge has no judging service. Give it the option `url`.")
        body = self._body(episode)
        key = hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
        if key in self._cache:
            return dict(self._cache[key])
        control: Components = {}

        async def ask_control() -> None:
            control.update(await self._ask(_harmless(body)))

        checked = await judge_submission(lambda: self._ask(body), ask_control, control, errors=(_Refused, ValueError))
        if checked is control:
            return {name: min(value, 0.0) for name, value in control.items()}
        self._cache[key] = dict(checked)
        while len(self._cache) > self.remembered:
            self._cache.popitem(last=False)
        return dict(checked)

    async def _ask(self, body: dict[str, Any]) -> Components:
        """Return the components of one request. Raises: _Refused."""
        assert self._endpoint is not None
        try:
            answer = await self._endpoint.post(self.path, body)
        except (PolicyError, RecursionError) as error:
            raise _Refused(f"The judging service failed: {error}") from error
        components = answer.get("components") if isinstance(answer, dict) else None
        try:
            return await validate_components(components, self)
        except RewardError as error:  # the service is at fault, not one of our rewards
            raise _Refused(
                f"The judging service returned something that is not a dict of components: {error}"
            ) from error

    def _body(self, episode: Trajectory) -> dict[str, Any]:
        task = episode.task
        messages: list[dict[str, Any]] = [{"role": m.role, "text": m.text} for m in task.opening()]
        for turn in episode.turns:
            calls = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
            messages.append({"role": "assistant", "text": turn.message.text, "calls": calls})
            messages += [
                {"role": "tool", "name": r.name, "status": r.status.value, "text": r.message().text}
                for r in turn.results
            ]
        return {
            "task": {"id": task.id, "prompt": task.prompt, "truth": task.truth},
            "answer": final_answer(episode, self.argument),
            "messages": messages,
            "stop_reason": episode.stop_reason.value if episode.stop_reason else None,
        }
