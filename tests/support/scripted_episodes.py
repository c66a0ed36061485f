"""What the tests of the episode room share: a counter to play, scripts to play it with, token-exact or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym import EpisodeManager, Policy, RolloutConfig, ScriptedPolicy, Task, Trajectory
from agentgym.messages import Call, Message
from agentgym.testing import ByteRenderer, Counter, TargetReached


def say(*calls: tuple[str, dict[str, Any]] | str, text: str = "") -> Message:
    """An assistant message that calls the given tools."""
    pairs = [(c, {}) if isinstance(c, str) else c for c in calls]
    return Message("assistant", text, tuple(Call(n, a, f"call_{i}") for i, (n, a) in enumerate(pairs)))


def counting(target: int = 2) -> list[Message]:
    """Add one `target` times, then submit."""
    return [*[say(("add", {"amount": 1}))] * target, say("submit")]


def task(name: str = "t", target: int = 2) -> Task:
    return Task(name, "test/counter-v1", f"Count to {target}.", parameters={"target": target}, truth=target)


async def play(
    script: Policy | Sequence[Message | str] | Any,
    *,
    exact: bool = True,
    environment: Any = Counter,
    reward: Any = None,
    target: int = 2,
    context_tokens: int | None = None,
    **options: Any,
) -> Trajectory:
    """One episode on a counter, from start to end. `exact`: with token ids, one a byte."""
    policy = script
    if not isinstance(script, Policy):
        policy = ScriptedPolicy(script, ByteRenderer() if exact else None)
        policy.context_tokens = context_tokens
    manager = make_manager(policy, environment=environment, reward=reward or TargetReached(), **options)
    return (await manager.collect([task(target=target)]))[0]


def make_manager(policy: Policy | Any, **options: Any) -> EpisodeManager:
    """A manager from options of its own and of RolloutConfig."""
    own = {name: options.pop(name) for name in ("ledger", "label") if name in options}
    return EpisodeManager(policy, RolloutConfig(**options), **own)
