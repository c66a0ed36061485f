"""The rules of each text world, on examples worked by hand and against searches written here a second time."""

from __future__ import annotations

import itertools
import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Call, Task, ToolError
from agentgym.registry import load
from agentgym.sandboxes.text import countdown, sudoku, twenty_questions, wordle
from agentgym.sandboxes.text.sokoban import pushes_to
from agentgym.sandboxes.text.things import PROPERTIES, SHELVES, THINGS
from agentgym.sandboxes.text.words import WORDS


async def opened(name, parameters, seed=0):
    world = load("environments", f"agentgym/text-{name}-v1")()
    await world.reset(Task("t", world.id, "?", parameters=parameters), seed=seed)
    return world


async def say(world, tool, **arguments):
    return (await world.call(Call(tool, arguments))).content


# ---- frozen lake

LAKE = {"map": ["S_O", "__G"]}


async def test_a_walk_over_the_lake():
    world = await opened("frozen-lake", LAKE)
    assert await say(world, "move", steps=["up", "left"]) == "P_O\n__G"  # the edge holds
    assert world.nearness() == 0.0  # 3 steps left of at most 3
    assert await say(world, "move", steps=["down"]) == "__O\nP_G"
    assert world.nearness() == pytest.approx(1 / 3)  # 2 of 3
    assert await say(world, "move", steps=["right", "right", "up"]) == "You reached the goal."
    assert world.verdict() == {"success": 1.0, "progress": 1.0}


async def test_a_hole_ends_the_walk_and_the_steps_after_it():
    world = await opened("frozen-lake", LAKE)
    assert await say(world, "move", steps=["right", "right", "down"]) == "You fell into a hole."
    assert world.ended
    assert world.verdict() == {"success": 0.0, "progress": 0.0}


async def test_equal_places_have_equal_keys_whatever_way_led_there():
    world = await opened("frozen-lake", LAKE)
    start = await world.state_key()
    await say(world, "move", steps=["down"])
    await say(world, "move", steps=["right"])
    there = await world.state_key()
    await say(world, "move", steps=["up", "left"])
    assert await world.state_key() == start != there
    await say(world, "move", steps=["right", "down"])
    assert await world.state_key() == there


async def test_slippery_ice_slips_as_often_as_it_says_and_the_same_under_a_seed():
    wide = {"map": ["_" * 15] * 7 + ["S" + "_" * 13 + "G"] + ["_" * 15] * 7, "slip": 40}
    ways = []
    for seed in range(200):
        world = await opened("frozen-lake", wide, seed)
        await say(world, "move", steps=["right"])
        again = await opened("frozen-lake", wide, seed)
        await say(again, "move", steps=["right"])
        assert world.state == again.state
        ways.append(tuple(world.state["at"]))
    assert set(ways) == {(7, 1), (6, 0), (8, 0)}
    assert 0.5 < ways.count((7, 1)) / 200 < 0.7  # 0.6 expected, standard deviation 0.035


def shortest(rows):
    """Steps from S to G by a search of its own."""
    squares = {(r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)}
    start = next(square for square, symbol in squares.items() if symbol == "S")
    found, waiting = {start: 0}, deque([start])
    while waiting:
        r, c = here = waiting.popleft()
        if squares[here] == "G":
            return found[here]
        for square in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if squares.get(square, "O") != "O" and square not in found:
                found[square] = found[here] + 1
                waiting.append(square)
    return None


def test_the_kept_way_over_a_lake_is_a_shortest_and_as_long_as_the_axis_says():
    world = load("environments", "agentgym/text-frozen-lake-v1")
    for level in range(len(world.levels)):
        for seed in range(10):
            task = world.generate(seed, level)
            assert len(task.truth["solution"]) == shortest(task.parameters["map"])
    lengths = [len(world.generate(seed, 0, size=6, holes=20, length=9).truth["solution"]) for seed in range(20)]
    assert min(lengths) >= 9


# ---- Sokoban

ROOM = {"map": ["######", "#@$.##", "#_#__#", "######"]}


async def test_pushes_and_what_cannot_be_pushed():
    world = await opened("sokoban", {"map": ["#######", "#@$_$.#", "#_._###", "#######"]})
    assert (
        await say(world, "move", steps=["right", "right"]) == "#######\n#_@$$.#\n#_._###\n#######"
    )  # two boxes stop one
    assert await say(world, "move", steps=["left", "up"]) == "#######\n#@_$$.#\n#_._###\n#######"
    assert await say(world, "restart") == "#######\n#@$_$.#\n#_._###\n#######"


async def test_the_last_box_on_its_target_ends_it():
    world = await opened("sokoban", ROOM)
    assert world.nearness() == 0.5  # one push is left
    assert await say(world, "move", steps=["right", "right"]) == "Every box is on a target."
    assert world.ended


