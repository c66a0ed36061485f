"""Points and boxes are judged by plain geometry: worked by hand, and by properties that any such measure has."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Task, Trajectory, Turn
from agentgym.errors import JudgeError
from agentgym.messages import Call, Message, Result, ResultStatus, StopReason
from agentgym.registry import load_reward
from agentgym.rewards.boxes import overlap
from agentgym.rewards.region_votes import consensus, densities
from agentgym.testing import check_reward

TRUTH = {"box": [100, 100, 200, 150]}


def answered(arguments, truth=TRUTH, *, ok=True, name="answer"):
    """An episode of one final call."""
    call = Call(name, arguments)
    status = ResultStatus.OK if ok else ResultStatus.TOOL_ERROR
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result("", status, name, final=ok),))
    return Trajectory("r/t#0", Task("t", "e", truth=truth), turns=[turn], stop_reason=StopReason.ANSWERED)


def box(left, top, right, bottom):
    return {"left": left, "top": top, "right": right, "bottom": bottom}


@pytest.mark.parametrize(
    ("arguments", "success"),
    [
        ({"x": 100, "y": 100}, 1.0),
        ({"x": 199, "y": 149}, 1.0),
        ({"x": 200, "y": 120}, 0.0),  # the right side is outside
        ({"x": 150, "y": 150}, 0.0),
        ({"x": "150", "y": 120}, 0.0),
        ({"x": True, "y": True}, 0.0),
        ({"x": float("nan"), "y": 120}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_point_succeeds_inside_the_box_alone(arguments, success):
    assert load_reward("grounding").outcome(answered(arguments)) == {"success": success}


def test_a_box_is_judged_by_its_middle_and_its_overlap_is_recorded():
    """[150, 100, 250, 150]: its middle x is 200, just outside; a quarter of the union is shared: 50 of 150."""
    reward = load_reward("grounding")
    assert reward.outcome(answered(box(150, 100, 250, 150))) == {"success": 0.0, "iou": pytest.approx(1 / 3)}
    assert reward.outcome(answered(box(100, 100, 200, 150))) == {"success": 1.0, "iou": 1.0}
    assert reward.outcome(answered(box(200, 150, 100, 100))) == {"success": 0.0}  # turned inside out: no box
    assert reward.weights["iou"] == 0.0


def test_a_refused_answer_is_none_and_a_missing_truth_is_not_judged():
    reward = load_reward("grounding")
    assert reward.outcome(answered({"x": 150, "y": 120}, ok=False)) == {"success": 0.0}
    for truth in (None, {}, {"box": [1, 2, 3]}, {"box": [5, 5, 5, 9]}, {"box": ["a", 1, 2, 3]}):
        with pytest.raises(JudgeError, match="four numbers"):
            reward.outcome(answered({"x": 150, "y": 120}, truth))


sides = st.integers(0, 60)
boxes = st.tuples(sides, sides, st.integers(1, 40), st.integers(1, 40)).map(
    lambda b: (float(b[0]), float(b[1]), float(b[0] + b[2]), float(b[1] + b[3]))
)


@given(first=boxes, second=boxes, dx=st.integers(-50, 50), scale=st.integers(1, 7))
def test_overlap_is_symmetric_bounded_and_blind_to_place_and_scale(first, second, dx, scale):
    fit = overlap(first, second)
    assert 0 <= fit <= 1
    assert fit == overlap(second, first)
    assert (fit == 1) == (first == second)
    moved = [tuple((side + dx) * scale for side in b) for b in (first, second)]
    assert overlap(*moved) == pytest.approx(fit)


@given(first=boxes, second=boxes)
@settings(max_examples=60)
def test_overlap_counts_pixels(first, second):
    def pixels(b):
        return {(x, y) for x in range(int(b[0]), int(b[2])) for y in range(int(b[1]), int(b[3]))}

    assert overlap(first, second) == pytest.approx(
        len(pixels(first) & pixels(second)) / len(pixels(first) | pixels(second))
    )


def test_dynamic_iou_asks_for_more_while_training_goes_on():
    """0.9 of the truth's width: overlap 0.9, enough in the first tenth only."""
    reward, nearly, exact = (
        load_reward("dynamic_iou"),
        answered(box(100, 100, 190, 150)),
        answered(box(100, 100, 200, 150)),
    )
    paid = []
    for progress in (0.0, 0.09, 0.10, 0.24, 0.25, 1.0):
        reward.set_progress(progress)
        paid.append(reward.outcome(nearly)["dynamic_iou"])
        assert reward.outcome(exact) == {"dynamic_iou": 1.0}
    assert paid == [pytest.approx(0.9), pytest.approx(0.9), 0, 0, 0, 0]
    assert load_reward("dynamic_iou").outcome(nearly) == {"dynamic_iou": 0.0}  # outside of training: the strictest
    assert reward.outcome(answered({"x": 150, "y": 120})) == {"dynamic_iou": 0.0}
    with pytest.raises(ValueError, match="rise within"):
        load_reward("dynamic_iou", thresholds=(0.9, 0.5, 0.99))


