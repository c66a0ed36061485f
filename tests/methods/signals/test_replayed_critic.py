"""A critic that learns from a store of old turns comes to the exact values of the current policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from by_day import cases
from problem_episodes import (
    ACTIONS,
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

from agentgym import Trajectory
from agentgym.credit import estimator
from agentgym.methods.signals.token_critic import TokenCritic
from agentgym.methods.signals.turn_critic import Critic, ReplayedCritic
from agentgym.methods.stored_turns.store import TransitionStore
from agentgym.methods.stored_turns.transitions import ReturnSpec, TurnTransition


def current_logprobs(problem, states: dict[tuple[str, int], str]):
    """Of the turns under the problem's own policy."""
    chances, names = action_chances(problem), {number: action for action, number in ACTIONS.items()}

    def logprobs(transitions: Sequence[TurnTransition]) -> list[float]:
        keys = [(t.turn, states[t.episode, t.turn], names[int(t.own[0])]) for t in transitions]
        return [float(np.log(chances[key])) for key in keys]

    return logprobs


def converged(name: str, *, corrected: bool = True, steps: int = 200) -> tuple[ReplayedCritic, Names, list[Trajectory]]:
    """A critic after many updates on episodes of another policy than the problem's."""
    names, behaviour = Names(), BEHAVIOUR[name]
    recorded = episodes(behaviour, EPISODES[name], names)
    paths = [path for path in behaviour.paths for _ in range(round(path.probability * EPISODES[name]))]
    states = {(t.id, k): path.steps[k][0] for t, path in zip(recorded, paths, strict=True) for k in range(len(t.turns))}
    store = TransitionStore(ReturnSpec(), capacity=5_000)
    store.add(recorded)
    logprobs = current_logprobs(TARGET[name], states) if corrected else None
    critic = ReplayedCritic(
        TableModel(),
        store,
        updates=steps,
        batch_size=5_000,
        turn_logprobs=logprobs,
        follow=0.2,
        learning_rate=0.05,
    )
    critic.update([])
    return critic, names, recorded


@pytest.mark.parametrize("name", cases(TARGET, by_day=("flip", "back_and_forth")))
def test_values_advantages_and_gradient_of_old_turns_are_those_of_the_current_policy(name: str):
    """Every episode of the store was sampled by another policy, but in flip, whose policy has no options."""
    critic, names, _ = converged(name)
    problem, chances = exact(TARGET[name]), action_chances(TARGET[name])
    paths = {id(p): trajectory_of(p, f"p{i}", names, chances) for i, p in enumerate(problem.paths)}
    given = critic.signals(list(paths.values()), 0)
    rows = dict(zip(paths, zip(given["values"], given["action_values"], strict=True), strict=True))
    for path in problem.paths:
        values, actions = (np.array(row) for row in rows[id(path)])
        exact_values, exact_actions = (np.array(path.signals[key]) for key in ("values", "action_values"))
        np.testing.assert_allclose(values, exact_values, atol=1e-2)
        np.testing.assert_allclose(actions, exact_actions, atol=1e-2)
        np.testing.assert_allclose(actions - values[:-1], exact_actions - exact_values[:-1], atol=1e-2)
    learnt = problem.with_signals(values=lambda p: rows[id(p)][0], action_values=lambda p: rows[id(p)][1])
    gradient = learnt.estimated_gradient(estimator("archer"), 2)
    np.testing.assert_allclose(gradient, problem.true_gradient(), atol=2e-3)


def test_without_weights_the_values_are_those_of_the_policy_that_sampled():
    critic, _, recorded = converged("stop_or_go", corrected=False)
    start = critic.signals(recorded[:1], 0)["values"][0][0]
    of_behaviour, of_target = (exact(p["stop_or_go"]).paths[0].signals["values"][0] for p in (BEHAVIOUR, TARGET))
    assert abs(of_behaviour - of_target) > 0.03
    assert start == pytest.approx(of_behaviour, abs=1e-2)


@pytest.mark.parametrize("kind", [Critic, TokenCritic])
def test_a_critic_of_one_batch_weighs_long_and_short_episodes_alike_where_they_share_a_prefix(kind: type):
    """In flip, returns differ with the length: a mean over each episode's turns would value the start otherwise."""
    problem = exact(TARGET["flip"])
    recorded = episodes(TARGET["flip"], EPISODES["flip"], Names())
    critic = kind(TableModel(), ReturnSpec(), learning_rate=0.1, epochs=200, batch_size=64)
    critic.update(recorded)
    given = critic.signals(recorded[:1], 0)
    start = given["values"][0][0] if kind is Critic else given["token_values"][0][0][0]
    assert start == pytest.approx(problem.paths[0].signals["values"][0], abs=1e-2)
