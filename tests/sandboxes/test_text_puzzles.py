"""Numbers, grids of digits, words and things: rules on examples by hand, and solvers against plain trying."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Call, Task
from agentgym.registry import load
from agentgym.sandboxes.text import countdown, sudoku, twenty_questions, wordle
from agentgym.sandboxes.text.things import PROPERTIES, SHELVES, THINGS
from agentgym.sandboxes.text.words import WORDS


async def opened(name, parameters, seed=0):
    environment = load("environments", f"agentgym/text-{name}-v1")()
    await environment.reset(Task("t", environment.id, "?", parameters=parameters), seed=seed)
    return environment


async def say(environment, tool, **arguments):
    return (await environment.call(Call(tool, arguments))).content


# ---- number guessing


async def test_a_number_is_found_by_halving():
    environment = await opened("number-guess", {"low": 1, "high": 8, "secret": 6, "guesses": 4})
    assert await say(environment, "guess", number=4) == "higher, 3 left"
    assert environment.nearness() == pytest.approx(0.9 / 3)  # 4 of 8 are left: one of three bits
    assert await say(environment, "guess", number=2) == "higher, 2 left"  # foolish, and no news
    assert environment.nearness() == pytest.approx(0.9 / 3)
    assert await say(environment, "guess", number=6) == "correct"
    assert environment.ended


async def test_the_order_of_guesses_does_not_matter_to_the_state():
    keys = []
    for guesses in ((10, 90), (90, 10)):
        environment = await opened("number-guess", {"low": 1, "high": 99, "secret": 50, "guesses": 7})
        for guess in guesses:
            await say(environment, "guess", number=guess)
        keys.append(await environment.state_key())
    assert keys[0] == keys[1]


# ---- countdown


async def test_numbers_are_used_once_and_results_are_whole():
    environment = await opened("countdown", {"numbers": [3, 4, 10], "target": 6})
    assert (
        await say(environment, "combine", left=3, operator="-", right=4) == "3 - 4 is negative, which is not allowed."
    )
    assert (
        await say(environment, "combine", left=10, operator="/", right=4)
        == "10 / 4 is no whole number, which is not allowed."
    )
    assert (
        await say(environment, "combine", left=3, operator="+", right=3) == "There is no 3 left on the table: 3, 4, 10."
    )
    assert await say(environment, "combine", left=10, operator="-", right=4) == "Reached 6."


@pytest.mark.parametrize(
    ("expression", "expected"),
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
async def test_an_expression_is_read_and_never_run(expression, expected):
    environment = await opened("countdown", {"numbers": [3, 4, 10], "target": 6})
    assert expected in await say(environment, "answer", expression=expression)
    assert not environment.ended
    assert await say(environment, "answer", expression="10 - 4") == "That is 6."
    assert environment.verdict()["success"] == 1.0


async def test_where_every_number_must_be_used_a_part_of_them_is_not_enough():
    environment = await opened("countdown", {"numbers": [2, 3, 6], "target": 6, "use_all": True})
    assert environment.nearness() > 0
    assert await say(environment, "answer", expression="2 * 3") == "Every number must be used; left are 6."
    assert await say(environment, "combine", left=3, operator="-", right=2) == "On the table: 1, 6"
    assert await say(environment, "combine", left=6, operator="*", right=1) == "Reached 6."


async def test_a_wrong_answer_is_the_end():
    environment = await opened("countdown", {"numbers": [3, 4, 10], "target": 6})
    assert await say(environment, "answer", expression="10 - 3") == "That is 7."
    assert environment.ended
    assert environment.verdict() == {"success": 0.0, "progress": 0.0}


def every_value(numbers):
    """All values that some of the numbers make, in the plainest way."""
    values = set(numbers)
    for left, right in itertools.permutations(range(len(numbers)), 2):
        rest = [number for index, number in enumerate(numbers) if index not in (left, right)]
        for operator in "+-*/":
            if countdown.possible(numbers[left], operator, numbers[right]):
                values |= every_value([*rest, countdown.combined(numbers[left], operator, numbers[right])])
    return values


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


async def test_contradicting_values_are_refused_and_other_wrong_values_are_accepted():
    environment = await opened("sudoku", {"grid": ["1234", "3412", "2143", "0000"]})
    assert "is given" in await say(environment, "place", cells=[{"row": 1, "column": 1, "value": 2}])
    assert "twice" in await say(environment, "place", cells=[{"row": 4, "column": 1, "value": 1}])
    assert "go from 1 to 4" in await say(environment, "place", cells=[{"row": 5, "column": 1, "value": 1}])
    done = [{"row": 4, "column": column, "value": value} for column, value in ((1, 4), (2, 3), (3, 2), (4, 1))]
    assert await say(environment, "place", cells=done[:2]) == "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 3 . ."
    assert environment.nearness() == 0.5
    assert (
        await say(environment, "place", cells=[{"row": 4, "column": 2, "value": 0}])
        == "1 2 3 4\n3 4 1 2\n2 1 4 3\n4 . . ."
    )
    assert await say(environment, "place", cells=done[1:]) == "Solved."


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_the_solver_counts_as_plain_trying_does(seed):
    rng = random.Random(seed)
    full = [int(digit) for digit in "1234341221434321"]
    grid = [0 if rng.random() < 0.6 else value for value in full]

    def count(cells):
        if 0 not in cells:
            return 1
        index = cells.index(0)
        free = set(range(1, 5)) - {cells[other] for other in sudoku.neighbours(4)[index]}
        return sum(count([*cells[:index], value, *cells[index + 1 :]]) for value in free)

    assert len(sudoku.solve(grid, 4, most=10_000)) == count(grid)


def test_every_generated_grid_has_one_solution():
    environment = load("environments", "agentgym/text-sudoku-v1")
    for level in range(len(environment.levels)):
        task = environment.generate(7, level)
        given_cells = [int(digit) for row in task.parameters["grid"] for digit in row]
        solutions = sudoku.solve(given_cells, len(task.parameters["grid"]), most=2)
        assert ["".join(map(str, solution)) for solution in solutions] == [task.truth["solution"]]


# ---- Wordle and twenty questions


@pytest.mark.parametrize(
    ("guess", "secret", "expected"),
    [
        ("speed", "abide", "--Y-Y"),
        ("speed", "erase", "Y-YY-"),
        ("allee", "apple", "GY--G"),
        ("apple", "apple", "GGGGG"),
    ],
)
def test_marks_count_a_letter_only_as_often_as_it_is_there(guess, secret, expected):
    assert wordle.marks(guess, secret) == expected


async def test_guesses_that_are_no_words_of_the_length_cost_nothing():
    environment = await opened("wordle", {"secret": "apple", "guesses": 2, "among": ["apple", "grape"]})
    assert "has 5 letters" in await say(environment, "guess", word="pear")
    assert "has 5 letters" in await say(environment, "guess", word="äpple")
    assert await say(environment, "words") == "apple grape"
    assert await say(environment, "guess", word=" GRAPE ") == "--YYG, 1 left"
    assert await say(environment, "guess", word="mango") == "-Y---, 0 left"
    assert environment.ended
    assert environment.verdict()["success"] == 0.0


def test_the_words_are_words_of_their_length_and_each_is_there_once():
    for length, words in WORDS.items():
        assert list(words) == sorted(set(words))
        assert all(len(word) == length and word.isascii() and word.islower() for word in words)
        assert len(words) > 300


def test_no_two_things_have_the_same_properties():
    assert len(set(THINGS.values())) == len(THINGS) == len(SHELVES[0]) + len(SHELVES[1])


@given(st.sets(st.sampled_from(sorted(THINGS)), min_size=2, max_size=30))
@settings(max_examples=50, deadline=None)
def test_some_question_always_splits_the_remaining_things(things):
    property_name = twenty_questions.halving(sorted(things))
    assert 0 < sum(property_name in THINGS[thing] for thing in things) < len(things)


async def test_answers_are_true_and_unknown_properties_cost_nothing():
    environment = await opened("twenty-questions", {"secret": "apple", "among": ["apple", "chair"], "questions": 3})
    assert "Did you mean" in await say(environment, "ask", property="eatn")
    assert await say(environment, "ask", property="Grows on tree") == "yes, 2 left"
    assert await say(environment, "guess", thing="chair") == "wrong, 1 left"
    assert "none of the things" in await say(environment, "guess", thing="god")
    assert set((await say(environment, "properties")).split()) == THINGS["apple"] | THINGS["chair"]
    assert set(PROPERTIES) > THINGS["apple"]
    assert await say(environment, "guess", thing="Apple") == "right, 0 left"
    assert environment.verdict()["success"] == 1.0
