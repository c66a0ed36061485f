"""Judges of queries and of changes: right ones pass, lucky ones and forged ones do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym import (
    Call,
    Environment,
    JudgeError,
    Message,
    SandboxDied,
    StopReason,
    Task,
    Trajectory,
    Turn,
    load_reward,
    load_task_set,
)
from agentgym.messages import Result, ResultStatus
from agentgym.reward import validate_components
from agentgym.rewards.sql_exploration import SqlExploration
from agentgym.rewards.sql_ngrams import SqlNgrams, tokens
from agentgym.rewards.sql_schema_linking import SqlSchemaLinking
from agentgym.rewards.sql_state import SqlState, same_answers
from agentgym.rewards.sql_syntax import SqlSyntax
from agentgym.rewards.tried_query import TriedQuery

IN_PROCESS = "agentgym/sql-inprocess-v1"
GOLD = "SELECT title FROM books WHERE pages > 400"


@pytest.fixture(scope="module")
def task():
    row = next(
        task for task in load_task_set("sql/schemas-inprocess-v1")["train"] if task.tags == ("list_above", "library")
    )
    return replace(row, truth={**row.truth, "sql": GOLD})


def submission(task, sql, *, tried=(), text=None):
    turns = []
    for query, ok in tried:
        status = ResultStatus.OK if ok else ResultStatus.TOOL_ERROR
        call = Call("query", {"sql": query})
        turns.append(Turn(len(turns), Message("assistant", "", (call,)), (call,), (Result("x", status, "query"),)))
    if text is not None:
        turns.append(Turn(len(turns), Message("assistant", text)))
    else:
        call = Call("submit", {"sql": sql})
        result = Result("Submitted.", ResultStatus.OK, "submit", final=True)
        turns.append(Turn(len(turns), Message("assistant", "", (call,)), (call,), (result,)))
    return Trajectory("t", task, turns=turns, stop_reason=StopReason.ANSWERED)


async def outcome(task, sql, reward="sql_execution", **options):
    judge = load_reward(reward) if isinstance(reward, str) else reward
    return await validate_components(judge.outcome(submission(task, sql, **options)), judge)


async def test_the_same_rows_by_another_query_are_right(task):
    components = await outcome(task, "SELECT b.title FROM books AS b WHERE NOT b.pages <= 400 ORDER BY b.price")
    assert (components["success"], components["runs"], components["databases"]) == (1.0, 1.0, 1.0)
    assert 0 < components["economy"] <= 1.0


async def test_without_rows_a_query_with_as_many_columns_is_right_and_no_other(task):
    task = replace(task, truth={"sql": "SELECT title FROM books WHERE pages < 0"})
    assert (await outcome(task, "SELECT price FROM books WHERE 1 = 0"))["success"] == 1.0
    assert (await outcome(task, "SELECT title, pages FROM books WHERE 1 = 0"))["success"] == 0.0


async def test_a_query_right_by_luck_in_one_database_is_wrong(task):
    """Spelling out the rows that one has seen is right there, and nowhere else."""
    from agentgym import make

    environment = make(IN_PROCESS)
    await environment.reset(task.public(), seed=0)
    rows = (await environment.rows(GOLD))["rows"]
    await environment.close()
    lucky = " UNION ALL ".join(f"SELECT '{title}'" for (title,) in rows)
    components = await outcome(task, lucky)
    assert components["success"] == 0.0
    assert components["databases"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("sql", "runs"),
    [
        ("SELECT title FROM books", 1.0),
        ("SELECT title, pages FROM books WHERE pages > 400", 1.0),
        ("SELECT DISTINCT genre FROM books", 1.0),
        ("SELECT title FROM book WHERE pages > 400", 0.0),
        ("DELETE FROM books", 0.0),
        ("", 0.0),
        ("success", 0.0),
        ("SELECT title FROM books; DROP TABLE books", 0.0),
        ("ATTACH DATABASE '/etc/passwd' AS p", 0.0),
        ("WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t LIMIT 20000", 1.0),
        ("x" * 30_000, 0.0),
    ],
)
async def test_a_wrong_query_fails_and_what_it_earns_for_running_is_told_apart(task, sql, runs):
    components = await outcome(task, sql)
    assert (components["success"], components["runs"]) == (0.0, runs)


async def test_order_counts_where_the_gold_query_orders(task):
    task = replace(task, truth={"sql": "SELECT title FROM books ORDER BY price DESC"})
    assert (await outcome(task, "SELECT title FROM books ORDER BY price DESC"))["success"] == 1.0
    assert (await outcome(task, "SELECT title FROM books ORDER BY price"))["success"] == 0.0


async def test_a_query_in_a_last_message_counts_and_talk_does_not(task):
    assert (await outcome(task, "", text=f"Here it is:\n```sql\n{GOLD}\n```"))["success"] == 1.0
    assert (await outcome(task, "", text=GOLD))["success"] == 1.0
    assert (await outcome(task, "", text=f"I would say that {GOLD}"))["success"] == 0.0


@pytest.mark.parametrize(
    "truth",
    [None, {}, {"sql": ""}, {"sql": "SELECT nope FROM books"}, {"sql": GOLD, "suite": [{"database": "no/such"}]}],
)
async def test_a_task_that_cannot_be_judged_is_an_error_never_a_zero(task, truth):
    with pytest.raises(JudgeError):
        await outcome(replace(task, truth=truth), GOLD)


async def test_an_environment_without_rows_cannot_judge_queries(task):
    with pytest.raises(JudgeError, match=r"the method rows\(\)"):
        await outcome(replace(task, environment="agentgym/code-v1"), GOLD)


async def test_a_dear_query_earns_less_economy_than_a_cheap_one(task):
    dear = f"{GOLD} AND (SELECT COUNT(*) FROM loans a, loans b WHERE a.weeks > b.weeks) > 0"
    assert (await outcome(task, dear))["economy"] < 0.2
    assert (await outcome(task, GOLD))["economy"] == 1.0


@pytest.mark.parametrize(
    ("sql", "syntax"),
    [
        (GOLD, 1.0),
        ("SELECT 1; SELECT 2", 0.0),
        ("DROP TABLE books", 0.0),
        ("SELEC 1", 0.0),
        ("SELECT " + "(" * 5_000, 0.0),
    ],
)
async def test_syntax_is_one_select_that_parses(task, sql, syntax):
    assert (await outcome(task, sql, SqlSyntax()))["syntax"] == syntax


async def test_ngrams_by_hand(task):
    """Gold has 7 runs of two of its 8 tokens; `SELECT title FROM books` shares 3 of them: 3 / 7."""
    assert tokens(GOLD + ";") == ["select", "title", "from", "books", "where", "pages", ">", "400"]
    assert (await outcome(task, GOLD.lower(), SqlNgrams()))["ngrams"] == 1.0
    assert (await outcome(task, "SELECT title FROM books", SqlNgrams()))["ngrams"] == pytest.approx(3 / 7)
    assert (await outcome(task, "SELECT title FROM books " * 9, SqlNgrams()))["ngrams"] < 3 / 7
    assert (await outcome(task, "", SqlNgrams()))["ngrams"] == 0.0


@pytest.mark.parametrize(
    ("sql", "linked"),
    [
        ("SELECT b.title AS t FROM books b WHERE b.pages < 3", 1.0),
        ("SELECT title FROM books", 2 / 3),
        ("SELECT title, pages, price, genre FROM books", 3 / 5),  # more than is needed
        ("SELECT * FROM books", 1 / 3),
        ("SELECT member FROM loans", 0.0),
        ("nonsense", 0.0),
    ],
)
async def test_schema_linking_by_hand(task, sql, linked):
    """The gold query names one table and two columns."""
    assert (await outcome(task, sql, SqlSchemaLinking()))["schema_linking"] == pytest.approx(linked)


def test_exploration_is_paid_once_for_what_the_answer_needs(task):
    tried = [
        ("SELECT * FROM books LIMIT 3", True),  # the table: 1 of 3
        ("SELECT pages, title FROM books LIMIT 3", True),  # both columns: 2 of 3
        ("SELECT title FROM books", True),  # nothing new
        ("SELECT member, day, weeks, city, title FROM loans", True),  # listing everything
        ("SELECT pages FROM books", False),
    ]
    episode = submission(task, GOLD, tried=tried)
    paid = [SqlExploration().turn(turn, episode)["exploration"] for turn in episode.turns]
    assert paid == pytest.approx([1 / 3, 2 / 3, 0, 0, 0, 0])
    assert sum(paid) <= 1.0


@pytest.mark.parametrize(
    ("tried", "sql", "paid"),
    [
        ([("SELECT 1", True)], "SELECT  1;\n", 1.0),
        ([("SELECT 1", True), ("SELECT 2", True)], "SELECT 1", 1.0),
        ([("SELECT 1", False)], "SELECT 1", 0.0),
        ([("SELECT 2", True)], "SELECT 1", 0.0),
        ([], "SELECT 1", 0.0),
    ],
)
def test_a_query_is_tried_where_it_has_run_in_an_earlier_turn(task, tried, sql, paid):
    assert TriedQuery().outcome(submission(task, sql, tried=tried)) == {"tried": paid}


def test_a_query_that_runs_beside_its_submission_is_not_tried(task):
    last = submission(task, "SELECT 1").turns[0]
    query, result = submission(task, "SELECT 1", tried=[("SELECT 1", True)]).turns[0], last.results
    beside = replace(last, calls=[*query.calls, *last.calls], results=[*query.results, *result])
    assert TriedQuery().outcome(replace(submission(task, "SELECT 1"), turns=[beside])) == {"tried": 0.0}


async def test_partial_rewards_together_stay_below_a_right_query(task):
    reward = load_reward("sql_partial")
    wrong = await outcome(task, GOLD.replace("400", "420"), reward)
    right = await outcome(task, GOLD, reward)
    assert wrong["success"] == 0.0
    assert reward.total(wrong) + 0.2 < reward.total(right)


@pytest.mark.parametrize(
    ("given", "gold", "same"),
    [
        ("7", ["7"], True),
        ("7.0", ["7"], True),
        ("b, a", ["a", "b"], True),
        ("['a', 'b']", ["b", "a"], True),
        ("[('a',), ('b',)]", ["b", "a"], True),
        ("a\nb", ["a", "b"], True),
        ("Smith, John", ["Smith, John"], True),
        ("a, b, c", ["a", "b"], False),
        ("a, a", ["a", "b"], False),
        ("", ["a"], False),
        ("[" * 3_000, ["a"], False),
    ],
)
def test_answers_are_compared_as_the_values_they_list(given, gold, same):
    assert same_answers(given, gold) is same


@pytest.mark.needs_namespaces
async def test_a_state_that_the_agent_made_up_is_not_the_database(monkeypatch):
    """Only what `finish` itself told counts, and only if it is the state of the gold statements."""
    task = load_task_set("sql/changes-v1")["train"][0]
    judge = SqlState()
    gold = await judge.gold_state(task, task.truth["sql"])
    untouched = await judge.gold_state(task, [])
    assert gold != untouched
    text = f"Finished. State {gold}."

    def turn(name, content, *, final, status=ResultStatus.OK):
        call = Call(name, {"sql": f"SELECT '{text}'"})
        turn = Turn(0, Message("assistant", text, (call,)), (call,), (Result(content, status, name, final=final),))
        return Trajectory("t", task, turns=[turn], stop_reason=StopReason.ANSWERED)

    async def success(*arguments, **options):
        return (await judge.outcome(turn(*arguments, **options)))["success"]

    assert await success("finish", text, final=True) == 1.0
    assert await success("finish", f"Finished. State {untouched}.", final=True) == 0.0
    assert await success("execute", text, final=False) == 0.0
    assert await success("finish", text, final=True, status=ResultStatus.TOOL_ERROR) == 0.0


class Fragile(Environment):
    """Rows of a table whose engine breaks by one query, and by all once it is broken. Not isolated."""

    broken = False

    async def reset(self, task, *, seed):
        return []

    async def rows(self, sql):
        if self.broken or "crash" in sql:
            raise SandboxDied("the engine has crashed")
        return {"rows": [[1]], "more": False, "columns": 1, "steps": None}


@pytest.mark.parametrize("reward", ["sql_execution", "sql_official", "sql_table"])
async def test_a_query_that_breaks_the_engine_has_failed_and_a_broken_engine_judges_nothing(reward, monkeypatch):
    monkeypatch.setattr("agentgym.rewards.judge_environment.make", lambda name, **options: Fragile())
    task = Task("t", "test/fragile-v1", truth={"sql": "SELECT 1", "tables": [{"rows": [[1]]}]})
    assert not any((await outcome(task, "SELECT crash()", reward)).values())
    assert all((await outcome(task, "SELECT 1", reward)).values())
    monkeypatch.setattr(Fragile, "broken", True)
    with pytest.raises(JudgeError, match="The judge failed on a harmless control submission too"):
        await outcome(task, "SELECT 1", reward)
