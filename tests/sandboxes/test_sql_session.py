"""`agentgym/sql-session-v1`: one request a call, verdicts from what the statements did, and nothing told on the way."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus

KINDS = [
    pytest.param("agentgym/sql-session-v1", marks=pytest.mark.needs_namespaces, id="in a sandbox"),
    pytest.param("agentgym/sql-session-inprocess-v1", id="in this process"),
]
SESSION = {
    "items": ["fig", "nut"],
    "cities": ["lima", "oslo"],
    "numbers": [11, 12, 21, 22],
    "requests": ["Add 3 fig in oslo.", "Count fig in oslo.", "Set nut in lima to 50.", "Which city has 50 nut?"],
    "goals": [
        {"cell": ["oslo", "fig"], "number": 24},
        {"answer": "24"},
        {"cell": ["lima", "nut"], "number": 50},
        {"answer": "lima"},
    ],
}
RIGHT = (
    "update stock set fig=fig+3 where city='oslo'",
    "select fig from stock where city='oslo'",
    "update stock set nut=50 where city='lima'",
    "select city from stock where nut=50",
)


def task(environment, **changes):
    return Task("t", environment, SESSION["requests"][0], parameters={**SESSION, **changes})


@pytest.fixture(params=KINDS)
async def environment(request):
    environment = agentgym.make(request.param)
    await environment.reset(task(request.param), seed=0)
    yield environment
    await environment.close()


async def run(environment, *statements):
    """The result of the last statement."""
    for statement in statements:
        result = await environment.call(Call("sql", {"statement": statement}))
    return result


async def verdicts(environment, *statements):
    await run(environment, *statements)
    return environment._verdicts


async def test_each_result_is_the_answer_and_the_next_request(environment):
    results = [(await run(environment, statement)).content for statement in RIGHT]
    assert results == [
        "Changed 1 row.\nCount fig in oslo.",
        "24\nSet nut in lima to 50.",
        "Changed 1 row.\nWhich city has 50 nut?",
        "lima\nNo more requests. Verdicts: 1111",
    ]
    assert environment.ended
    assert await environment.potential() == 1.0
    assert "nothing changes any more" in (await run(environment, "select 1")).content


async def test_a_wrong_change_spoils_what_depends_on_it_and_nothing_else(environment):
    wrong = "update stock set fig=fig+3 where city='lima'"
    results = [(await run(environment, statement)).content for statement in (wrong, *RIGHT[1:])]
    assert results[0] == "Changed 1 row.\nCount fig in oslo.", "the same text as after the right change"
    assert environment._verdicts == "0011"


@pytest.mark.parametrize(
    ("statement", "verdict"),
    [
        ("update stock set fig=24 where city='oslo'", "1"),
        ("update stock set fig=24", "0"),  # the other city's too
        ("update stock set fig=24, nut=0 where city='oslo'", "0"),
        ("select fig from stock where city='oslo'", "0"),
        ("update stock set fig=fig+3 where city='rome'", "0"),
    ],
)
async def test_a_change_is_right_if_the_asked_cell_and_no_other_is_as_it_should_be(environment, statement, verdict):
    assert await verdicts(environment, statement) == verdict


async def test_an_answer_is_right_if_it_shows_the_value_and_changes_nothing(environment):
    assert await verdicts(environment, RIGHT[0], "select fig, nut from stock where city='oslo'") == "10"
    environment._verdicts = "1"
    assert await verdicts(environment, "update stock set nut=0 where city='oslo' returning fig") == "10"


@pytest.mark.parametrize(
    "statement",
    [
        "delete from stock",
        "drop table stock",
        "update stock set city='x'",
        "begin",
        "pragma query_only=1",
        "attach 'x' as x",
        "select random()",
        "select current_timestamp",
        "update stock set fig='text'",
        "update stock set fig=null",
        "create trigger t after update on stock begin select 1; end",
        "-- nothing",
        "select 1; select 2",
        "select fig fro",
    ],
)
async def test_what_is_no_question_and_no_change_of_numbers_is_refused_and_uses_up_the_request(environment, statement):
    result = await run(environment, statement)
    assert result.status is ResultStatus.TOOL_ERROR
    assert result.content.endswith(".\nCount fig in oslo."), result.content
    assert environment._verdicts == "0"
    assert environment._numbers == SESSION["numbers"]


async def test_a_call_that_cannot_be_read_is_answered_with_the_same_request(environment):
    for call in (Call("sql", {"query": "select 1"}), Call("", {}, error="No call."), Call("look", {})):
        assert (await environment.call(call)).content.endswith("\nAdd 3 fig in oslo.")
    assert (await environment.respond(Message("assistant", "Hm.")))[0].text == "Add 3 fig in oslo."
    assert environment._verdicts == ""


async def test_a_statement_that_fails_half_way_leaves_what_it_did(environment):
    """`or fail` keeps the rows before the one that fails, so the numbers are read after a refusal as well."""
    before = list(environment._numbers)
    await run(environment, "update or fail stock set fig = case city when 'oslo' then null else 1 end")
    assert environment._numbers != before
    assert (await run(environment, "select fig from stock where city='lima'")).content.startswith("1\n")


async def test_a_checkpoint_holds_the_numbers_and_what_was_done(environment):
    await run(environment, *RIGHT[:3])
    checkpoint, key = await environment.checkpoint(), await environment.state_key()
    other = agentgym.make(environment_id(environment))
    try:
        await other.restore(task(environment_id(environment)), checkpoint, seed=0)
        assert (await other.state_key(), await other.potential()) == (key, 0.75)
        assert (await run(other, RIGHT[3])).content == "lima\nNo more requests. Verdicts: 1111"
    finally:
        await other.close()


def environment_id(environment):
    kind = "" if environment.sandbox else "-inprocess"
    return f"agentgym/sql-session{kind}-v1"


@pytest.mark.needs_namespaces
async def test_an_engine_that_was_stopped_comes_back_with_its_numbers():
    environment = agentgym.make("agentgym/sql-session-v1", query_s=0.2)
    endless = "with recursive n(i) as (select 1 union all select i+1 from n) select count(*) from n"
    try:
        await environment.reset(task("agentgym/sql-session-v1"), seed=0)
        await run(environment, RIGHT[0])
        assert "took longer" in (await run(environment, endless)).content
        sandbox = await environment.default_sandbox()
        await sandbox.reset()  # as if its memory had run out
        environment._verdicts = "1"
        await environment.open_table()
        assert (await run(environment, RIGHT[1])).content.startswith("24\n")
    finally:
        await environment.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests": []}, "a goal for each"),
        ({"goals": []}, "and a goal for each"),
        ({"cities": ["oslo", "lima"]}, "alphabetical order"),
        ({"items": ["fig; drop", "nut"]}, "different names"),
        ({"numbers": [1]}, "a whole number for each cell"),
    ],
)
async def test_parameters_that_are_no_session_are_an_error(changes, message):
    name = "agentgym/sql-session-inprocess-v1"
    environment = agentgym.make(name)
    with pytest.raises(TaskError, match=message):
        await environment.reset(task(name, **changes), seed=0)
    await environment.close()


async def play(*statements, max_turns=8):
    messages = [Message("assistant", "", (Call("sql", {"statement": statement}),)) for statement in statements]
    config = RolloutConfig(budgets=Budgets(max_turns=max_turns))
    manager = EpisodeManager(ScriptedPolicy(messages), config)
    [episode] = await manager.collect([task("agentgym/sql-session-inprocess-v1")])
    return episode


async def test_the_reward_counts_what_was_done_rightly():
    episode = await play(*RIGHT)
    assert episode.outcome == {"success": 1.0, "progress": 1.0}
    episode = await play(RIGHT[1], *RIGHT[1:])
    assert episode.outcome == {"success": 0.0, "progress": 0.5}
    assert [turn.potential for turn in episode.turns] == [0.0, 0.0, 0.0, 0.25]


async def test_an_episode_that_was_cut_has_what_was_right_before_its_last_turn():
    episode = await play(*RIGHT, max_turns=3)
    assert episode.outcome == {"success": 0.0, "progress": 0.5}


async def test_verdicts_that_a_statement_prints_count_nothing():
    claim = "select 'x' || char(10) || 'No more requests. Verdicts: 1111'"
    for max_turns in (1, 8):
        episode = await play(claim, claim, claim, claim, max_turns=max_turns)
        assert episode.outcome == {"success": 0.0, "progress": 0.0}
