"""FrozenLake and Sokoban: walks worked by hand, and generated puzzles against searches written here a second time."""

from __future__ import annotations

import itertools
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Call, Task
from agentgym.registry import load
from agentgym.sandboxes.text.sokoban import pushes_to


async def opened(name, parameters, seed=0):
    environment = load("environments", f"agentgym/text-{name}-v1")()
    await environment.reset(Task("t", environment.id, "?", parameters=parameters), seed=seed)
    return environment


async def say(environment, tool, **arguments):
    return (await environment.call(Call(tool, arguments))).content


# ---- frozen lake

LAKE = {"map": ["S_O", "__G"]}


async def test_a_walk_over_the_lake():
    environment = await opened("frozen-lake", LAKE)
    assert await say(environment, "move", steps=["up", "left"]) == "P_O\n__G"  # the edge holds
    assert environment.nearness() == 0.0  # 3 steps left of at most 3
    assert await say(environment, "move", steps=["down"]) == "__O\nP_G"
    assert environment.nearness() == pytest.approx(1 / 3)  # 2 of 3
    assert await say(environment, "move", steps=["right", "right", "up"]) == "You reached the goal."
    assert environment.verdict() == {"success": 1.0, "progress": 1.0}


async def test_a_hole_ends_the_walk_and_the_steps_after_it():
    environment = await opened("frozen-lake", LAKE)
    assert await say(environment, "move", steps=["right", "right", "down"]) == "You fell into a hole."
    assert environment.ended
    assert environment.verdict() == {"success": 0.0, "progress": 0.0}


async def test_equal_places_have_equal_keys_whatever_way_led_there():
    environment = await opened("frozen-lake", LAKE)
    start = await environment.state_key()
    await say(environment, "move", steps=["down"])
    await say(environment, "move", steps=["right"])
    there = await environment.state_key()
    await say(environment, "move", steps=["up", "left"])
    assert await environment.state_key() == start != there
    await say(environment, "move", steps=["right", "down"])
    assert await environment.state_key() == there


async def test_slippery_ice_slips_with_its_rate_and_deterministically_for_a_seed():
    wide = {"map": ["_" * 15] * 7 + ["S" + "_" * 13 + "G"] + ["_" * 15] * 7, "slip": 40}
    ways = []
    for seed in range(200):
        environment = await opened("frozen-lake", wide, seed)
        await say(environment, "move", steps=["right"])
        repeated = await opened("frozen-lake", wide, seed)
        await say(repeated, "move", steps=["right"])
        assert environment.state == repeated.state
        ways.append(tuple(environment.state["at"]))
    assert set(ways) == {(7, 1), (6, 0), (8, 0)}
    assert 0.5 < ways.count((7, 1)) / 200 < 0.7  # 0.6 expected, standard deviation 0.035


def shortest(rows):
    """Steps from S to G by a search of its own."""
    squares = {(r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)}
    start = next(square for square, symbol in squares.items() if symbol == "S")
    steps_to, waiting = {start: 0}, deque([start])
    while waiting:
        r, c = square_from = waiting.popleft()
        if squares[square_from] == "G":
            return steps_to[square_from]
        for square in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if squares.get(square, "O") != "O" and square not in steps_to:
                steps_to[square] = steps_to[square_from] + 1
                waiting.append(square)
    return None


def test_the_stored_way_over_a_lake_is_shortest_and_at_least_as_long_as_the_axis():
    environment = load("environments", "agentgym/text-frozen-lake-v1")
    for level in range(len(environment.levels)):
        for seed in range(10):
            task = environment.generate(seed, level)
            assert len(task.truth["solution"]) == shortest(task.parameters["map"])
    lengths = [len(environment.generate(seed, 0, size=6, holes=20, length=9).truth["solution"]) for seed in range(20)]
    assert min(lengths) >= 9


# ---- Sokoban

ROOM = {"map": ["######", "#@$.##", "#_#__#", "######"]}


async def test_boxes_are_pushed_unless_something_blocks_them():
    environment = await opened("sokoban", {"map": ["#######", "#@$_$.#", "#_._###", "#######"]})
    assert (
        await say(environment, "move", steps=["right", "right"]) == "#######\n#_@$$.#\n#_._###\n#######"
    )  # two boxes stop one
    assert await say(environment, "move", steps=["left", "up"]) == "#######\n#@_$$.#\n#_._###\n#######"
    assert await say(environment, "restart") == "#######\n#@$_$.#\n#_._###\n#######"


async def test_the_last_box_on_its_target_ends_it():
    environment = await opened("sokoban", ROOM)
    assert environment.nearness() == 0.5  # one push is left
    assert await say(environment, "move", steps=["right", "right"]) == "Every box is on a target."
    assert environment.ended


async def test_a_box_in_a_dead_corner_has_no_progress():
    environment = await opened("sokoban", {"map": ["#####", "#_@_#", "#_$_#", "#.__#", "#####"]})
    before = environment.nearness()
    await say(environment, "move", steps=["down"])
    assert 0 < before < 1
    assert environment.nearness() > 0  # along the wall to the target
    environment = await opened("sokoban", {"map": ["#####", "#_@.#", "#_$_#", "#___#", "#####"]})
    await say(environment, "move", steps=["down"])
    assert environment.nearness() == 0.0  # on the lower wall, and the target is not


def fewest_pushes(rows):
    """By a search over all states, None if nothing solves it."""
    floor = {(r, c) for r, row in enumerate(rows) for c, symbol in enumerate(row) if symbol != "#"}
    targets = {(r, c) for r, c in floor if rows[r][c] in ".*+"}
    boxes = frozenset((r, c) for r, c in floor if rows[r][c] in "$*")
    player = next((r, c) for r, c in floor if rows[r][c] in "@+")
    steps_to, waiting = {(player, boxes): 0}, deque([(player, boxes)])
    while waiting:
        state = (r, c), boxes = waiting.popleft()
        if boxes == targets:
            return steps_to[state]
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            ahead, beyond = (r + down, c + right), (r + 2 * down, c + 2 * right)
            pushed = ahead in boxes
            if ahead not in floor or (pushed and (beyond not in floor or beyond in boxes)):
                continue
            after = (ahead, boxes - {ahead} | {beyond} if pushed else boxes)
            if after not in steps_to:
                steps_to[after] = steps_to[state] + pushed
                waiting.append(after) if pushed else waiting.appendleft(after)
    return None


def test_generated_rooms_can_be_solved_and_need_pushes():
    environment = load("environments", "agentgym/text-sokoban-v1")
    for level in range(4):
        for seed in range(8):
            rows = environment.generate(seed, level).parameters["map"]
            assert (fewest_pushes(rows) or 0) >= 1, rows


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_pushes_of_one_box_alone_are_never_more_than_all_of_them_take(seed):
    """So progress never says 0 where a room can be solved."""
    rows = load("environments", "agentgym/text-sokoban-v1").generate(seed, 3).parameters["map"]
    floor = {(r, c) for r, row in enumerate(rows) for c, symbol in enumerate(row) if symbol != "#"}
    boxes = [(r, c) for r, c in floor if rows[r][c] in "$*"]
    targets = [(r, c) for r, c in floor if rows[r][c] in ".*+"]
    tables = [pushes_to(target, floor) for target in targets]
    least = min(
        sum(table.get(box, 10_000) for box, table in zip(order, tables, strict=True))
        for order in itertools.permutations(boxes)
    )
    assert least <= fewest_pushes(rows)
