"""The importer `tau-bench`, its environment and its reward, on a small domain of our own in the published layout."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import agentgym
from agentgym import Call, EpisodeManager, JudgeError, Message, RolloutConfig, ScriptedPolicy, close_backends
from agentgym.errors import TaskError
from agentgym.methods.users import END
from agentgym.registry import load, load_reward
from agentgym.tasks.importers.items import LeftOutWarning

TOOL = """
import abc

class Tool(abc.ABC):
    @staticmethod
    def invoke(*args, **kwargs):
        raise NotImplementedError
"""
TOOLS = """
import json
from tau_bench.envs.tool import Tool

def info(name, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}

class Lend(Tool):
    @staticmethod
    def invoke(data, book, reader):
        if data["books"][book]["reader"]:
            return "Error: it is lent"
        data["books"][book]["reader"] = reader
        return json.dumps(data["books"][book])

    @staticmethod
    def get_info():
        return info("lend", book={"type": "string"}, reader={"type": "string"})

class Transfer(Tool):
    @staticmethod
    def invoke(data, summary):
        return "Transfer successful"

    @staticmethod
    def get_info():
        return info("transfer_to_human_agents", summary={"type": "string"})

ALL_TOOLS = [Lend, Transfer]
"""
DATA = """
import json, os

def load_data():
    with open(os.path.join(os.path.dirname(__file__), "books.json")) as file:
        return {"books": json.load(file)}
"""
TASKS = """
from tau_bench.types import Action, Task

TASKS_TEST = [
    Task(annotator="0", user_id="ida", instruction="You are Ida and want b1, and to know its price.",
         actions=[Action(name="lend", kwargs={"book": "b1", "reader": "ida"})], outputs=["1200"]),
    Task(annotator="0", user_id="leo", instruction="You are Leo and want b2, which Ida has.",
         actions=[Action(name="transfer_to_human_agents", kwargs={"summary": "b2 is lent"})], outputs=[]),
]
"""
BOOKS = {"b1": {"price": 1200, "reader": ""}, "b2": {"price": 7, "reader": "ida"}}
IMPORTS_CLIENTS = "from tau_bench.envs.base import Env\nimport litellm\n"


@pytest.fixture
def clone(tmp_path):
    """A clone with one domain. Returns: its folder, and a function that changes a file of the domain."""
    envs = tmp_path / "tau_bench" / "envs"
    files = {
        "../__init__.py": IMPORTS_CLIENTS,
        "__init__.py": IMPORTS_CLIENTS,
        "tool.py": TOOL,
        "library/__init__.py": IMPORTS_CLIENTS,
        "library/tools/__init__.py": TOOLS,
        "library/data/__init__.py": DATA,
        "library/data/books.json": json.dumps(BOOKS),
        "library/wiki.md": "Lend what is there.",
        "library/tasks_test.py": TASKS,
    }

    def change(path, text):
        file = (envs / path).resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return tmp_path

    for path, text in files.items():
        change(path, text)
    return change


async def play(tasks, player, **options):
    try:
        return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), RolloutConfig(**options)).collect(tasks)
    finally:
        await close_backends()


def lend(book="b1", reader="ida"):
    return Message("assistant", "", (Call("lend", {"book": book, "reader": reader}),))


@pytest.mark.needs_namespaces
async def test_a_domain_is_read_played_and_judged_by_its_data_and_what_was_said(clone):
    task_set = load("importers", "tau-bench")(clone("../notes.txt", "x"))
    first, second = task_set["held_out"]
    assert [task.id for task in (first, second)] == ["library/test/000", "library/test/001"]
    solved = await play([first, second], task_set.oracle)
    assert [trajectory.success for trajectory in solved] == [1.0, 1.0]
    assert [message.role for message in solved[0].opening] == ["system", "user"]
    says = Message("assistant", "It costs 1,200.")
    players = {
        "says and lends": ([lend(), says], (1.0, 1.0, 1.0)),
        "says nothing": ([lend(), Message("assistant", "Done.")], (0.0, 1.0, 0.0)),
        "lends to another": ([lend(reader="leo"), says], (0.0, 0.0, 1.0)),
        "lends a book that is lent": ([lend("b2"), lend("b9"), lend(), says], (1.0, 1.0, 1.0)),
        "silent": ([Message("assistant", "No.")], (0.0, 0.0, 0.0)),
    }
    for who, (messages, expected) in players.items():
        (trajectory,) = await play([first], lambda task, messages=messages: messages)
        assert trajectory.error is None, who
        outcome = trajectory.outcome
        assert (outcome["success"], outcome["data_right"], outcome["outputs_right"]) == expected, who
    assert "'b9'" in trajectory_text(await play([first], lambda task: [lend("b9"), says]))
    with pytest.raises(JudgeError, match="the digest of the final state"):
        load_reward("tau").outcome(replace(solved[0], task=replace(first, truth={})))


def trajectory_text(trajectories):
    return " ".join(str(result.content) for turn in trajectories[0].turns for result in turn.results)


@pytest.mark.needs_namespaces
async def test_a_customer_whom_somebody_plays_tells_the_agent_what_it_wants(clone):
    first, _ = load("importers", "tau-bench")(clone("../notes.txt", "x"))["held_out"]

    def customer(messages):
        assert "You are Ida and want b1" in messages[0].text
        return f"Thank you. {END}" if "1200" in messages[-1].text else "I would like the first book."

    def environment():
        return agentgym.make("agentgym/tau-v1", user=ScriptedPolicy(customer))

    lines = [Message("assistant", "Which one?"), lend(), Message("assistant", "It costs 1200.")]
    (trajectory,) = await play([first], lambda task: lines, environment=environment)
    assert trajectory.success == 1.0
    assert trajectory.outcome["user_messages"] == 3.0
    assert [message.text for message in trajectory.opening[1:]] == [
        "Hi! How can I help you today?",
        "I would like the first book.",
    ]
    assert not any("You are Ida" in message.text for message in trajectory.messages())


BROKEN = {
    "no domain": ("../x", None, "contains no domain of tau-bench"),
    "no Python": ("library/tasks_test.py", "TASKS = [", "cannot be read as tasks"),
    "code in a task": (
        "library/tasks_test.py",
        "TASKS = [Task(instruction=open('x'), actions=[1 + x])]",
        "cannot be read",
    ),
    "no actions": (
        "library/tasks_test.py",
        "TASKS = [Task(instruction='x')]",
        "task 0: this is not a task of tau-bench: KeyErr",
    ),
    "no tools": ("library/tools/__init__.py", "ALL_TOOLS = [1]", "its tools or its wiki.md cannot be read"),
    "no data": ("library/data/__init__.py", "import nothing_of_this_name.x", "its tools or its wiki.md cannot be read"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_folder_that_is_none_is_refused_with_the_place(clone, tmp_path, kind):
    path, text, message = BROKEN[kind]
    folder = tmp_path / "empty" if text is None else clone(path, text)
    with pytest.raises(TaskError, match=message):
        load("importers", "tau-bench")(folder)


def test_a_task_that_no_tool_serves_or_that_another_split_has_is_left_out(clone):
    clone("library/tasks_dev.py", TASKS)
    unknown = TASKS.replace('name="lend"', 'name="steal"').replace("want b1", "want b3")
    folder = clone("library/tasks_train.py", unknown)
    with pytest.warns(
        LeftOutWarning, match="4 of .*the same task is also in held_out.*the tool 'steal', which does not exist"
    ):
        task_set = load("importers", "tau-bench")(folder)
    assert [len(task_set[split]) for split in ("train", "validation", "held_out")] == [0, 0, 2]