async def test_a_box_in_a_dead_corner_has_no_progress():
    world = await opened("sokoban", {"map": ["#####", "#_@_#", "#_$_#", "#.__#", "#####"]})
    before = world.nearness()
    await say(world, "move", steps=["down"])
    assert 0 < before < 1
    assert world.nearness() > 0  # along the wall to the target
    world = await opened("sokoban", {"map": ["#####", "#_@.#", "#_$_#", "#___#", "#####"]})
    await say(world, "move", steps=["down"])
    assert world.nearness() == 0.0  # on the lower wall, and the target is not


def fewest_pushes(rows):
    """By a search over all states, None if nothing solves it."""
    floor = {(r, c) for r, row in enumerate(rows) for c, symbol in enumerate(row) if symbol != "#"}
    targets = {(r, c) for r, c in floor if rows[r][c] in ".*+"}
    boxes = frozenset((r, c) for r, c in floor if rows[r][c] in "$*")
    player = next((r, c) for r, c in floor if rows[r][c] in "@+")
    found, waiting = {(player, boxes): 0}, deque([(player, boxes)])
    while waiting:
        state = (r, c), boxes = waiting.popleft()
        if boxes == targets:
            return found[state]
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            ahead, beyond = (r + down, c + right), (r + 2 * down, c + 2 * right)
            pushed = ahead in boxes
            if ahead not in floor or (pushed and (beyond not in floor or beyond in boxes)):
                continue
            after = (ahead, boxes - {ahead} | {beyond} if pushed else boxes)
            if after not in found:
                found[after] = found[state] + pushed
                waiting.append(after) if pushed else waiting.appendleft(after)
    return None


def test_generated_rooms_can_be_solved_and_need_pushes():
    world = load("environments", "agentgym/text-sokoban-v1")
    for level in range(4):
        for seed in range(8):
            rows = world.generate(seed, level).parameters["map"]
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


# ---- number guessing


async def test_a_number_is_found_by_halving():
    world = await opened("number-guess", {"low": 1, "high": 8, "secret": 6, "guesses": 4})
    assert await say(world, "guess", number=4) == "higher, 3 left"
    assert world.nearness() == pytest.approx(0.9 / 3)  # 4 of 8 are left: one of three bits
    assert await say(world, "guess", number=2) == "higher, 2 left"  # foolish, and no news
    assert world.nearness() == pytest.approx(0.9 / 3)
    assert await say(world, "guess", number=6) == "correct"
    assert world.ended


async def test_the_order_of_guesses_does_not_matter_to_the_state():
    keys = []
    for guesses in ((10, 90), (90, 10)):
        world = await opened("number-guess", {"low": 1, "high": 99, "secret": 50, "guesses": 7})
        for guess in guesses:
            await say(world, "guess", number=guess)
        keys.append(await world.state_key())
    assert keys[0] == keys[1]


# ---- countdown


async def test_numbers_are_used_once_and_results_are_whole():
    world = await opened("countdown", {"numbers": [3, 4, 10], "target": 6})
    assert await say(world, "combine", left=3, operator="-", right=4) == "3 - 4 is negative, which is not allowed."
    assert (
        await say(world, "combine", left=10, operator="/", right=4)
        == "10 / 4 is no whole number, which is not allowed."
    )
    assert await say(world, "combine", left=3, operator="+", right=3) == "There is no 3 left on the table: 3, 4, 10."
    assert await say(world, "combine", left=10, operator="-", right=4) == "Reached 6."


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("(10 - 4", "That is no expression"),
        ("9**9**9**9", "Only the numbers"),
        ("__import__('os').system('true')", "Only the numbers"),
        ("10 - 5", "5 is not on the table"),
        ("3 + 3", "3 is not on the table, or not as often"),
        ("4 / 0", "is no whole number"),
        ("(" * 300, "300 characters"),
        ("(" * 190, "That is no expression"),
        ("True + 3", "Only the numbers"),
        ("-4 + 10", "Only the numbers"),
    ],
)
async def test_an_expression_is_read_and_never_run(expression, said):
    world = await opened("countdown", {"numbers": [3, 4, 10], "target": 6})
    assert said in await say(world, "answer", expression=expression)
    assert not world.ended
    assert await say(world, "answer", expression="10 - 4") == "That is 6."
    assert world.verdict()["success"] == 1.0


async def test_where_every_number_must_be_used_a_part_of_them_is_not_enough():
    world = await opened("countdown", {"numbers": [2, 3, 6], "target": 6, "use_all": True})
    assert world.nearness() > 0
    assert await say(world, "answer", expression="2 * 3") == "Every number must be used; left are 6."
    assert await say(world, "combine", left=3, operator="-", right=2) == "On the table: 1, 6"
    assert await say(world, "combine", left=6, operator="*", right=1) == "Reached 6."


