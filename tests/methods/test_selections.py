"""Which turns of stored episodes are improved targets, and that no other token of them is imitated."""

from __future__ import annotations

from math import exp

import pytest

from agentgym import Task, Trajectory, Turn
from agentgym.messages import Message, StopReason
from agentgym.methods.selections import groups_of
from agentgym.training.imitation import Example, _supervised_rows
from agentgym.training.stages.selection import make_selection


def episode(name: str, success: float, *turns: list[int], failed: bool = False) -> Trajectory:
    """Of turns with these tokens, each but the last followed by the token 9 of a result."""
    last = len(turns) - 1
    return Trajectory(
        name,
        Task("t", "test/none-v1", "?"),
        prompt_ids=[1, 2],
        turns=[
            Turn(k, Message("assistant", ""), token_ids=ids, observation_ids=[9] if k < last else [])
            for k, ids in enumerate(turns)
        ],
        outcome={} if failed else {"success": success, "style": 0.5},
        stop_reason=StopReason.INFRA_ERROR if failed else StopReason.ANSWERED,
    )


TREE = [
    episode("a", 0.0, [3], [5, 6]),
    episode("b", 1.0, [3], [7]),
    episode("c", 0.2, [4], [8]),
    episode("d", 0.0, [4], [8]),
]


def test_the_best_of_the_turns_after_the_same_tokens_is_the_target():
    """After the prompt [3] is worth (0 + 1) / 2 and [4] 0.1; after [3] [7] is worth 1; after [4] there is no choice."""
    first, second = make_selection("improved(temperature=0.5)")(TREE)
    assert [(each.episode.id, each.turn) for each in (first, second)] == [("a", 0), ("b", 1)]
    mean = (exp(0.5 / 0.5) + exp(1.0 / 0.5)) / 2
    assert (first.weight, second.weight) == pytest.approx((exp(1.0) / mean, exp(2.0) / mean))


@pytest.mark.parametrize("text", ["improved", "improved(component='style')"])
def test_alternatives_that_are_equally_good_teach_nothing(text):
    equal = [episode("a", 1.0, [3]), episode("b", 1.0, [4]), episode("c", 0.0, [5], failed=True)]
    [valid] = groups_of(equal)
    assert make_selection(text)(valid) == []


def test_of_equally_good_turns_that_beat_another_the_shorter_one_is_the_target():
    group = [episode("a", 1.0, [3, 4]), episode("b", 1.0, [5]), episode("c", 0.0, [6])]
    [target] = make_selection("improved")(group)
    assert (target.episode.id, target.weight, target.turn) == ("b", 1.0, 0)


def test_only_the_turn_that_is_the_target_has_a_loss():
    of_all, of_second = _supervised_rows([Example(TREE[0]), Example(TREE[0], turn=1)])
    assert of_all["labels"] == [-100, -100, 3, -100, 5, 6]
    assert of_second["labels"] == [-100, -100, -100, -100, 5, 6]
    assert of_all["input_ids"] == of_second["input_ids"] == [1, 2, 3, 9, 5, 6]
