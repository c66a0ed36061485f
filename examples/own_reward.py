"""A reward of your own: named components, one of which has a small weight.

python examples/own_reward.py
"""

from __future__ import annotations

import asyncio

from agentgym import Environment, EpisodeManager, JudgeError, Reward, RolloutConfig, ScriptedPolicy, Task, register


class Chat(Environment):
    """A conversation without tools. In memory: nothing here needs isolation."""


class RightAndShort(Reward):
    """`success` for the right answer, and up to 0.1 more for few words."""

    weights = {"short": 0.1}  # a component that is not named here weighs 1

    def outcome(self, episode):
        if episode.task.truth is None:
            raise JudgeError(f"{episode.task.id} has no truth: without it nobody can say what is right.")
        answer = episode.turns[-1].message.text
        right = episode.task.truth in answer.split()
        return {"success": float(right), "short": 1 / len(answer.split()) if right else 0.0}


async def main() -> None:
    register("acme/chat-v1", Chat)
    task = Task("sum", "acme/chat-v1", "What is 6 * 7?", truth="42")
    reward = RightAndShort()
    for answer in ("42", "I believe it is 42", "41"):
        manager = EpisodeManager(ScriptedPolicy([answer]), RolloutConfig(reward=reward))
        [episode] = await manager.collect([task])
        print(f"{answer!r:22} {episode.outcome} -> {reward.total(episode.outcome):.3f}")


if __name__ == "__main__":
    asyncio.run(main())
