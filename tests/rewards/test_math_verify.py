"""`math_verify`: a second opinion from Math-Verify in a sandbox, and where it differs from `symbolic_maths`."""

from __future__ import annotations

import pytest
import pytest_asyncio
from by_day import cases
from judging import answered, make_trajectory

from agentgym import JudgeError, MissingExtraError, close_backends
from agentgym.rewards import math_verify
from agentgym.rewards.math_verify import MathVerify
from agentgym.rewards.symbolic_maths import equivalent

pytest.importorskip("math_verify")

DISAGREEMENTS = (  # answer, gold, symbolic_maths, Math-Verify
    ("1 1/2", "3/2", True, False),  # a mixed number
    (r"e^{i\pi}", "-1", True, False),
    (r"\$1{,}234.50", "1234.5", True, False),
    ("on", "no", False, True),  # words are read as products of letters
    ("5, 5", "5", False, True),
    ("5=5", "5", False, True),
)
HOSTILE = ("9^9^9^9^9", "__import__('os').system('true')", "\\frac{" * 200, "(" * 1500, "x" * 1999)


# One loop for the file, and so one backend: each would import Math-Verify anew, which takes three seconds.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def closed_backends():
    yield
    await close_backends()


async def judged(text, gold="1/2"):
    return await MathVerify().outcome(make_trajectory([answered(text)], truth={"answer": gold}))


async def test_equal_answers_in_two_notations_agree_and_other_answers_do_not():
    assert await judged(r"\boxed{\frac{1}{2}}") == {"math_verify": 1.0}
    assert await judged("0.5") == {"math_verify": 1.0}
    assert await judged("1/3") == {"math_verify": 0.0}
    assert await judged("4", gold=["3", "4"]) == {"math_verify": 1.0}


@pytest.mark.parametrize(("answer", "gold", "symbolic", "library"), DISAGREEMENTS)
async def test_the_documented_disagreements_are_as_they_were_measured(answer, gold, symbolic, library):
    assert equivalent(answer, gold) is symbolic
    assert await MathVerify().agrees(answer, [gold]) is library


@pytest.mark.parametrize("answer", cases(HOSTILE, by_day=(HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[4])))
async def test_a_hostile_answer_is_wrong_and_ends_in_time(answer):
    assert await MathVerify(timeout_s=5).agrees(answer, ["1/2"]) is False


async def test_without_an_answer_or_with_a_very_long_one_no_sandbox_is_made():
    judge = MathVerify(backend="no such backend")
    for trajectory in (make_trajectory("", truth={"answer": "1"}), make_trajectory("1" * 2001, truth={"answer": "1"})):
        assert await judge.outcome(trajectory) == {"math_verify": 0.0}


async def test_a_task_without_a_gold_answer_cannot_be_judged():
    with pytest.raises(JudgeError, match="math_verify"):
        await MathVerify().outcome(make_trajectory("1", truth={}))


async def test_a_missing_library_is_named_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setattr(math_verify, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[maths\]"):
        await judged("1")
