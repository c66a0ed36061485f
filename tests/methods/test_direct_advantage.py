"""Learning on stored turns alone: a critic of steps, and losses of the policy with advantages that are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from by_day import cases
from problem_episodes import (
    BEHAVIOUR,
    EPISODES,
    TARGET,
    Names,
    TableModel,
    action_chances,
    episodes,
    exact,
    trajectory_of,
)

from agentgym.errors import CreditError
from agentgym.methods.direct_advantage import StepCritic, clipped_loss, quadratic_loss, success_labels
from agentgym.testing.exact.problems import Problem


def outcomes_only(problem: Problem) -> Problem:
    return Problem(
        tuple(type(p)(**{**vars(p), "rewards": tuple(float("nan") for _ in p.rewards)}) for p in problem.paths)
    )


FLIP = outcomes_only(TARGET["flip"])


@pytest.mark.parametrize("name", cases(BEHAVIOUR, by_day=("flip", "stop_or_go")))
def test_the_critic_of_steps_predicts_the_success_of_each_prefix(name: str):
    """As the exact sum has it; in flip 0.45 at the start, and 0.4 after a search."""
    problem, names = outcomes_only(BEHAVIOUR[name]), Names()
    recorded = episodes(problem, EPISODES[name], names)
    critic = StepCritic(TableModel(), learning_rate=0.2, epochs=60, batch_size=500)
    critic.fit(recorded, success_labels(recorded))
    chances = action_chances(problem)
    for path in exact(problem).paths:
        trajectory = trajectory_of(path, "x", names, chances)
        expected = np.diff([*path.signals["values"][:-1], path.outcome])
        np.testing.assert_allclose(critic.advantages([trajectory])[0], expected, atol=1e-2)


def test_an_episode_that_was_not_judged_is_named():
    (trajectory,) = episodes(FLIP, EPISODES["flip"], Names())[:1]
    for outcome in ({}, {"success": 2.0}):
        trajectory.outcome = outcome
        with pytest.raises(CreditError, match=r"'e0-0' has success = (None|2\.0)"):
            success_labels([trajectory])


def turns_of(theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[float], list[float]]:
    """Of every turn of flip with a choice: log-probability now, and as sampled, its advantage, and how often it is."""
    logprobs, behaviour, advantages, shares = [], [], [], []
    chances = action_chances(FLIP)
    for path in FLIP.paths:
        for k, (state, action) in enumerate(path.steps):
            if k < 2:
                sign = 1.0 if action == "search" else -1.0
                logprobs.append(torch.nn.functional.logsigmoid(sign * theta[k]))
                behaviour.append(float(np.log(chances[k, state, action])))
                following = path.outcome if k + 1 == len(path.steps) else 0.4
                advantages.append(following - (0.45 if k == 0 else 0.4))
                shares.append(path.probability)
    return torch.stack(logprobs), torch.tensor(behaviour), advantages, shares


def test_the_gradient_of_the_clipped_loss_is_the_policy_gradient_where_the_policy_has_not_moved():
    theta = torch.zeros(2, requires_grad=True)
    logprobs, behaviour, advantages, shares = turns_of(theta)
    losses = clipped_loss(0.2)(logprobs, behaviour, torch.tensor(advantages))
    (losses * torch.tensor(shares)).sum().backward()
    assert theta.grad is not None
    np.testing.assert_allclose(-theta.grad.numpy(), FLIP.true_gradient(), atol=1e-7)


def test_a_turn_that_has_moved_as_far_as_the_clip_has_no_gradient_left():
    logprobs = torch.tensor([0.5, -0.5, 0.5, -0.5], requires_grad=True)
    losses = clipped_loss(0.2)(logprobs, torch.zeros(4), torch.tensor([1.0, -1.0, -1.0, 1.0]))
    losses.sum().backward()
    assert logprobs.grad is not None
    assert logprobs.grad[:2].tolist() == [0.0, 0.0]
    assert (logprobs.grad[2:] != 0).all()


def test_the_quadratic_loss_moves_the_policy_by_its_advantages():
    """One choice between 0.5 and 0.5 with advantages 0.1 and -0.1 at beta 1: the log-odds become 0.2."""
    theta = torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([theta], lr=0.02)
    for _ in range(300):
        logprobs = torch.nn.functional.logsigmoid(torch.cat([theta, -theta]))
        loss = quadratic_loss(1.0)(logprobs, torch.full((2,), np.log(0.5)), torch.tensor([0.1, -0.1])).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(theta.detach()) == pytest.approx(0.2, abs=1e-2)
