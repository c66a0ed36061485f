"""The importer `bfcl-turns` and the reward `bfcl_turns`: on a small set of our own, beside the published checker."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym import Budgets, Call, EpisodeManager, JudgeError, Message, RolloutConfig, ScriptedPolicy, close_backends
from agentgym.errors import TaskError
from agentgym.registry import load, load_reward
from agentgym.rewards.bfcl_turns import MAX_STEPS, turns_right
from agentgym.tasks.importers.bfcl_turns import SOURCE
from agentgym.tasks.importers.items import LeftOutWarning, read_items

MUTATIONS, EVERY = 6, 10
"""Plays tried for each published item, and of how many items one is tried."""
TICKETS = """
import numbers_of_tickets

class TicketAPI:
    def _load_scenario(self, scenario, long_context=False):
        self.tickets = list(scenario["tickets"])

    def add_ticket(self, title, urgent=False):
        self.tickets.append({"title": title, "urgent": urgent})
        return {"id": len(self.tickets)}

    def count(self):
        return len(self.tickets)

    def draw_number(self):
        return numbers_of_tickets.draw()
"""


def described(name, **properties):
    required = [key for key in properties if key != "urgent"]
    parameters = {"type": "dict", "properties": properties, "required": required}
    return {"name": name, "description": f"Does {name}.", "parameters": parameters, "response": {}}


FUNCTIONS = [
    described("add_ticket", title={"type": "string"}, urgent={"type": "boolean"}),
    described("count"),
    described("draw_number"),
]
ITEM = {
    "id": "multi_turn_miss_func_0",
    "question": [[{"role": "user", "content": "Add 'a' and count."}], [{"role": "user", "content": "One more."}], []],
    "initial_config": {"TicketAPI": {"tickets": []}},
    "involved_classes": ["TicketAPI"],
    "missed_function": {"2": ["draw_number"]},
}
CALLS = [["add_ticket('a')", "count()"], [], ["add_ticket(title='b', urgent=True)"]]


@pytest.fixture
def write(tmp_path):
    """Writes files as they lie in the package. Returns: the path of the questions."""

    def write(item=ITEM, calls=CALLS, functions=FUNCTIONS):
        data, name = tmp_path / "bfcl_eval" / "data", "BFCL_v4_multi_turn_miss_func.json"
        files = {
            data / name: json.dumps(item),
            data / "possible_answer" / name: json.dumps({"id": "multi_turn_miss_func_0", "ground_truth": calls}),
            data / "multi_turn_func_doc" / "ticket_api.json": "\n".join(map(json.dumps, functions)),
            (data / SOURCE).resolve() / "ticket_api.py": TICKETS,
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return data / name

    return write


async def play(tasks, player):
    try:
        config = RolloutConfig(budgets=Budgets(max_turns=40), state_keys=False)
        return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), config).collect(tasks)
    finally:
        await close_backends()


def speak(*calls):
    return [Message("assistant", "", (Call(name, arguments),)) for name, arguments in calls] + [
        Message("assistant", "Done.")
    ]


@pytest.mark.needs_namespaces
async def test_an_item_is_read_played_and_judged_turn_by_turn(write):
    task_set = load("importers", "bfcl-turns")(write().parent)
    (task,) = task_set["held_out"]
    assert [tool["name"] for tool in task.parameters["tools"]] == ["add_ticket", "count"]
    assert task.parameters["turns"] == ["One more.", ""]
    first, more = ("add_ticket", {"title": "a"}), ("add_ticket", {"title": "b", "urgent": True})
    players = {
        "oracle": (task_set.oracle(task), (1.0, 1.0)),
        "silent": ([Message("assistant", "Done.")] * 3, (0.0, 0.0)),
        "counts twice": (speak(first, ("count", {})) + speak(("count", {})) + speak(more), (1.0, 1.0)),
        "counts before": (speak(("count", {}), first) + speak() + speak(more), (0.0, 0.0)),
        "adds another": (speak(first, ("count", {})) + speak(first) + speak(more), (0.0, 2 / 3)),
        "adds too early": (speak(first, ("count", {})) + speak(more) + speak(), (0.0, 2 / 3)),
        "goes on for ever": (speak(first, *[("count", {})] * (MAX_STEPS + 1)) + speak() + speak(more), (0.0, 0.0)),
        "leaves": (speak(first, ("count", {})) + [Message("assistant", "", (Call("count", {}),))] * 99, (0.0, 0.0)),
    }
    for who, (messages, (success, progress)) in players.items():
        (trajectory,) = await play([task], lambda task, messages=messages: messages)
        assert trajectory.error is None, who
        assert (trajectory.outcome["success"], trajectory.outcome["progress"]) == (success, progress), who
    with pytest.raises(JudgeError, match="is not a list of turns"):
        load_reward("bfcl_turns").outcome(replace(trajectory, task=replace(task, truth={})))


@pytest.mark.needs_namespaces
async def test_the_oracle_puts_many_calls_of_a_turn_into_few_messages(write):
    """Two published items have more calls in a turn than there may be messages."""
    task_set = load("importers", "bfcl-turns")(write(calls=[["count()"] * (MAX_STEPS + 5), [], ["count()"]]))
    (trajectory,) = await play(task_set["held_out"], task_set.oracle)
    assert trajectory.success == 1.0
    assert len(trajectory.turns) == 13 + 1 + 1 + 2


BROKEN = {
    "calls are no Python": (
        {"calls": [["add_ticket("], [], []]},
        "not an item of BFCL with several turns: SyntaxError",
    ),
    "more than a call": ({"calls": [["count() + 1"], [], []]}, "is not a call"),
    "not a literal": (
        {"calls": [["add_ticket(title=open('x'))"], [], []]},
        "not an item of BFCL with several turns: ValueError",
    ),
    "fewer turns": ({"calls": [[]]}, "has 3 turns, but there are calls for 1"),
    "another class": ({"item": ITEM | {"involved_classes": ["Shop"]}}, "the class 'Shop' is not known"),
    "no such function": (
        {"item": ITEM | {"missed_function": {"2": ["x"]}}},
        "not an item of BFCL with several turns: KeyError",
    ),
    "a broken scenario": ({"item": ITEM | {"initial_config": {}}}, "functions cannot be loaded: KeyError"),
    "another row": ({"item": ITEM | {"id": "multi_turn_base_9"}}, "no row with the id 'multi_turn_base_9'"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_file_that_is_none_is_refused_with_the_place(write, kind):
    changes, message = BROKEN[kind]
    with pytest.raises(TaskError, match=message) as refusal:
        load("importers", "bfcl-turns")(write(**changes))
    assert "BFCL_v4_multi_turn_miss_func.json, item 0" in str(refusal.value)


def test_a_folder_without_the_files_is_refused(write, tmp_path):
    with pytest.raises(TaskError, match="contains no BFCL_"):
        load("importers", "bfcl-turns")(tmp_path)
    alone = tmp_path / "BFCL_v4_multi_turn_base.json"
    alone.write_text(write().read_text())
    with pytest.raises(TaskError, match=r"which should contain the functions, does not exist"):
        load("importers", "bfcl-turns")(alone)


@pytest.mark.parametrize(
    ("call", "reason"), [("draw_number()", "needs a package"), ("add_ticket(title=7)", "arguments of other types")]
)
def test_what_cannot_be_played_is_left_out(write, call, reason):
    with pytest.raises(TaskError, match=f"none of 1 items can be imported: .*{reason}"):
        load("importers", "bfcl-turns")(write(calls=[[call], [], []]))


# ---- beside the published checker


def mutated(rng, turns):
    """The calls of all turns with one of them left out, repeated, changed, or made in another place."""
    turns = [list(calls) for calls in turns]
    calls = rng.choice([calls for calls in turns if calls])
    index, kind = rng.randrange(len(calls)), rng.randrange(5)
    name, arguments = calls[index]
    if kind == 0:
        del calls[index]
    elif kind == 1:
        calls.insert(rng.randrange(len(calls) + 1), calls[index])
    elif kind == 2:
        rng.choice(turns).append(calls.pop(index))
    elif kind == 3:
        rng.shuffle(calls)
    elif arguments:
        key = rng.choice(list(arguments))
        calls[index] = (name, arguments | {key: rng.choice([None, "x", 7, f"{arguments[key]}", [arguments[key]]])})
    return turns


@pytest.mark.skipif(
    "AGENTGYM_BFCL" not in os.environ, reason="AGENTGYM_BFCL names no folder with the package bfcl-eval"
)
def test_verdicts_are_those_of_the_published_checker():
    """On the published items: their own calls, and others near them."""
    folder = Path(os.environ["AGENTGYM_BFCL"])
    data = folder / "bfcl_eval" / "data"
    with pytest.warns(LeftOutWarning):
        task_set = load("importers", "bfcl-turns")(data)
    assert len(task_set["held_out"]) == 780
    entries, accepted = {}, {}
    for file in sorted(data.glob("BFCL_*_multi_turn_*.json")):
        entries |= {row["id"]: row for row in read_items(file)}
        accepted |= {row["id"]: row["ground_truth"] for row in read_items(data / "possible_answer" / file.name)}
    rng, rows, verdicts = random.Random(0), [], []
    with load("environments", "agentgym/function-turns-v1").local_functions() as player:
        for task in task_set["held_out"][::EVERY]:
            turns = [[tuple(call) for call in calls] for calls in json.loads(task.truth["calls"])]
            expected = [(turn["state"], turn["results"]) for turn in task.truth["turns"]]
            for calls in [turns, *(mutated(rng, turns) for _ in range(MUTATIONS))]:
                given = [[(name, [], arguments) for name, arguments in turn] for turn in calls]
                actual = [(turn["state"], turn["results"]) for turn in player.play(task.parameters, given)]
                verdicts.append(turns_right(actual, expected) == len(expected))
                entry = entries[task.id] | {"id": f"{task.id.rpartition('_')[0]}_{len(rows)}"}
                texts = [
                    [f"{name}({', '.join(f'{k}={v!r}' for k, v in each.items())})" for name, each in turn]
                    for turn in calls
                ]
                rows.append({"entry": entry, "calls": texts, "accepted": accepted[task.id]})
    script = Path(__file__).with_name("bfcl_verdicts.py")
    finished = subprocess.run(
        [sys.executable, "-I", "-B", script, folder],
        input="\n".join(map(json.dumps, rows)),
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert verdicts == [json.loads(line) for line in finished.stdout.split()]
    assert 0.2 < sum(verdicts) / len(verdicts) < 0.8