async def test_a_wrong_answer_is_the_end():
    world = await opened("countdown", {"numbers": [3, 4, 10], "target": 6})
    assert await say(world, "answer", expression="10 - 3") == "That is 7."
    assert world.ended
    assert world.verdict() == {"success": 0.0, "progress": 0.0}


def every_value(numbers):
    """All values that some of the numbers make, in the plainest way."""
    found = set(numbers)
    for left, right in itertools.permutations(range(len(numbers)), 2):
        rest = [number for place, number in enumerate(numbers) if place not in (left, right)]
        for operator in "+-*/":
            if countdown.possible(numbers[left], operator, numbers[right]):
                found |= every_value([*rest, countdown.combined(numbers[left], operator, numbers[right])])
    return found


@given(st.lists(st.integers(1, 12), min_size=2, max_size=4), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_the_search_finds_a_way_exactly_where_there_is_one(numbers, target):
    steps = countdown.search(tuple(sorted(numbers)), target, False)
    assert (steps is not None) == (target in every_value(numbers))
    table = list(numbers)
    for left, operator, right in steps or ():
        table.remove(left)
        table.remove(right)
        table.append(countdown.combined(left, operator, right))
    assert steps is None or target in table


# ---- Sudoku


async def test_what_contradicts_is_refused_and_what_is_merely_wrong_is_not():
    world = await opened("sudoku", {"grid": ["1234", "3412", "2143", "0000"]})
    assert "is given" in await say(world, "place", cells=[{"row": 1, "column": 1, "value": 2}])
    assert "twice" in await say(world, "place", cells=[{"row": 4, "column": 1, "value": 1}])
    assert "go from 1 to 4" in await say(world, "place", cells=[{"row": 5, "column": 1, "value": 1}])
    done = [{"row": 4, "column": column, "value": value} for column, value in ((1, 4), (2, 3), (3, 2), (4, 1))]
    assert await say(world, "place", cells=done[:2]) == "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 . ."
    assert world.nearness() == 0.5
    assert (
        await say(world, "place", cells=[{"row": 4, "column": 2, "value": 0}]) == "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 . . ."
    )
    assert await say(world, "place", cells=done[1:]) == "Solved."


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_the_solver_counts_as_plain_trying_does(seed):
    rng = random.Random(seed)
    full = [int(digit) for digit in "1234341221434321"]
    grid = [0 if rng.random() < 0.6 else value for value in full]

    def count(cells):
        if 0 not in cells:
            return 1
        place = cells.index(0)
        free = set(range(1, 5)) - {cells[other] for other in sudoku.neighbours(4)[place]}
        return sum(count([*cells[:place], value, *cells[place + 1 :]]) for value in free)

    assert len(sudoku.solve(grid, 4, most=10_000)) == count(grid)


def test_every_generated_grid_has_one_solution():
    world = load("environments", "agentgym/text-sudoku-v1")
    for level in range(len(world.levels)):
        task = world.generate(7, level)
        given_cells = [int(digit) for row in task.parameters["grid"] for digit in row]
        solutions = sudoku.solve(given_cells, len(task.parameters["grid"]), most=2)
        assert ["".join(map(str, solution)) for solution in solutions] == [task.truth["solution"]]


# ---- Wordle and twenty questions


@pytest.mark.parametrize(
    ("guess", "secret", "said"),
    [
        ("speed", "abide", "--Y-Y"),
        ("speed", "erase", "Y-YY-"),
        ("allee", "apple", "GY--G"),
        ("apple", "apple", "GGGGG"),
    ],
)
def test_marks_count_a_letter_only_as_often_as_it_is_there(guess, secret, said):
    assert wordle.marks(guess, secret) == said


async def test_guesses_that_are_no_words_of_the_length_cost_nothing():
    world = await opened("wordle", {"secret": "apple", "guesses": 2, "among": ["apple", "grape"]})
    assert "has 5 letters" in await say(world, "guess", word="pear")
    assert "has 5 letters" in await say(world, "guess", word="äpple")
    assert await say(world, "words") == "apple grape"
    assert await say(world, "guess", word=" GRAPE ") == "--YYG, 1 left"
    assert await say(world, "guess", word="mango") == "-Y---, 0 left"
    assert world.ended
    assert world.verdict()["success"] == 0.0


def test_the_words_are_words_of_their_length_and_each_is_there_once():
    for length, words in WORDS.items():
        assert list(words) == sorted(set(words))
        assert all(len(word) == length and word.isascii() and word.islower() for word in words)
        assert len(words) > 300


def test_no_two_things_have_the_same_properties():
    assert len(set(THINGS.values())) == len(THINGS) == len(SHELVES[0]) + len(SHELVES[1])


@given(st.sets(st.sampled_from(sorted(THINGS)), min_size=2, max_size=30))
@settings(max_examples=50, deadline=None)
def test_some_question_always_splits_what_is_left(things):
    asked = twenty_questions.halving(sorted(things))
    assert 0 < sum(asked in THINGS[thing] for thing in things) < len(things)


async def test_answers_are_true_and_unknown_properties_cost_nothing():
    world = await opened("twenty-questions", {"secret": "apple", "among": ["apple", "chair"], "questions": 3})
    assert "Did you mean" in await say(world, "ask", property="eatn")
    assert await say(world, "ask", property="Grows on tree") == "yes, 2 left"
    assert await say(world, "guess", thing="chair") == "wrong, 1 left"
    assert "none of the things" in await say(world, "guess", thing="god")
    assert set((await say(world, "properties")).split()) == THINGS["apple"] | THINGS["chair"]
    assert set(PROPERTIES) > THINGS["apple"]
    assert await say(world, "guess", thing="Apple") == "right, 0 left"
    assert world.verdict()["success"] == 1.0


# ---- the adventure


def test_from_wherever_an_agent_wanders_the_quest_can_still_be_done():
    """Random commands, most of them sensible: no state is a dead end, and every key can be had before its lock."""
    world = load("environments", "agentgym/text-adventure-v1")
    for seed in range(20):
        rng = random.Random(seed)
        task = world.generate(seed, 5, locks=4, rooms=6)
        from agentgym.sandboxes.text.adventure import _fresh

        house = _fresh(task.parameters["house"], task.parameters["state"])
        for _ in range(40):
            things, holders = list(house.state["places"]), list(house.holders)
            command = rng.choice(
                [f"go {way}" for way in house.exits[house.state["at"]]]
                + [f"open {rng.choice(holders)}", f"take {rng.choice(things)}", f"drop {rng.choice(things)}"]
                + [f"put {rng.choice(things)} in {rng.choice(holders)}"]
            )
            try:
                house.do(command)
            except ToolError:
                continue
        for command in house.solution(task.parameters["quest"]):
            house.do(command)
        assert all(house.state["places"][thing] == holder for thing, holder in task.parameters["quest"])


def test_locks_bar_what_they_lock_and_keys_are_needed_in_turn():
    world = load("environments", "agentgym/text-adventure-v1")
    solutions = [world.generate(seed, 0, rooms=5, locks=3, others=4).truth["solution"] for seed in range(20)]
    unlocked = [sum(command.startswith("unlock") for command in commands) for commands in solutions]
    assert max(unlocked) == 3
    assert sum(count >= 1 for count in unlocked) >= 18


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("look", "You are in the hall. You see: chest (locked), table (cup), iron key. Ways: north to the attic."),
        ("Take the CUP from the table!", "You take the cup."),
        ("open chest", "The chest is locked. Write: unlock chest with ..."),
        ("unlock chest with iron key", "You carry no 'iron key'."),
        ("take key", "There is no 'key' to be taken here."),
        ("take iron key; unlock chest with iron key; open chest",
         "You take the iron key. The chest is unlocked. In the chest: nothing."),
        ("go south", "No way leads south from the hall."),
        ("take cup; go up; drop cup", "You take the cup. I do not understand ' go up'. Commands are:"),
        ("", "I do not understand ''."),
        ("inventory", "You carry: nothing."),
        ("put cup in chest", "You do not carry 'cup'."),
        ("x" * 100_000, "I do not understand 'xxxx"),
    ],
)  # fmt: skip
async def test_commands_are_understood_or_answered(command, said):
    house = {
        "exits": {"hall": {"north": "attic"}, "attic": {"south": "hall"}},
        "locks": {"chest": "iron key"},
        "holders": {"chest": {"room": "hall", "opens": True}, "table": {"room": "hall", "opens": False}},
    }
    state = {"at": "hall", "places": {"cup": "table", "iron key": "hall"}}
    world = await opened("adventure", {"house": house, "state": state, "quest": [["cup", "chest"]]})
    assert (await say(world, "act", command=command)).startswith(said)


async def test_a_key_behind_its_own_lock_is_refused_when_the_house_is_built():
    from agentgym.errors import TaskError

    house = {
        "exits": {"hall": {}},
        "locks": {"chest": "iron key"},
        "holders": {"chest": {"room": "hall", "opens": True}},
    }
    state = {"at": "hall", "places": {"cup": "hall", "iron key": "chest"}}
    with pytest.raises(TaskError, match="t: the house cannot be played: RecursionError"):
        await opened("adventure", {"house": house, "state": state, "quest": [["cup", "chest"]]})
