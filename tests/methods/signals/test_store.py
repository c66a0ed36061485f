"""A store of transitions: what it holds, what is drawn from it, and what a checkpoint keeps of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from problem_episodes import ACTIONS, TARGET, Names, action_chances, trajectory_of

from agentgym.errors import CreditError, RecipeError
from agentgym.messages import StopReason
from agentgym.methods.stored_turns.archive import EpisodeArchive, check_runs, check_tokens
from agentgym.methods.stored_turns.store import TransitionStore
from agentgym.methods.stored_turns.transitions import ReturnSpec, StoredEpisode
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer


def recorded(number: int = 0, version: int = 0):
    """Search twice, then answer: turn rewards 0 and 0.5, and the outcome 1."""
    problem = TARGET["flip"]
    path = next(p for p in problem.paths if len(p.steps) == 3 and p.outcome == 1)
    return trajectory_of(path, f"train-{version:06d}/t#{number}", Names(), action_chances(problem), version)


def test_a_transition_holds_what_came_before_the_turn_and_what_came_of_it():
    """Tokens: prompt 1; search 3, the state 10; search 3, the state 11; answer 4."""
    store = TransitionStore(ReturnSpec(outcome_weight=2.0))
    store.add([recorded()])
    first, second, third = store.transitions()
    search, answer = ACTIONS["search"], ACTIONS["answer"]
    assert (first.prefix.tolist(), first.own.tolist()) == ([1], [search])
    assert (second.prefix.tolist(), second.own.tolist()) == ([1, search, 10], [search])
    assert (third.prefix.tolist(), third.own.tolist()) == ([1, search, 10, search, 11], [answer])
    assert first.ids.tolist() == second.prefix.tolist()
    assert [t.reward for t in (first, second, third)] == [0.0, 0.5, 2.0]
    assert [t.done for t in (first, second, third)] == [False, False, True]
    assert first.behaviour_logprob == pytest.approx(np.log(0.5))


def test_after_a_truncated_episode_something_may_follow():
    trajectory = recorded()
    trajectory.stop_reason = StopReason.MAX_TURNS
    assert not StoredEpisode.of(trajectory, ReturnSpec()).transition(2).done


def test_the_oldest_episodes_make_room_for_new_ones_and_failed_ones_are_not_stored():
    store = TransitionStore(ReturnSpec(), capacity=7)
    failed = recorded(9)
    failed.stop_reason = StopReason.INFRA_ERROR
    store.add([*(recorded(number) for number in range(4)), failed])
    assert len(store) == 6
    assert {t.episode for t in store.transitions()} == {"train-000000/t#2", "train-000000/t#3"}


def test_what_is_drawn_follows_the_seed_and_goes_on_after_a_checkpoint():
    def drawn(store: TransitionStore) -> list[tuple[str, int]]:
        return [(t.episode, t.turn) for t in store.sample(4)]

    episodes = {t.id: t for t in (recorded(number) for number in range(5))}
    stores = [TransitionStore(ReturnSpec(), seed=seed) for seed in (3, 3, 4)]
    for store in stores:
        store.add(episodes.values())
    first, same, other = (drawn(store) for store in stores)
    assert first == same != other
    assert len(set(first)) == 4
    resumed = TransitionStore(ReturnSpec(), seed=3)
    resumed.load(stores[0].state(), episodes.__getitem__)
    assert drawn(resumed) == drawn(stores[0]) != first


def test_with_a_half_life_old_turns_are_drawn_as_much_less_often_as_it_says():
    """Versions 0 and 4 at a half-life of 2: a quarter as often, so 1 in 5. Uniformly it is half of them."""
    share = {}
    for half_life in (None, 2.0):
        store = TransitionStore(ReturnSpec(), half_life=half_life)
        store.add([recorded(version=0), recorded(version=4)])
        counts = Counter(store.sample(1)[0].version for _ in range(2000))
        share[half_life] = counts[0] / 2000
    assert share[None] == pytest.approx(0.5, abs=0.04)
    assert share[2.0] == pytest.approx(0.2, abs=0.03)


def test_what_cannot_be_stored_or_drawn_is_said():
    with pytest.raises(CreditError, match="store of transitions is empty"):
        TransitionStore(ReturnSpec()).sample(1)
    without_tokens, without_logprobs = recorded(), recorded()
    without_tokens.turns[0].token_ids = []
    without_logprobs.turns[0].logprobs = []
    with pytest.raises(CreditError, match="has no token ids"):
        StoredEpisode.of(without_tokens, ReturnSpec())
    with pytest.raises(CreditError, match="no log-probabilities"):
        StoredEpisode.of(without_logprobs, ReturnSpec())
    for options in ({"capacity": 0}, {"half_life": 0.0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            TransitionStore(ReturnSpec(), **options)


async def write(folder: Path, *trajectories):
    ledger = Ledger(folder / "ledger.sqlite")
    for trajectory in trajectories:
        await ledger.finish(trajectory)
    ledger.close()


def test_episodes_of_other_runs_keep_their_run_in_their_id(tmp_path):
    import asyncio

    asyncio.run(write(tmp_path, recorded(0), recorded(1, version=2)))
    run = str(tmp_path)
    archive = EpisodeArchive(None, [run], "train-000002")
    (only,) = archive.of_other_runs()
    assert only.id == f"{run}:train-000002/t#1"
    assert archive.load(only.id).prompt_ids == [1]
    check_runs("runs", [run], "train-")
    with pytest.raises(RecipeError, match="no valid episode whose id begins with 'eval-'"):
        check_runs("train.signals.replay.runs", [run], "eval-")
    with pytest.raises(RecipeError, match="is not a run folder"):
        check_runs("train.signals.replay.runs", [str(tmp_path / "none")], "")


def test_episodes_with_the_tokens_of_another_model_are_refused():
    renderer = ByteRenderer()
    trajectory = recorded()
    trajectory.task = replace(trajectory.task, environment="test/counter-v1")
    trajectory.tools = [{"type": "function", "function": {"name": "add"}}]
    trajectory.prompt_ids = renderer.prompt(trajectory.opening, trajectory.tools)
    check_tokens([trajectory], renderer)
    trajectory.prompt_ids = trajectory.prompt_ids[:-1]
    with pytest.raises(RecipeError, match="with other tokens than those of the trained model"):
        check_tokens([trajectory], renderer)
