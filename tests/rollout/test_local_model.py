"""The loop with a real, tiny, untrained model: garbage in bulk, exact tokens, and the same run twice."""

from __future__ import annotations

import pytest
from scripted_episodes import task

from agentgym import Budgets, EpisodeManager, RolloutConfig
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
