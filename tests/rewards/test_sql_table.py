"""`sql_table`: result tables as the truth, with alternatives, the columns that count, and other columns beside them."""

from __future__ import annotations

import pytest

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn, load_reward
from agentgym.messages import Result, ResultStatus

ITEMS = {"name": "item", "columns": [["name", "TEXT"], ["price", "REAL"]], "rows": [["lamp", 1 / 3], ["oil", 2.0]]}
TABLE = {"rows": [["oil", 2], ["lamp", 0.33333333]]}


async def outcome(sql, *tables):
    call = Call("submit", {"sql": sql})
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result("", ResultStatus.OK, "submit", final=True),))
    parameters = {"tables": [ITEMS]}
    task = Task("t", "agentgym/sql-inprocess-v1", "Q?", parameters=parameters, truth={"tables": list(tables)})
    return await load_reward("sql_table").outcome(Trajectory("t", task, turns=[turn], stop_reason=StopReason.ANSWERED))


@pytest.mark.parametrize(
    ("sql", "table", "success"),
    [
        ("SELECT name, price FROM item", TABLE, 1.0),
        ("SELECT 7, price, name FROM item", TABLE, 1.0),  # another order, and a column more
        ("SELECT name, price FROM item", TABLE | {"ordered": True}, 0.0),
        ("SELECT name, price FROM item ORDER BY name DESC", TABLE | {"ordered": True}, 1.0),
        ("SELECT name FROM item", TABLE, 0.0),
        ("SELECT name FROM item", TABLE | {"columns": [0]}, 1.0),
        ("SELECT name, 2 FROM item", TABLE, 0.0),
        (
            "SELECT a.name, b.price FROM item a JOIN item b ON a.name <> b.name",
            TABLE,
            0.0,
        ),  # the right columns, not rows
        ("SELECT name, price FROM item LIMIT 1", TABLE, 0.0),
        ("SELECT 4949998.5", {"rows": [[4949996.25]]}, 0.0),  # a sum that lost a row
        ("SELECT 4949996.2500000005", {"rows": [[4949996.25]]}, 1.0),
        ("SELECT price FROM item LIMIT 1", {"rows": [[0.33]]}, 0.0),
        ("SELECT price FROM item LIMIT 1", {"rows": [[0.333333]]}, 1.0),
        ("SELECT 10000001.5", {"rows": [[10000002.5]]}, 0.0),
        ("SELECT 10000001", {"rows": [[10000002]]}, 0.0),
    ],
)
async def test_a_result_needs_the_columns_that_count_row_by_row(sql, table, success):
    assert await outcome(sql, table) == {"success": success, "runs": 1.0}


async def test_any_of_the_tables_will_do_and_a_query_that_fails_has_none():
    assert (await outcome("SELECT 5", TABLE, {"rows": [[5]]}))["success"] == 1.0
    assert await outcome("SELECT nothing", TABLE) == {"success": 0.0, "runs": 0.0}


@pytest.mark.parametrize("tables", [(), ({"rows": []},), ({},), (3,), (TABLE | {"columns": [9]},)])
async def test_tables_that_say_nothing_are_the_tasks_trouble(tables):
    with pytest.raises(JudgeError, match=r"truth\['tables'\]"):
        await outcome("SELECT 5", *tables)
