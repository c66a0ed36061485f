"""`answer_match` and `query_evidence`: worked examples, and what an agent might do to be paid for nothing."""

from __future__ import annotations

import pytest

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn, load_reward
from agentgym.messages import Result, ResultStatus
from agentgym.reward import comparison, validate_components
from agentgym.rewards.answer_match import AnswerMatch
from agentgym.rewards.query_evidence import QueryEvidence

TRUTH = {"answer": "412-7306", "evidence": ["4821"]}


def query(sql, result, status=ResultStatus.OK):
    return Call("query", {"sql": sql}), Result(result, status, "query")


def answer(text):
    return Call("answer", {"text": text}), Result("Answered.", ResultStatus.OK, "answer", final=True)


def play(*turns, truth=TRUTH, stop=StopReason.ANSWERED, text=None):
    """A trajectory of turns, each a list of (call, result), or a string the agent says."""
    trajectory = Trajectory("t", Task("t", "agentgym/sql-v1", "What?", truth=truth), stop_reason=stop)
    for index, turn in enumerate(turns):
        if isinstance(turn, str):
            trajectory.turns.append(Turn(index, Message("assistant", turn)))
            continue
        calls, results = zip(*turn, strict=True)
        trajectory.turns.append(Turn(index, Message("assistant", "", calls), calls, results))
    return trajectory


def success(*turns, **options):
    return AnswerMatch().outcome(play(*turns, **options))["success"]


def earned(*turns, truth=TRUTH):
    """Components of each turn, as (executed, evidence)."""
    trajectory = play(*turns, truth=truth)
    components = [QueryEvidence().turn(turn, trajectory) for turn in trajectory.turns]
    return [(c["executed"], c["evidence"]) for c in components]


@pytest.mark.parametrize(
    ("given", "gold"),
    [
        ("412-7306", "412-7306"),
        ("  Acorn231@Mail.com. ", "acorn231@mail.com"),
        ("'SO-48213'", "SO-48213"),
        ('"`SO-48213`"', "SO-48213"),
        ("184.370", "184.37"),
        ("$1,184.50", "1184.5"),
        ("1184.5000001", "1184.5"),
        ("1e3", "1000"),
        ("\uff14\uff11\uff12", "412.0"),
    ],
)
def test_the_same_answer_may_be_written_in_other_ways(given, gold):
    assert comparison.same_answer(given, gold)


@pytest.mark.parametrize(
    ("given", "gold"),
    [
        ("", "412-7306"),
        ("412-7307", "412-7306"),
        ("412-7306 or 412-7307", "412-7306"),
        ("The phone number is 412-7306", "412-7306"),
        ("184.38", "184.37"),
        ("nan", "184.37"),
        ("inf", "184.37"),
        ("9" * 400, "184.37"),
        ("1,84.37", "184.37"),
        ("2021-05-04", "2021-05-05"),
        ("%", "412-7306"),
        (".", "."),
        ("10000001", "10000002"),
        ("4155550123", "4155550124"),
    ],
)
def test_another_answer_is_another_answer(given, gold):
    assert not comparison.same_answer(given, gold)


def test_the_answer_of_the_final_tool_decides():
    assert success([answer("412-7306")]) == 1.0
    assert success([answer("412-7307")]) == 0.0
    assert success([query("SELECT 1", "1")], [answer(" 412-7306 ")]) == 1.0


def test_an_answer_that_the_tool_refused_does_not_count():
    refused = Call("answer", {"text": "412-7306"}), Result("no", ResultStatus.WRONG_ARGUMENTS, "answer")
    assert success([refused], stop=StopReason.MAX_TURNS) == 0.0


def test_of_two_answers_in_one_turn_the_first_counts():
    """Otherwise an agent could answer with every value it has seen."""
    assert success([answer("412-7307"), answer("412-7306")]) == 0.0


def test_speaking_the_answer_counts_only_as_the_end_of_the_episode():
    assert success([query("SELECT 1", "1")], "412-7306") == 1.0
    assert success("412-7306", stop=StopReason.MAX_TURNS) == 0.0
    assert success([query("SELECT phone", "412-7306")], stop=StopReason.MAX_TURNS) == 0.0


