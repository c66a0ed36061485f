"""`sql_official`: Spider's and BIRD's own metrics, where they differ from `sql_execution` and from each other."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Call, Message, StopReason, Trajectory, Turn, load_reward, load_task_set
from agentgym.messages import Result, ResultStatus
from agentgym.rewards.sql_official import same_up_to_columns

GOLD = "SELECT title, pages FROM books WHERE pages > 400"


@pytest.fixture(scope="module")
def task():
    tasks = load_task_set("sql/schemas-inprocess-v1")["train"]
    return next(task for task in tasks if task.tags == ("list_above", "library"))


async def outcome(task, gold, sql):
    call = Call("submit", {"sql": sql})
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result("", ResultStatus.OK, "submit", final=True),))
    task = replace(task, truth={**task.truth, "sql": gold})
    episode = Trajectory("t", task, turns=[turn], stop_reason=StopReason.ANSWERED)
    ours = (await load_reward("sql_execution").outcome(episode))["success"]
    official = await load_reward("sql_official").outcome(episode)
    return ours, official["spider_execution"], official["bird_execution"]


@pytest.mark.parametrize(
    ("gold", "sql", "expected"),
    [
        (GOLD, GOLD, (1, 1, 1)),
        (GOLD, f"```sql\n{GOLD}\n```", (1, 1, 1)),
        (GOLD, "SELECT pages, title FROM books WHERE pages > 400", (0, 1, 0)),  # columns in another order
        (GOLD, f"{GOLD} UNION ALL {GOLD}", (0, 0, 1)),  # each row twice
        (f"{GOLD} ORDER BY pages", f"{GOLD} ORDER BY pages DESC", (0, 0, 1)),
        (GOLD, "SELECT title, pages FROM books", (0, 0, 0)),
        (GOLD, "SELECT nothing", (0, 0, 0)),
        ("SELECT title FROM books WHERE pages < 0", "SELECT title, pages FROM books WHERE pages < 0", (0, 1, 1)),
    ],
)
async def test_each_metric_is_lenient_in_its_own_way(task, gold, sql, expected):
    assert await outcome(task, gold, sql) == expected


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=1, max_size=6), st.permutations(range(4)), st.randoms())
def test_any_permutation_of_rows_and_columns_is_the_same_and_a_changed_cell_is_not(gold, order, random):
    rows = [tuple(row[index] for index in order) for row in gold]
    assert same_up_to_columns(gold, rows, ordered=True)
    random.shuffle(rows)
    assert same_up_to_columns(gold, rows, ordered=False)
    assert not same_up_to_columns(gold, [(2, *rows[0][1:]), *rows[1:]], ordered=False)


def test_many_columns_that_nearly_agree_cost_little():
    """Each column alone holds the same values: only together do they differ."""
    gold = [tuple(int(row == column) for column in range(40)) for row in range(40)]
    rows = [*gold[:-2], tuple(a + b for a, b in zip(gold[-1], gold[-2], strict=True)), (0,) * 40]
    started = time.process_time()
    assert not same_up_to_columns(gold, rows, ordered=False)
    assert time.process_time() - started < 5.0  # processor time; well under one second