def test_box_size_pays_the_right_size_and_nothing_for_a_miss():
    """Half as wide and twice as high: 1/2 times 1/2."""
    reward = load_reward("box_size")
    assert reward.outcome(answered(box(100, 100, 200, 150))) == {"box_size": 1.0}
    assert reward.outcome(answered(box(125, 75, 175, 175))) == {"box_size": 0.25}
    assert reward.outcome(answered(box(0, 0, 300, 250)))["box_size"] == pytest.approx(100 / 300 * 50 / 250)
    assert reward.outcome(answered(box(300, 100, 400, 150))) == {"box_size": 0.0}
    assert reward.outcome(answered({"x": 150, "y": 120})) == {}


@pytest.mark.parametrize(
    ("act", "arguments", "kind", "argument"),
    [
        (["click", [100, 100, 200, 150]], {"action": "click", "x": 120, "y": 120}, 1, 1),
        (["click", [100, 100, 200, 150]], {"action": "click", "x": 20, "y": 120}, 1, 0),
        (["click", [100, 100, 200, 150]], {"action": "press", "x": 120, "y": 120}, 0, 0),
        (["type", "Mara Lind"], {"action": "type", "text": " mara  lind "}, 1, 1),
        (["type", "Mara Lind"], {"action": "type", "text": "Mara"}, 1, 0),
        (["scroll", "2 down"], {"action": "scroll", "text": "2 up"}, 1, 0),
        (["back"], {"action": "back"}, 1, 1),
        (["back"], {}, 0, 0),
    ],
)
def test_an_action_is_judged_by_kind_and_argument(act, arguments, kind, argument):
    components = load_reward("gui_action").outcome(answered(arguments, {"act": act}))
    assert components == {"action_type": kind, "action_argument": argument, "success": argument}


def test_an_action_that_cannot_be_judged_is_refused():
    for truth in (None, {}, {"act": []}, {"act": [3]}, {"act": ["click", [1, 2]]}):
        with pytest.raises(JudgeError):
            load_reward("gui_action").outcome(answered({"action": "click", "x": 1, "y": 1}, truth))


def test_region_votes_worked_by_hand():
    """Two equal squares and one half over them: 2 votes on the left half, 3 on the right one, 1 beyond.

    Of the equal ones (2 + 3) / 2 votes of at most 3; of the third (3 + 1) / 2.
    """
    votes = densities([(0, 0, 10, 10), (0, 0, 10, 10), (5, 0, 15, 10)])
    assert votes == [pytest.approx(2.5 / 3), pytest.approx(2.5 / 3), pytest.approx(2 / 3)]
    assert consensus([(0, 0, 10, 10), (0, 0, 10, 10), (5, 0, 15, 10)]) == (5, 0, 10, 10)


@given(regions=st.lists(boxes, min_size=2, max_size=7))
@settings(max_examples=60)
def test_region_votes_count_every_pixel(regions):
    """The exact cells against votes counted pixel by pixel."""
    grid = {}
    for left, top, right, bottom in regions:
        for x in range(int(left), int(right)):
            for y in range(int(top), int(bottom)):
                grid[x, y] = grid.get((x, y), 0) + 1
    largest = max(grid.values())
    for (left, top, right, bottom), share in zip(regions, densities(regions), strict=True):
        own = [grid[x, y] for x in range(int(left), int(right)) for y in range(int(top), int(bottom))]
        assert share == pytest.approx(sum(own) / len(own) / largest)
    x0, y0, x1, y1 = consensus(regions)
    assert all(grid[x, y] == largest for x in range(int(x0), int(x1)) for y in range(int(y0), int(y1)))


def test_a_group_votes_and_who_says_nothing_gets_nothing():
    reward = load_reward("region_votes", side=10)
    group = [answered({"x": 50, "y": 50}), answered({"x": 50, "y": 50}), answered({"x": 500, "y": 50}), answered({})]
    shares = [components["region_votes"] for components in reward.group(group)]
    assert shares == [1.0, 1.0, 0.5, 0.0]
    assert reward.group(group[2:]) == [{"region_votes": 0.0}] * 2  # one answer decides nothing
    assert reward.has_stage("group")
    with pytest.raises(ValueError, match="above 0"):
        load_reward("region_votes", side=0)


async def test_every_grounding_reward_keeps_its_contract_on_answers():
    for name in ("grounding", "dynamic_iou", "box_size", "region_votes"):
        await check_reward(name, [answered({"x": 150, "y": 120}), answered(box(90, 90, 200, 150))])
    await check_reward("gui_action", [answered({"action": "click", "x": 1, "y": 2}, {"act": ["click", [0, 0, 9, 9]]})])
