"""The importer `tau2`, its environment and its reward, on a small domain of our own in the published layout."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from tau2_domain import CODE, DATA, USER_TOOLS, write_library

import agentgym
from agentgym import Call, EpisodeManager, JudgeError, Message, RolloutConfig, ScriptedPolicy, close_backends
from agentgym.errors import TaskError
from agentgym.methods.users import END
from agentgym.registry import load, load_reward
from agentgym.tasks.importers.items import LeftOutWarning

SAYS = Message("assistant", "It costs 1,200.")


@pytest.fixture
def clone(tmp_path):
    return write_library(tmp_path)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    with pytest.warns(LeftOutWarning):
        task_set = load("importers", "tau2")(write_library(tmp_path_factory.mktemp("clone")))
    return {task.id.partition("/")[2]: task for split in task_set for task in task_set[split]}


def calls(name, **arguments):
    return Message("assistant", "", (Call(name, arguments),))


async def play(tasks, player, **options):
    try:
        return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), RolloutConfig(**options)).collect(tasks)
    finally:
        await close_backends()


def outcome_of(trajectory):
    assert trajectory.error is None
    return {name: value for name, value in trajectory.outcome.items() if not name.startswith("user_")}


def test_splits_and_wishes_are_as_published_and_what_cannot_be_judged_is_left_out(clone):
    with pytest.warns(
        LeftOutWarning, match=r"library/kind: its score needs a model.*library/spare: it is neither in the split train"
    ):
        task_set = load("importers", "tau2")(clone)
    assert {split: [task.id for task in task_set[split]] for split in ("train", "held_out")} == {
        "train": ["library/lend", "library/gate"],
        "held_out": ["library/history", "library/refuse"],
    }
    lend, gate = task_set["train"]
    assert gate.prompt.startswith("The gate stays shut, and you want b1.\n\nYou know: You are Ida, r1.")
    assert (gate.parameters["persona"], lend.parameters.get("persona")) == ("You are in a hurry.", None)
    assert [task.tags for task in task_set["held_out"]] == [("library",), ("library", "silence_pays")]
    with pytest.warns(LeftOutWarning, match="library/refuse: an agent that does nothing would be rewarded"):
        assert len(load("importers", "tau2")(clone, leave_out_silence_pays=True)["held_out"]) == 1
    with pytest.warns(LeftOutWarning, match="1 of 6 items"):
        with_kind = load("importers", "tau2")(clone, domain="library", ignore_nl_assertions=True)
    assert with_kind["held_out"][-1].tags == ("library", "without_nl_assertions")


def test_the_agent_is_told_of_the_tools_what_their_source_says(tasks):
    tools = {tool["name"]: tool for tool in tasks["lend"].parameters["tools"]}
    assert list(tools) == [
        *("book_details", "find_books", "lend", "register", "unblock_card", "transfer_to_human_agents"),
    ]
    assert [tool["name"] for tool in tasks["lend"].parameters["user_tools"]] == ["look_at_card", "tap_card"]
    assert tools["find_books"]["description"] == "Books that are free.\n\nThey may stand on any shelf."
    assert tools["lend"]["parameters"] == {
        "type": "object",
        "properties": {
            "book_id": {"type": "string", "description": "Its number."},
            "reader_id": {"type": "string", "description": "Who takes it."},
            "days": {"type": "integer", "description": "For how long.", "default": 14},
        },
        "required": ["book_id", "reader_id"],
    }
    reader, free = tools["register"]["parameters"]["properties"]["reader"]["anyOf"]
    assert free == {"type": "object"}
    assert reader["properties"]["joined"]["anyOf"][0] == {"type": "string", "format": "date-time"}
    assert reader["properties"]["card"]["enum"] == ["active", "blocked"]
    assert reader["required"] == ["name", "books"]


@pytest.mark.needs_namespaces
async def test_the_oracle_is_paid_and_whoever_leaves_a_part_out_is_not(tasks):
    oracle = load("importers", "tau2").__globals__["oracle"]
    solved = await play(list(tasks.values()), oracle)
    assert [trajectory.success for trajectory in solved] == [1.0] * 4
    silent = await play(list(tasks.values()), lambda task: [Message("assistant", "No.")])
    assert [trajectory.success for trajectory in silent] == [
        float("silence_pays" in task.tags) for task in tasks.values()
    ]
    lends = calls("lend", book_id="b1", reader_id="r1")
    players = {
        "lends and says": ("lend", [calls("find_books", shelf="history"), lends, SAYS], (1.0, 1.0, 1.0)),
        "says nothing": ("lend", [lends, Message("assistant", "Done.")], (0.0, 1.0, 0.0)),
        "for other days": ("lend", [calls("lend", book_id="b1", reader_id="r1", days=3), SAYS], (0.0, 0.0, 1.0)),
        "after an error": ("lend", [calls("lend", book_id="b2", reader_id="r1"), lends, SAYS], (1.0, 1.0, 1.0)),
        "nobody taps": ("gate", [calls("unblock_card", reader_id="r1"), lends, SAYS], (0.0, 0.0, 0.0)),
        "by name alone": ("called", [calls("unblock_card"), calls("tap_card"), lends, SAYS], (0.0, 0.0)),
        "card stays blocked": ("gate", [calls("tap_card"), lends, SAYS], (0.0, 1.0, 0.0)),
    }
    called = replace(tasks["gate"], truth={**tasks["gate"].truth, "basis": ["ACTION"]})
    runs = [replace({**tasks, "called": called}[task], id=who) for who, (task, _, _) in players.items()]
    by_player = {each.task.id: each for each in await play(runs, lambda task: players[task.id][1])}
    for who, (_, _, expected) in players.items():
        assert tuple(outcome_of(by_player[who]).values()) == expected, who
    assert by_player["after an error"].turns[0].results[0].content == "Error: <Fields> is lent"


@pytest.mark.needs_namespaces
async def test_data_that_take_long_to_hash_on_a_busy_host_are_no_failure_of_the_agent(tasks, clone, monkeypatch):
    monkeypatch.setattr("agentgym.sandboxes.function_turns.CALL_S", 0.2)
    slow = USER_TOOLS + "\n    def get_db_hash(self):\n        import time\n        return str(time.sleep(0.5))\n"
    (clone / CODE / "user_tools.py").write_text(slow, encoding="utf-8")
    task = replace(tasks["refuse"], parameters={**tasks["refuse"].parameters, "source": str(clone)})
    (trajectory,) = await play([task], lambda _: [Message("assistant", "No.")])
    assert "data_right" in outcome_of(trajectory)  # there is a record


@pytest.mark.needs_namespaces
async def test_a_customer_uses_its_own_tools_and_the_agent_hears_only_what_it_says(tasks):
    def customer(messages):
        assert "You are in a hurry." in messages[0].text
        if messages[-1].role == "tool":
            return f"{messages[-1].text} Thank you. {END}"
        if "tap" in messages[-1].text:
            return Message("assistant", "", (Call("tap_card", {}),))
        return "The gate is shut."

    def environment():
        return agentgym.make("agentgym/tau2-v1", user=ScriptedPolicy(customer))

    lines = [
        calls("tap_card"),
        calls("unblock_card", reader_id="r1"),
        calls("lend", book_id="b1", reader_id="r1"),
        Message("assistant", "Please tap your card."),
    ]
    (trajectory,) = await play([tasks["gate"]], lambda _: lines, environment=environment)
    assert trajectory.outcome["user_calls"] == 1.0
    assert outcome_of(trajectory) == {"success": 1.0, "checks_right": 1.0, "actions_right": 1.0}
    assert not trajectory.turns[0].results[0].ok  # the card is in the customer's pocket
    assert "It opens. Thank you." in trajectory.turns[-1].replies[-1].text
    assert not any("You are Ida" in message.text for message in trajectory.messages())


@pytest.mark.needs_namespaces
async def test_a_conversation_goes_on_where_the_published_one_stops(tasks):
    def customer(messages):
        texts = [message.text for message in messages[1:]]
        assert texts[:2] == ["Is my card all right?", "Yes. Anything else?"]
        return "I want b1." if len(texts) == 2 else f"Thank you. {END}"

    def environment():
        return agentgym.make("agentgym/tau2-v1", user=ScriptedPolicy(customer))

    lines = [calls("lend", book_id="b1", reader_id="r2"), Message("assistant", "It is yours.")]
    (trajectory,) = await play([tasks["history"]], lambda _: lines, environment=environment)
    assert outcome_of(trajectory) == {"success": 1.0, "data_right": 1.0}
    assert [message.role for message in trajectory.opening] == [
        *("system", "user", "assistant", "tool", "assistant", "user"),
    ]
    assert trajectory.opening[-1].text == "I want b1."


def test_a_truth_that_cannot_be_judged_is_refused(tasks):
    trajectory = agentgym.Trajectory("x", tasks["lend"])
    assert load_reward("tau2").outcome(trajectory) == {"success": 0.0}
    with pytest.raises(JudgeError, match="needs truth"):
        load_reward("tau2").outcome(replace(trajectory, task=replace(tasks["lend"], truth={})))


LEFT_OUT = {
    "it uses the tool 'steal'": {"evaluation_criteria": {"actions": [{"name": "steal", "arguments": {}}]}},
    "its reward_basis names .'LUCK'.": {"evaluation_criteria": {"reward_basis": ["LUCK"]}},
    "names only NL_ASSERTION": {"evaluation_criteria": {"reward_basis": ["NL_ASSERTION"]}},
    "its published actions do not reach its full score": {"evaluation_criteria": {"communicate_info": ["1,200"]}},
    "its initial state cannot be reached: .*no_such": {
        "initial_state": {
            "initialization_actions": [{"env_type": "user", "func_name": "no_such", "arguments": {}}],
        }
    },
    "(?s)its initial state cannot be reached: .*Extra inputs are not permitted": {
        "initial_state": {"initialization_data": {"agent_data": {"books": {"b1": {"colour": "red"}}}}}
    },
    "its initial state cannot be reached: .*unblock_card returned": {
        "initial_state": {
            "message_history": [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "name": "unblock_card", "arguments": {"reader_id": "r1"}}],
                },
                {"role": "tool", "id": "c", "content": "never"},
            ]
        }
    },
    "message_history has calls of the customer": {
        "initial_state": {
            "message_history": [{"role": "user", "tool_calls": [{"id": "c", "name": "tap_card", "arguments": {}}]}]
        }
    },
    "message_history has a call without a result": {
        "initial_state": {
            "message_history": [{"role": "assistant", "tool_calls": [{"id": "c", "name": "lend", "arguments": {}}]}]
        }
    },
}


def test_a_task_that_cannot_be_played_as_published_is_left_out_with_the_reason(clone):
    rows = [
        {"id": str(number), "user_scenario": {"instructions": "x"}, **changes}
        for number, changes in enumerate(LEFT_OUT.values())
    ]
    (clone / DATA / "tasks.json").write_text(json.dumps(rows), encoding="utf-8")
    (clone / DATA / "split_tasks.json").unlink()
    (clone / DATA / "../bank").mkdir()
    with pytest.raises(TaskError, match=r"none of 10 items can be imported: bank: it has no tasks\.json;") as raised:
        load("importers", "tau2")(clone)
    reasons = str(raised.value).split("; library/")[1:]
    for reason, pattern in zip(reasons, LEFT_OUT, strict=True):
        assert re.search(pattern, reason), pattern


BROKEN = {
    "no domain": (f"{DATA}/tasks.json", None, "contains no domain of tau2-bench"),
    "no splits": (f"{DATA}/split_tasks.json", "[1]", "cannot be read as splits"),
    "no task": (f"{DATA}/tasks.json", '[{"id": "lend"}]', "task 0: it is none of tau2-bench: KeyError"),
    "no code": (f"{CODE}/tools.py", "import nothing_of_this_name", "cannot be loaded: .*nothing_of_this_name"),
    "more of pydantic": (
        f"{CODE}/utils.py",
        "from pydantic import field_validator",
        r"cannot be loaded: .*pydantic\.field_validator is not supported in the sandbox",
    ),
    "more of tau2": (
        f"{CODE}/utils.py",
        "from tau2.environment.toolkit import get_tool_signatures",
        "cannot be loaded: .*tau2's get_tool_signatures is not supported in the sandbox",
    ),
    "no data": (f"{DATA}/db.json", '{"books": {}}', "(?s)cannot be loaded: .*readers\n  Field required"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_folder_that_is_none_is_refused_with_the_place(clone, kind):
    path, text, message = BROKEN[kind]
    (clone / path).unlink()
    if text is not None:
        (clone / path).write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=message):
        load("importers", "tau2")(clone, domain="library")
