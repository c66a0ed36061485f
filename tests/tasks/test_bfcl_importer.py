"""The importer and the reward `bfcl`: on rows of their own, on broken files, and beside the published checker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Call, EpisodeManager, Message, ScriptedPolicy
from agentgym.errors import JudgeError, TaskError
from agentgym.registry import load, load_reward
from agentgym.rewards.bfcl import accepted_calls, all_fit
from agentgym.rewards.written_values import java_value, javascript_value
from agentgym.tasks.importers.items import LeftOutWarning, read_items

MUTATIONS = 6
"""Wrong, or only different, calls tried for each published item."""


def function(name, required, **properties):
    parameters = {"type": "dict", "properties": properties, "required": required}
    return {"name": name, "description": f"Does {name}.", "parameters": parameters}


BOOK = function(
    "room.book",
    ["city", "nights"],
    city={"type": "string", "description": "Where."},
    nights={"type": "integer"},
    price={"type": "float"},
    extras={"type": "array", "items": {"type": "string"}},
    guest={"type": "dict", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
    stops={"type": "array", "items": {"type": "dict"}},
)
ACCEPTED = {
    "city": ["Bad Ems", "Ems"],
    "nights": [2],
    "price": [90.0, ""],
    "extras": [["sea view", "bath"], ""],
    "guest": [{"name": ["Ida"], "age": [7, ""]}, ""],
    "stops": [[{"at": ["Bonn"]}], ""],
}
GOLD = {"city": "Bad Ems", "nights": 2}
JAVA = function(
    "Room.book",
    ["guest", "nights", "extras"],
    guest={"type": "any", "description": "Who."},
    nights={"type": "long", "description": "How long."},
    extras={"type": "ArrayList", "items": {"type": "String"}, "description": "What else."},
    prices={"type": "HashMap", "description": "By extra."},
)
JAVA_ACCEPTED = {
    "guest": ["currentGuest"],
    "nights": [2],
    "extras": [["sea view", "bath"]],
    "prices": [{"bath": [9.5], "open": [True]}, ""],
}


def question(category, number=0, functions=(BOOK,), **more):
    messages = [[{"role": "user", "content": f"Number {number} of {category}."}]]
    return {"id": f"{category}_{number}", "question": messages, "function": list(functions), **more}


@pytest.fixture
def write(tmp_path):
    """Writes a file of questions, and of the answers of those that have some."""

    def write(category, rows, answers=None):
        path = tmp_path / f"BFCL_v4_{category}.json"
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        if answers is not None:
            (tmp_path / "possible_answer").mkdir(exist_ok=True)
            lines = [json.dumps({"id": row["id"], "ground_truth": calls}) for row, calls in answers]
            (tmp_path / "possible_answer" / path.name).write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def folder_of_all(write):
    simple, parallel = question("simple_python"), question("parallel")
    write("simple_python", [simple], [(simple, [{"room.book": ACCEPTED}])])
    write("parallel", [parallel], [(parallel, [{"room.book": ACCEPTED}, {"room.book": ACCEPTED | {"city": ["Köln"]}}])])
    write("irrelevance", [question("irrelevance"), question("irrelevance", 1, functions=())])
    write("live_relevance", [question("live_relevance")])
    java = question("simple_java", functions=[JAVA])
    write("simple_java", [java], [(java, [{"Room.book": JAVA_ACCEPTED}])])
    return write("multi_turn_base", [{"id": "multi_turn_base_0"}]).parent


async def play(tasks, player):
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task))).collect(tasks)


async def test_a_folder_is_read_played_and_judged_and_what_is_not_read_is_named(write):
    with pytest.warns(LeftOutWarning, match=r"BFCL_v4_multi_turn_base.json: the category 'BFCL_v4_multi_turn_base'"):
        task_set = load("importers", "bfcl")(folder_of_all(write))
    tasks = task_set["held_out"]
    assert [task.id for task in tasks] == [
        *("irrelevance_0", "irrelevance_1", "live_relevance_0", "parallel_0", "simple_java_0", "simple_python_0")
    ]
    assert tasks[1].parameters["tools"] == []
    (tool,) = tasks[-1].parameters["tools"]
    assert tool["function"]["name"] == "room_book"
    assert tool["function"]["parameters"]["properties"]["stops"] == {"type": "array", "items": {"type": "object"}}
    solved = await play(tasks, task_set.oracle)
    assert [trajectory.success for trajectory in solved] == [1.0] * 6
    assert {len(trajectory.turns) for trajectory in solved} == {1}
    silent = await play(tasks, lambda task: [Message("assistant", "I do not know.")])
    assert [trajectory.success for trajectory in silent] == [1.0, 1.0, 0.0, 0.0, 0.0, 0.0], (
        "silence is right where it is asked"
    )


async def test_the_first_message_counts_alone(write):
    simple = question("simple_python")
    (task,) = load("importers", "bfcl")(write("simple_python", [simple], [(simple, [{"room.book": ACCEPTED}])]))[
        "held_out"
    ]
    wrong, right = ({"room": "x"}, GOLD)
    lines = [Message("assistant", "", (Call("room_book", each),)) for each in (wrong, right)]
    (trajectory,) = await play([task], lambda task: lines)
    assert trajectory.success == 0.0
    assert len(trajectory.turns) == 1
    (malformed,) = await play(
        [task], lambda task: [Message("assistant", "", (Call("room_book", GOLD, error="x"),))] * 9
    )
    assert malformed.success == 0.0


@pytest.mark.parametrize(
    ("change", "is_right"),
    [
        ({}, True),
        ({"city": "bad-ems,"}, True),
        ({"city": "Bonn"}, False),
        ({"nights": 2.0}, False),
        ({"nights": True}, False),
        ({"price": 90}, True),
        ({"price": "90.0"}, False),
        ({"extras": ["Sea view", "BATH"]}, True),
        ({"extras": ["bath", "sea view"]}, False),
        ({"extras": ["bath", 1]}, False),
        ({"guest": {"name": "ida"}}, True),
        ({"guest": {"name": "Ida", "age": 8}}, False),
        ({"guest": {"age": 7}}, False),
        ({"stops": [{"at": "BONN"}]}, True),
        ({"stops": [{"at": "Bonn"}] * 2}, False),
        ({"stops": 7}, False),
        ({"pets": 1}, False),
    ],
)
def test_a_call_is_accepted_as_the_leaderboard_accepts_it(write, change, is_right):
    simple = question("simple_python")
    (task,) = load("importers", "bfcl")(write("simple_python", [simple], [(simple, [{"room.book": ACCEPTED}])]))[
        "held_out"
    ]
    assert all_fit([Call("room_book", GOLD | change)], accepted_calls(task)) == is_right
    assert not all_fit([Call("room_book", {"city": "Ems"} | change)], accepted_calls(task))
    assert not all_fit([Call("room_book", GOLD | change)] * 2, accepted_calls(task))


BROKEN = {
    "no folder": (None, None, "contains no BFCL_"),
    "no answers": ([question("simple_python")], None, "The file of accepted calls"),
    "no row": ([question("simple_python")], [], "contains no items"),
    "other row": ([question("simple_python")], [(question("parallel"), [{"f": {}}])], "no row with the id 'simple_"),
    "no function": ([question("simple_python", functions=())], [{"room.book": {}}], "no function 'room.book'"),
    "two calls in one": ([question("simple_python")], [{"a": {}, "b": {}}], "this is not an item of BFCL"),
    "accepts no list": ([question("simple_python")], [{"room.book": {"city": "Ems"}}], "of city must be a list"),
    "no text": ([question("irrelevance") | {"question": [["x"]]}], None, "this is not an item of BFCL"),
    "two turns": ([question("irrelevance") | {"question": [[], []]}], None, "has 2 turns"),
    "a type": (
        [question("simple_python", functions=[function("f", [], a={"type": "set"})])],
        [{"f": {}}],
        "uses the types ..set",
    ),
    "another set": ([{"id": "7", "question": "x"}], None, "none of 1 items can be imported"),
    "no id": ([{"question": "x"}], None, "none of the fields id"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_none_is_refused_with_the_place(write, tmp_path, kind):
    rows, answers, message = BROKEN[kind]
    path = tmp_path
    if rows is not None:
        if answers and isinstance(answers[0], dict):
            answers = [(rows[0], answers)]
        path = write("irrelevance" if "irrelevance" in str(rows[0].get("id")) else "simple_python", rows, answers)
    with pytest.raises(TaskError, match=message):
        load("importers", "bfcl")(path)


@pytest.mark.parametrize(
    ("change", "is_right"),
    [
        ({}, True),
        ({"guest": "current-guest"}, True),
        ({"nights": "2"}, False),
        ({"nights": 2}, False),
        ({"extras": 'Arrays.asList("Sea view", "bath")'}, True),
        ({"extras": 'new ArrayList<String>() {{ add("sea view"); add("bath"); }}'}, True),
        ({"extras": 'new ArrayList<>(Arrays.asList("bath", "sea view"))'}, False),
        ({"extras": '["sea view", "bath"]'}, False),
        ({"prices": 'new HashMap<String, Object>() {{ put("bath", 9.5); put("open", true); }}'}, True),
        ({"prices": 'new HashMap<>() {{ put("bath", 9.5); }}'}, False),
    ],
)
def test_arguments_in_java_are_texts_in_java(write, change, is_right):
    row = question("simple_java", functions=[JAVA])
    task_set = load("importers", "bfcl")(write("simple_java", [row], [(row, [{"Room.book": JAVA_ACCEPTED}])]))
    (task,) = task_set["held_out"]
    assert task.parameters["tools"][0]["function"]["parameters"]["properties"]["nights"] == {
        "type": "string",
        "description": "How long. This is Java long type parameter in string representation.",
    }
    arguments = {**task_set.oracle(task)[0].calls[0].arguments, **change}
    assert all_fit([Call("Room_book", arguments)], accepted_calls(task)) is is_right


@pytest.mark.parametrize(
    ("text", "kind", "items", "value"),
    [
        ("[1, 'two', true]", "array", "any", [1, "two", True]),
        ("new Array([1, 2], [3])", "array", "array", [[1, 2], [3]]),
        (
            "{limit: 50, 'name': run(a, b), nested: {x: [\"y\"]}}",
            "dict",
            None,
            {"limit": 50, "name": "run(a, b)", "nested": {"x": ["y"]}},
        ),
        ("12n", "Bigint", None, 12),
        ("'text'", "String", None, "text"),
        ("60", "float", None, 60.0),
        ("[1, 2", "array", None, "[1, 2"),
        ("[" * 50 + "]" * 50, "array", None, "[" * 50 + "]" * 50),
    ],
)
def test_values_of_javascript_are_read_or_are_names(text, kind, items, value):
    assert javascript_value(text, kind, items) == value


@given(
    st.text(alphabet="newArayListHMp<>(){}[],;.:\"'\\ 1fL\n", max_size=60),
    st.sampled_from(["Array", "HashMap", "long"]),
)
def test_any_text_is_a_value_or_a_name(text, kind):
    assert isinstance(java_value(text, kind, None), str | int | float | list | dict)
    assert isinstance(
        javascript_value(text, {"Array": "array", "HashMap": "dict"}.get(kind, kind), None),
        str | int | float | list | dict,
    )


def test_what_no_call_can_solve_is_left_out(write):
    """Four published answers are so: one names an argument that its function lacks, one accepts no value."""
    rows = [question("simple_python", number) for number in range(2)]
    answers = [(rows[0], [{"room.book": ACCEPTED}]), (rows[1], [{"room.book": ACCEPTED | {"pets": [1]}}])]
    with pytest.warns(LeftOutWarning, match="no call fits what is accepted"):
        task_set = load("importers", "bfcl")(write("simple_python", rows, answers))
    assert [task.id for task in task_set["held_out"]] == ["simple_python_0"]


@pytest.mark.parametrize("truth", [None, {"kind": "x"}, {"kind": "calls"}, {"kind": "calls", "calls": [{"name": "f"}]}])
async def test_a_task_without_accepted_calls_cannot_be_judged(write, truth):
    (task,) = load("importers", "bfcl")(write("irrelevance", [question("irrelevance")]))["held_out"]
    (trajectory,) = await play([task], lambda task: [Message("assistant", "No.")])
    with pytest.raises(JudgeError, match=r"truth\['"):
        load_reward("bfcl").outcome(replace(trajectory, task=replace(task, truth=truth)))


# ---- beside the published checker


def changed(rng, value):
    """Another value, mostly of another type or with other signs."""
    kinds = [str(value), [value], f"{value}, ".upper(), rng.choice([None, True, 1, "", [], {}])]
    if isinstance(value, int | float):
        kinds += [float(value), value + 1]
    if isinstance(value, list) and value:
        kinds += [value[::-1], value[1:], [changed(rng, value[0]), *value[1:]]]
    if isinstance(value, dict) and value:
        name = rng.choice(list(value))
        kinds += [{key: item for key, item in value.items() if key != name}, value | {name: changed(rng, value[name])}]
    return rng.choice(kinds)


def unquoted(arguments, category):
    """The arguments for the published checker, which leaves the quotes on the texts of an array in Java."""
    if category != "simple_java":
        return arguments
    arrays = {name for name, value in arguments.items() if str(value).startswith("new Object[]")}
    return {name: value.replace('"', "") if name in arrays else value for name, value in arguments.items()}


def mutated(rng, calls, accepted):
    """The calls with one thing about them changed."""
    calls = [Call(call.name, dict(call.arguments)) for call in calls]
    call, kind = rng.choice(calls), rng.randrange(6)
    name = rng.choice(list(call.arguments)) if call.arguments else "none"
    if kind == 0:
        calls = rng.choice([calls[1:], calls[::-1], [*calls, calls[0]]])
    elif kind == 1:
        call.arguments.pop(name, None)
    elif kind == 2:
        values = next(each.accepted for each in accepted if each.name == call.name)
        call.arguments.update({name: rng.choice(options) for name, options in values.items() if options})
    elif kind == 3:
        call.arguments["other"] = 1
    elif call.arguments:
        call.arguments[name] = changed(rng, call.arguments[name])
    return calls


@pytest.mark.skipif(
    "AGENTGYM_BFCL" not in os.environ, reason="AGENTGYM_BFCL names no folder with the package bfcl-eval"
)
def test_verdicts_are_those_of_the_published_checker():
    """On the published items: the oracle's calls, and others near them. Its accepted calls are all right there too."""
    folder = Path(os.environ["AGENTGYM_BFCL"])
    data = folder / "bfcl_eval" / "data"
    with pytest.warns(LeftOutWarning):
        task_set = load("importers", "bfcl")(data)
    assert len(task_set["held_out"]) == 3_635
    rng, rows, verdicts = random.Random(0), [], []
    published = {}
    for category in {task.tags[0] for task in task_set["held_out"] if task.truth["kind"] == "calls"}:
        for row in read_items(data / f"BFCL_v4_{category}.json"):
            published[row["id"]] = [row["function"]]
        for row in read_items(data / "possible_answer" / f"BFCL_v4_{category}.json"):
            published[row["id"]].append(row["ground_truth"])
    for task in task_set["held_out"]:
        if task.truth["kind"] == "calls":
            accepted, gold = accepted_calls(task), task_set.oracle(task)[0].calls
            functions, answers = published[task.id]
            for calls in [gold, *(mutated(rng, gold, accepted) for _ in range(MUTATIONS))]:
                verdicts.append(all_fit(calls, accepted))
                named = [{call.name: unquoted(call.arguments, task.tags[0])} for call in calls]
                rows.append({"functions": functions, "calls": named, "accepted": answers, "category": task.tags[0]})
    script = Path(__file__).with_name("bfcl_verdicts.py")
    finished = subprocess.run(
        [sys.executable, "-I", script, folder], input="\n".join(map(json.dumps, rows)), capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    assert verdicts == [json.loads(line) for line in finished.stdout.split()]
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8
