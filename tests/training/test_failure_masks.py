"""What is done with failures in training: exactly the turns that the table names lose their advantage."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym import Task, Trajectory, Turn
from agentgym.errors import RecipeError
from agentgym.evaluation.failures import FAILURES
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.training import Recipe
from agentgym.training.loss.grpo_batches import apply_failure_masks


def turn(index: int, status: ResultStatus = ResultStatus.OK, content: str = "a") -> Turn:
    call = Call("look", {"at": content}, error="?" if status is ResultStatus.MALFORMED else None)
    return Turn(index, Message("assistant", "", (call,)), (call,), (Result(content, status),))


def episode(*turns: Turn, stop: StopReason = StopReason.ANSWERED, success: float = 1.0) -> Trajectory:
    return Trajectory("t", Task("t", "e"), turns=list(turns), stop_reason=stop, outcome={"success": success})


CREDIT = np.array([1.0, 2.0, 3.0])
BAD = episode(turn(0), turn(1, ResultStatus.MALFORMED), turn(2, content="b"))
GOOD = episode(turn(0), turn(1, content="b"), turn(2, content="c"))


def test_by_default_nothing_is_masked_and_only_failed_episodes_are_excluded():
    assert {failure.treatment for name, failure in FAILURES.items() if name != "failed"} == {"scored"}
    assert FAILURES["failed"].treatment == "excluded"
    assert apply_failure_masks([BAD], [CREDIT], {})[0] is CREDIT


def test_mask_turn_takes_the_advantage_of_the_turn_alone():
    masked = apply_failure_masks([BAD, GOOD], [CREDIT, CREDIT], {"malformed": "mask_turn"})
    assert [advantages.tolist() for advantages in masked] == [[1.0, 0.0, 3.0], [1.0, 2.0, 3.0]]


def test_mask_episode_takes_that_of_every_turn():
    masked = apply_failure_masks([BAD, GOOD], [CREDIT, CREDIT], {"void": "mask_episode"})
    assert [advantages.tolist() for advantages in masked] == [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]
    ended = episode(*GOOD.turns, stop=StopReason.MAX_TURNS, success=0.0)
    assert apply_failure_masks([ended], [CREDIT], {"no_answer": "mask_episode"})[0].tolist() == [0.0, 0.0, 0.0]


def test_a_call_that_is_repeated_with_the_same_result_can_be_masked_and_one_with_news_is_not():
    repeated = episode(turn(0), turn(1), turn(2, content="b"))
    assert apply_failure_masks([repeated], [CREDIT], {"repeated": "mask_turn"})[0].tolist() == [1.0, 0.0, 3.0]
    changed = episode(turn(0), turn(1), turn(2, content="b"))
    changed.turns[1].results = (Result("news"),)
    assert apply_failure_masks([changed], [CREDIT], {"repeated": "mask_turn"})[0] is not None
    assert apply_failure_masks([changed], [CREDIT], {"repeated": "mask_turn"})[0].tolist() == CREDIT.tolist()


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ({"voids": "scored"}, "there is no failure kind"),
        ({"failed": "scored"}, "always 'excluded'"),
        ({"void": "excluded"}, "always 'excluded'"),
        ({"no_answer": "mask_turn"}, "a failure of this kind concerns the whole episode"),
        ({"void": "drop"}, "train.failures.void"),
    ],
)
def test_a_recipe_with_a_treatment_that_makes_no_sense_is_refused(failures, message):
    data = {"name": "x", "tasks": {"set": "sql/store-v1"}, "policy": {"tiny": {}}, "train": {"failures": failures}}
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(data)
