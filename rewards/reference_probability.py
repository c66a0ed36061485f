"""`reference_probability`: the probability that the policy gives to the reference answer after its own reasoning.

For tasks whose answers no rule can check. Reasoning that makes the reference answer likely is rewarded; the agent's own
answer does not matter.
Source: RLPR, Yu et al. 2025, arXiv:2506.18254, section 3: the mean probability of the reference's tokens after the
reasoning, minus the mean without any reasoning, clipped to 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Policy, Reward, Trajectory
from agentgym.reward import Components

from .answer_likelihood import answer_message, before_answer, has_tokens, probabilities, renderer_of
from .final_answer import final_answer, gold_answers


class ReferenceProbability(Reward):
    """Outcome components `reference_probability`, 0 to 1, see `debias`; and `reference_raw`, not debiased, weight 0.

    The reference is `truth["answer"]`, written as a call of the final tool. An episode without token ids (from a script
    or an API) has neither component.

    Args:
        policy: scores the tokens; None for the playing policy.
        tool: the final tool that takes the answer; None if the answer is plain text. argument: the tool's argument.
        debias: whether to subtract the probability of the reference without any reasoning.
    """

    weights: Mapping[str, float] = {"reference_raw": 0.0}

    def __init__(
        self, policy: Policy | None = None, tool: str | None = "answer", argument: str = "text", debias: bool = True
    ) -> None:
        self.policy, self.tool, self.argument, self.debias = policy, tool, argument, debias
        self._has_own_policy = policy is not None

    def bind_policy(self, policy: Policy) -> None:
        if not self._has_own_policy:
            self.policy = policy

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError without a gold answer or a policy that can score; PolicyError if the policy fails.
        """
        gold = gold_answers(episode, "reference_probability")[0]
        if not has_tokens(episode):
            return {}
        renderer = renderer_of(self.policy, "reference_probability")
        assert self.policy is not None
        reference = renderer.encode(answer_message(gold, self.tool, self.argument))
        own = final_answer(episode, self.argument)
        own_ids = [] if own is None else renderer.encode(answer_message(own, self.tool, self.argument))
        raw = _mean(await probabilities(self.policy, before_answer(episode, own_ids), reference))
        if not self.debias:
            return {"reference_probability": raw, "reference_raw": raw}
        prompt: list[int] = list(episode.prompt_ids)
        without = _mean(await probabilities(self.policy, prompt, reference))
        return {"reference_probability": min(max(raw - without, 0.0), 1.0), "reference_raw": raw}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