def test_without_turns_nothing_is_answered():
    assert success(stop=StopReason.TIME) == 0.0


@pytest.mark.parametrize("reward", ["answer_match", "query_evidence", "sql"])
async def test_a_task_without_truth_cannot_be_judged(reward):
    judge = load_reward(reward)
    trajectory = play([answer("x")], truth=None)

    async def judge_all():
        await validate_components(judge.turn(trajectory.turns[0], trajectory), judge)
        await validate_components(judge.outcome(trajectory), judge)

    with pytest.raises(JudgeError, match="t has no truth"):
        await judge_all()


def test_each_hop_of_two_earns_half_and_the_answer_turn_nothing():
    """Two needed values, so 1/2 for each new query that ran, and 1/2 for each value found."""
    hops = earned([query("SELECT a", "4821")], [query("SELECT b", "412-7306")], [answer("412-7306")])
    assert hops == [(0.5, 0.5), (0.5, 0.5), (0.0, 0.0)]


def test_a_join_that_finds_the_answer_at_once_earns_both_links():
    assert earned([query("SELECT a JOIN b", "412-7306")]) == [(0.5, 1.0)]


def test_a_value_among_other_columns_is_found():
    assert earned([query("SELECT *", "9 | Oak Lamp | 4821 | 3")]) == [(0.5, 0.5)]


def test_a_value_inside_another_is_not_found():
    assert earned([query("SELECT *", "48210 | 148213")]) == [(0.5, 0.0)]


def test_what_earns_nothing():
    refused = query("SELECT x", "SQLite: no such column: x.", ResultStatus.TOOL_ERROR)
    assert earned([refused]) == [(0.0, 0.0)]
    assert earned([query("SELECT a", "[no rows]")]) == [(0.0, 0.0)]
    assert earned("I think it is 412-7306.") == [(0.0, 0.0)]
    assert earned([(Call("tables"), Result("412-7306", name="tables"))]) == [(0.0, 0.0)]


def test_the_same_query_again_earns_nothing():
    first, repeated = query("SELECT a FROM b", "4821"), query("select  A from b ;", "4821")
    assert earned([first], [repeated], [first]) == [(0.5, 0.5), (0.0, 0.0), (0.0, 0.0)]


def test_finding_the_same_value_by_another_query_earns_no_evidence_again():
    assert earned([query("SELECT a", "4821")], [query("SELECT a, 1", "4821 | 1")])[1] == (0.5, 0.0)


def test_many_different_queries_earn_at_most_what_the_needed_ones_do():
    """Twelve pointless queries that all run: paid twice, as there are two links, so 0.1 in the scalar at most."""
    spam = earned(*([query(f"SELECT {n}", str(n))] for n in range(12)))
    assert sum(executed for executed, _ in spam) == 1.0
    assert sum(evidence for _, evidence in spam) == 0.0


def test_dumping_a_table_finds_nothing():
    rows = [f"{n} | 4821 | 412-7306" for n in range(6)]
    assert earned([query("SELECT * FROM t", "\n".join(rows))]) == [(0.5, 0.0)]
    assert earned([query("SELECT wide", " | ".join(["412-7306", *map(str, range(30))]))]) == [(0.5, 0.0)]


def test_spelling_a_guess_out_in_the_query_finds_nothing():
    assert earned([query("SELECT '412-7306', 4821", "412-7306 | 4821")]) == [(0.5, 0.0)]


def test_parallel_queries_of_one_turn_are_paid_as_one_turn():
    both = earned([query("SELECT a", "4821"), query("SELECT b", "412-7306")])
    assert both == [(0.5, 1.0)]


async def test_the_combined_reward_never_pays_more_for_queries_than_for_the_answer():
    """success 1.0 against 0.1 * 1.0 + 0.3 * 1.0."""
    judge = load_reward("sql")
    trajectory = play([query("SELECT a", "4821")], [query("SELECT b", "412-7306")], [answer("wrong")])
    turns = [judge.total(await validate_components(judge.turn(turn, trajectory), judge)) for turn in trajectory.turns]
    assert sum(turns) == pytest.approx(0.4)
    assert await validate_components(judge.outcome(trajectory), judge) == {"success": 0.0}
    assert judge.total({"success": 1.0}) == 1.0
