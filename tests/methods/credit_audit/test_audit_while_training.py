"""The audit of a step: which steps, what it costs, and what is said where nothing can be compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from agentgym import Policy, RolloutConfig, Task, Trajectory, tool
from agentgym.credit import Group, estimator
from agentgym.messages import Call, Message
from agentgym.methods.credit_audit.training_part import StepAudit
from agentgym.policy import Reply, Request
from agentgym.registry import register
from agentgym.testing import Counter, CounterWithState, TargetReached
from agentgym.training import Rollouts

SIZE = 8


class Gambler(Policy):
    """Adds 1 or 2 by chance in its first turn, adds 0 in its second, then submits: only turn 0 decides."""

    name = "gambler"

    async def generate(self, request: Request) -> Reply:
        amount = int(np.random.default_rng(request.sampling.seed).integers(1, 3))
        calls = [Call("add", {"amount": amount}), Call("add", {"amount": 0}), Call("submit", {})]
        return Reply(Message("assistant", "", (calls[min(request.turn, 2)],)))


class Outcome(TargetReached):
    """Success alone."""

    weights = {"ok": 0.0}


class Restless(Counter):
    """Never answers the same twice."""

    count = 0

    @tool(inline=True)
    def add(self, amount: int = 1) -> str:
        """Add to the counter and read it."""
        Restless.count += 1
        self.value += amount
        return f"{self.value}, the {Restless.count}th time"


register("test/audited-counter-v1", CounterWithState)
register("test/restless-counter-v1", Restless)


@pytest.fixture
def rollouts() -> Iterator[Rollouts]:
    with Rollouts(RolloutConfig(reward=Outcome(), seed=3)) as opened:
        yield opened


def batch(
    rollouts: Rollouts, environment: str = "test/audited-counter-v1"
) -> tuple[list[Trajectory], list[np.ndarray]]:
    """Two groups with the credit of `rloo`."""
    tasks = [Task(f"t{n}", environment, "Count to 2.", parameters={"target": 2}, truth=2) for n in range(2)]
    trajectories = rollouts.play(Gambler(), tasks, label="train-000000", group_size=SIZE)
    groups = [Group.from_trajectories(trajectories[at : at + SIZE]) for at in (0, SIZE)]
    return trajectories, [advantages for group in groups for advantages in estimator("rloo")(group)]


def audit_of(rollouts: Rollouts, *, iterations: int = 1, **options: int) -> StepAudit:
    ticks = itertools.count(0.0, 1.5)
    options = {"every": 1, "sample": 6, "continuations": 2, **options}
    return StepAudit(Gambler(), rollouts, **options, group_size=SIZE, iterations=iterations, clock=lambda: next(ticks))


def test_the_decisive_turn_has_the_sign_of_the_truth_and_the_cost_is_told(rollouts: Rollouts):
    """Six trajectories of three turns, played on twice from two of them each; 1.5 s on a clock of two ticks."""
    trajectories, credit = batch(rollouts)
    metrics = audit_of(rollouts)(0, trajectories, credit)
    assert metrics["audit/sign"] == 1.0
    assert metrics["audit/rank"] > 0.3
    assert (metrics["audit/turns"], metrics["audit/episodes"], metrics["audit/diverged"]) == (18, 24, 0)
    assert metrics["audit/seconds"] == 1.5
    assert metrics["audit/zero_gradient"] == 0.0
    assert 0 <= metrics["audit/singletons"] <= 1


@pytest.mark.parametrize(
    ("every", "iterations", "audited"), [(1, 1, [0, 1, 2, 3, 4, 5]), (2, 1, [1, 3, 5]), (2, 3, [3])]
)
def test_every_so_many_steps_of_the_recipe(rollouts: Rollouts, every: int, iterations: int, audited: list[int]):
    """Batches come every `iterations` optimiser steps; with (2, 3) those are 0, 3, 6, and the second is audited."""
    audit = audit_of(rollouts, every=every, iterations=iterations)
    assert [step for step in range(0, 6, iterations) if audit(step, [], [])] == audited


def test_an_environment_that_cannot_be_replayed_costs_its_episodes_and_training_goes_on(rollouts: Rollouts):
    metrics = audit_of(rollouts)(0, *batch(rollouts, "test/restless-counter-v1"))
    assert metrics == {"audit/turns": 0, "audit/episodes": 24, "audit/diverged": 24, "audit/seconds": 1.5}
