"""The loop with a real, tiny, untrained model: garbage in bulk, exact tokens, and the same run twice."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from scripted_episodes import task

from agentgym import Budgets, EpisodeManager, RolloutConfig
from agentgym.rollout.replay import Fork
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter, TargetReached

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def parts():
    from agentgym.policy import Hermes, TemplateRenderer, make_model, make_tokenizer

    tokenizer = make_tokenizer(["Count to 2 and submit it."] * 20, vocab_size=300)
    return make_model(tokenizer, hidden=32, layers=1), TemplateRenderer(tokenizer, Hermes())


def policy(parts):
    from agentgym.policy import TransformersPolicy

    model, renderer = parts
    tokenizer = renderer.tokenizer
    return TransformersPolicy(
        model,
        renderer,
        lockstep=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_ids=[renderer.end_of_turn_id, tokenizer.eos_token_id],
    )


async def play_all(parts):
    player = policy(parts)
    budgets = Budgets(max_turns=3, max_turn_tokens=12, max_void_turns=3)
    config = RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=3, budgets=budgets)
    manager = EpisodeManager(player, config)
    try:
        return await manager.collect([task(f"t{n}") for n in range(4)], group_size=2)
    finally:
        await player.close()


async def test_a_model_that_writes_garbage_is_scored_and_played_the_same_twice(parts):
    first, second = await play_all(parts), await play_all(parts)
    assert all(trajectory.valid and trajectory.outcome == {"success": 0.0} for trajectory in first)
    assert len({tuple(t.arrays().ids) for t in first}) == 8  # every episode has noise of its own
    for first_trajectory, second_trajectory in zip(first, second, strict=True):
        assert first_trajectory.arrays().ids.tolist() == second_trajectory.arrays().ids.tolist()
        assert first_trajectory.arrays().logprobs.tolist() == second_trajectory.arrays().logprobs.tolist()


async def test_the_models_own_scores_agree_with_the_recorded_log_probabilities(parts):
    player = policy(parts)
    for trajectory in (await play_all(parts))[:2]:
        arrays = trajectory.arrays()
        start = len(trajectory.prompt_ids)
        for turn, (begin, end) in zip(trajectory.turns, trajectory.turn_spans(), strict=True):
            scored = await player.score(arrays.ids[: start + begin].tolist(), turn.token_ids)
            assert scored == pytest.approx(turn.logprobs, abs=1e-4)
            assert len(scored) == end - begin
    await player.close()


BUDGETS = Budgets(max_turns=4, max_turn_tokens=24, max_void_turns=4)
TASKS = [task(f"t{n}") for n in range(5)]


@pytest.fixture(scope="module")
def wide_parts(parts):
    """A model so wide that its rounding depends on the rows of a batch."""
    from agentgym.policy import make_model

    return make_model(parts[1].tokenizer, hidden=128, layers=2), parts[1]


async def logprobs_after_a_stop(parts, ledger, ended, *, repeats):
    """Stop a run after some episodes have ended, resume it, and return the log-probabilities of all its episodes."""
    config = RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=6, budgets=BUDGETS)
    player = policy(parts)
    try:
        manager = EpisodeManager(player, config, ledger=ledger)
        if ended:
            async with aclosing(manager.run(TASKS, 2)) as episodes:
                for _ in range(ended):
                    await anext(episodes)
            assert 0 < len(ledger.finished("run")) < 2 * len(TASKS)
        trajectories = await manager.collect(TASKS, 2, repeats=repeats)
    finally:
        await player.close()
    return [turn.logprobs for trajectory in trajectories for turn in trajectory.turns]


@pytest.mark.parametrize("ended", [1, pytest.param(4, marks=pytest.mark.thorough)])
async def test_a_run_stopped_within_a_step_ends_equal_in_every_bit_if_recorded_episodes_are_repeated(
    wide_parts, tmp_path, ended
):
    ledgers = [Ledger(tmp_path / f"{number}.sqlite") for number in range(3)]
    undisturbed = await logprobs_after_a_stop(wide_parts, ledgers[0], 0, repeats=True)
    assert await logprobs_after_a_stop(wide_parts, ledgers[1], ended, repeats=True) == undisturbed
    assert await logprobs_after_a_stop(wide_parts, ledgers[2], ended, repeats=False) != undisturbed
    for ledger in ledgers:
        ledger.close()


async def test_branches_stopped_on_the_way_end_equal_in_every_bit_too(wide_parts, tmp_path):
    config = RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=6, budgets=BUDGETS)
    player, ledgers = policy(wide_parts), [Ledger(tmp_path / f"{number}.sqlite") for number in range(2)]
    records = await EpisodeManager(player, config).collect(TASKS, 1)
    forks = [Fork(record, 1) for record in records]

    async def branches(ledger):
        manager = EpisodeManager(player, config, ledger=ledger)
        ended = [branch async for branch in manager.branch(forks, 2, label="b", repeats=True)]
        return {branch.id: [turn.logprobs for turn in branch.turns] for branch in ended}

    undisturbed = await branches(ledgers[0])
    async with aclosing(EpisodeManager(player, config, ledger=ledgers[1]).branch(forks, 2, label="b")) as episodes:
        await anext(episodes)
    assert 0 < len(ledgers[1].finished("b")) < len(undisturbed) == 10
    assert await branches(ledgers[1]) == undisturbed
    await player.close()
    for ledger in ledgers:
        ledger.close()


async def test_a_finished_run_is_read_from_the_ledger_without_the_model(wide_parts, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first = await logprobs_after_a_stop(wide_parts, ledger, 0, repeats=True)
    player = policy(wide_parts)
    await player.close()  # answers nothing
    config = RolloutConfig(environment=Counter, reward=TargetReached(), concurrency=6, budgets=BUDGETS)
    trajectories = await EpisodeManager(player, config, ledger=ledger).collect(TASKS, 2, repeats=True)
    assert [turn.logprobs for trajectory in trajectories for turn in trajectory.turns] == first
    ledger.close()
