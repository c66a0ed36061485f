"""The audit of a run's credit: in an environment whose values are known, playing on finds them."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym import EpisodeManager, Policy, RolloutConfig, Task, Trajectory, tool
from agentgym.credit import Group, estimator
from agentgym.errors import EvaluationError
from agentgym.messages import Call, Message
from agentgym.methods.credit_audit import audit
from agentgym.policy import Reply, Request
from agentgym.testing import Counter, CounterWithState, TargetReached


class Gambler(Policy):
    """Adds 1 or 2 by chance in its first turn, adds 0 in its second, then submits: only turn 0 decides."""

    name = "gambler"

    async def generate(self, request: Request) -> Reply:
        amount = int(np.random.default_rng(request.sampling.seed).integers(1, 3))
        calls = [Call("add", {"amount": amount}), Call("add", {"amount": 0}), Call("submit", {})]
        return Reply(Message("assistant", "", (calls[min(request.turn, 2)],)))


group_of = Group.from_trajectories


class Outcome(TargetReached):
    """Success alone."""

    weights = {"ok": 0.0}


def manager(environment: type[Counter] = CounterWithState, run: str = "play") -> EpisodeManager:
    return EpisodeManager(Gambler(), RolloutConfig(environment=environment, reward=Outcome(), seed=3), label=run)


async def groups(environment: type[Counter] = CounterWithState, size: int = 8) -> list[list[Trajectory]]:
    tasks = [Task(f"t{n}", "test/counter-v1", "Count to 2.", parameters={"target": 2}, truth=2) for n in range(4)]
    trajectories = await manager(environment).collect(tasks, size)
    return [trajectories[at : at + size] for at in range(0, len(trajectories), size)]


async def test_credit_that_follows_the_outcome_agrees_with_the_decisive_turn():
    """V is 0.5 before turn 0 and 0 or 1 after it, so turn 0 gets about +-0.5 and the others exactly 0."""
    seen: list[tuple[int, int]] = []
    result = await audit(
        await groups(),
        [estimator("rloo"), estimator("return_to_go")],
        manager(run="audit"),
        sample=12,
        continuations=3,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert result.trajectories == 12
    assert result.turns == 36
    assert result.continuations == 12 * 2 * 3 == seen[-1][0] == seen[-1][1]
    assert result.diverged == 0
    for name in ("rloo", "return_to_go"):
        agreed = result.agreements[name]
        assert agreed.signed == 12  # the other turns are worth exactly nothing
        assert agreed.sign == 1.0
        assert agreed.rank > 0.3  # credit on all three turns where only one has any
    assert result.facts["rloo"].zero_gradient == 0.0


async def test_credit_that_was_recorded_is_compared_as_it_stands():
    """With its sign turned it disagrees everywhere; of a trajectory that nobody gave credit nothing can be said."""
    batch = await groups()
    given = {t.id: -a for group in batch for t, a in zip(group, estimator("rloo")(group_of(group)), strict=True)}
    result = await audit(batch, [], manager(run="audit"), sample=6, continuations=2, recorded={"turned": given})
    assert result.agreements["turned"].sign == 0.0
    with pytest.raises(EvaluationError, match="under the name 'turned'"):
        await audit(batch, [], manager(run="audit"), recorded={"turned": {}})


class Restless(Counter):
    """Never answers the same twice."""

    count = 0

    @tool(inline=True)
    def add(self, amount: int = 1) -> str:
        """Add to the counter and read it."""
        Restless.count += 1
        self.value += amount
        return f"{self.value}, the {Restless.count}th time"


async def test_an_environment_that_cannot_be_replayed_cannot_be_audited_and_the_error_says_so():
    with pytest.raises(EvaluationError, match="every replay differed"):
        await audit(await groups(Restless), [estimator("rloo")], manager(Restless, "audit"), sample=2, continuations=2)


async def test_groups_without_two_valid_trajectories_have_no_credit():
    with pytest.raises(EvaluationError, match="two valid trajectories"):
        await audit([], [estimator("rloo")], manager())
