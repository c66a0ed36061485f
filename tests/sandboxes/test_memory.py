"""`agentgym/memory-v1`: what the bank does, what each role may do, and what is refused."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Call, Message, Task, TaskError, ToolError
from agentgym.sandboxes.memory.bank import ENTRY_CHARS, MemoryBank

PARAMETERS = {
    "sessions": ["Ada: I live in Oslo.", "Ada: It rains."],
    "question": "Where does Ada live?",
    "capacity": 2,
    "needed": [["Ada", "Oslo"]],
}


async def opened(**changes):
    environment = agentgym.make("agentgym/memory-v1")
    task = Task("t", "agentgym/memory-v1", "Remember.", parameters={**PARAMETERS, **changes})
    return environment, await environment.reset(task, seed=0), task


async def call(environment, name, **arguments):
    return await environment.call(Call(name, arguments, "1"))


async def test_a_session_is_forgotten_and_the_memory_is_taken_along():
    environment, (opening,), _ = await opened()
    assert (environment.role, list(environment.tools)) == ("manager", ["add", "update", "delete", "end_session"])
    assert opening.text.endswith("Memory:\n(empty)\n\nSession 1 of 2:\nAda: I live in Oslo.")
    assert await environment.potential() == 0.0
    assert (await call(environment, "add", text="Ada  lives in\nOslo")).content == "Added as entry 1."
    assert await environment.potential() == 1.0
    assert environment.take_context_change() is None
    result = await call(environment, "end_session")
    (second,) = environment.take_context_change().opening
    assert second.text == result.content
    assert "Memory:\n1. Ada lives in Oslo\n" in second.text
    assert "I live in Oslo" not in second.text
    await call(environment, "end_session")
    (question,) = environment.take_context_change().opening
    assert question.text.endswith("Question: Where does Ada live?")
    assert (environment.role, list(environment.tools)) == ("answerer", ["search", "answer"])
    assert (await call(environment, "search", query="ADA's town?")).content == "Ada lives in Oslo"
    assert (await call(environment, "search", query="Ben")).content == "Nothing was found."
    assert (await call(environment, "add", text="late")).status == "unknown_tool"


async def test_no_session_is_ended_before_it_was_seen():
    environment, _, _ = await opened()
    await call(environment, "end_session")
    assert "has ended; the next one comes" in (await call(environment, "end_session")).content
    (second,) = environment.take_context_change().opening
    assert "Session 2 of 2:" in second.text


async def test_a_task_may_tell_a_role_what_to_do_in_its_own_words():
    environment, (opening,), _ = await opened(instructions={"manager": "Note {who} speaks."})
    assert opening.text.startswith("Note {who} speaks.\n\nMemory:\n(empty)")
    await call(environment, "end_session")
    environment.take_context_change()
    result = await call(environment, "end_session")
    assert result.content.startswith("Answer from the memory alone")


async def test_what_the_memory_cannot_do_is_told_with_the_remedy():
    environment, _, _ = await opened()
    for number in (1, 2):
        await call(environment, "add", text=f"entry {number}")
    for name, arguments, words in (
        ("add", {"text": "one more"}, "holds 2 entries"),
        ("update", {"entry": 7, "text": "x"}, "no entry 7. It has: 1, 2."),
        ("delete", {"entry": 0}, "no entry 0"),
        ("update", {"entry": 1, "text": "x" * (ENTRY_CHARS + 1)}, f"at most {ENTRY_CHARS} characters"),
        ("update", {"entry": 1, "text": " \n"}, "has a text"),
    ):
        result = await call(environment, name, **arguments)
        assert result.status == "tool_error"
        assert words in result.content
    await call(environment, "delete", entry=1)
    assert (await call(environment, "add", text="new")).content == "Added as entry 3."  # no number is given twice
    assert (await environment.respond(Message("assistant", "Oslo")))[0].text.startswith("Call add")


async def test_a_memory_goes_on_from_a_checkpoint_as_it_was():
    environment, _, task = await opened()
    await call(environment, "add", text="a")
    await call(environment, "delete", entry=1)
    await call(environment, "add", text="Ada lives in Oslo")
    for _ in range(3):
        copy = agentgym.make("agentgym/memory-v1")
        await copy.restore(task, await environment.checkpoint(), seed=0)
        assert await copy.state_key() == await environment.state_key()
        assert (copy.role, copy.tools) == (environment.role, environment.tools)
        if environment.role == "manager":
            same = [await call(each, "end_session") for each in (environment, copy)]
            assert same[0].content == same[1].content
            environment.take_context_change()


def test_a_full_bank_keeps_what_it_has_and_rare_words_weigh_more():
    bank = MemoryBank(4)
    for text in ("Ada likes tea", "Ada likes milk", "Ben likes tea", "Cora likes chai"):
        bank.add(text)
    assert bank.search("likes chai")[0] == "Cora likes chai"
    assert bank.search("Ada tea")[0] == "Ada likes tea"
    with pytest.raises(ToolError, match="full"):
        bank.add("x")
    assert len(bank.entries) == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sessions": []}, "sessions"),
        ({"sessions": "Ada: Hello."}, "sessions"),
        ({"question": None}, "question"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": True}, "capacity"),
        ({"needed": ["Ada"]}, "needed"),
        ({"needed": 3}, "needed"),
        ({"instructions": "Read."}, "instructions"),
        ({"instructions": {"critic": "Read."}}, "instructions"),
        ({"instructions": {"manager": 3}}, "instructions.*3"),
    ],
)
async def test_a_task_that_is_none_is_refused_by_name(changes, words):
    with pytest.raises(TaskError, match=f"t: .*{words}"):
        await opened(**changes)
