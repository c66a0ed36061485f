"""The MBPP importer on the public file, where the checkout lies beside it, and on broken files anywhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentgym import TaskSet
from agentgym.errors import TaskError
from agentgym.registry import load, load_reward

FILE = Path(__file__).parents[2] / "../shared/data/mbpp/ic_mbpp.json"
needs_file = pytest.mark.skipif(not FILE.is_file(), reason="the MBPP file is not in ../shared/data/mbpp")

ITEM = {
    "query": "Square a number.",
    "gold": "def f(x):\r\n\treturn x * x",
    "task_id": 7,
    "tests": ["assert f(2) == 4", "assert f(3) == 9"],
    "test_setup_code": "",
}


def read(tmp_path, *items, lines=False):
    path = tmp_path / "mbpp.json"
    path.write_text("\n".join(map(json.dumps, items)) if lines else json.dumps(items), encoding="utf-8")
    return load("importers", "mbpp")(path)


def test_a_problem_becomes_a_held_out_task_with_one_visible_test(tmp_path):
    (task,) = read(tmp_path, ITEM)["held_out"]
    assert task.environment == "agentgym/code-v1"
    assert task.prompt == "Square a number.\nFor example: assert f(2) == 4"
    assert task.parameters == {"tests": ["assert f(2) == 4"], "setup": ""}
    assert task.truth["tests"] == ITEM["tests"]
    assert "assert f(3)" not in str(task.public())


def test_it_goes_into_another_split_only_when_asked(tmp_path):
    path = tmp_path / "mbpp.json"
    path.write_text(json.dumps([ITEM]))
    task_set = load("importers", "mbpp")(path, split="validation")
    assert (len(task_set["validation"]), len(task_set["held_out"])) == (1, 0)


def test_json_lines_with_the_names_of_the_original_file_are_read_too(tmp_path):
    original = {"text": "Square.", "code": ITEM["gold"], "test_list": ITEM["tests"], "task_id": 1}
    assert len(read(tmp_path, original, original | {"task_id": 2}, lines=True)["held_out"]) == 2


def test_what_is_imported_survives_a_round_trip_through_a_file(tmp_path):
    task_set = read(tmp_path, ITEM)
    task_set.to_jsonl(tmp_path / "out.jsonl")
    assert TaskSet.from_jsonl(tmp_path / "out.jsonl").fingerprint() == task_set.fingerprint()


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ("text", "item 1: expected a JSON object, found str"),
        (ITEM | {"gold": ""}, "item 1: expected one of the fields gold, code, found"),
        (ITEM | {"tests": []}, "item 1: expected one of the fields tests, test_list"),
        (ITEM | {"tests": "assert f(2)"}, "item 1: the tests must be a list of assertions, not 'assert f\\(2\\)'"),
        (ITEM | {"task_id": 8, "tests": ["assert f("]}, "item 1: the tests cannot be parsed"),
        (ITEM | {"task_id": 8, "gold": "def f(x"}, "item 1: the solution cannot be parsed"),
        (ITEM | {"query": 3}, "item 1: question, solution and set-up code must be text"),
        ({k: v for k, v in ITEM.items() if k != "task_id"}, "item 1: the field 'task_id' is missing"),
        (ITEM, "item 1: task_id 7 is already used by item 0"),
    ],
)
def test_a_broken_item_is_refused_with_file_and_number(tmp_path, item, complaint):
    with pytest.raises(TaskError, match=f"mbpp.json, {complaint}"):
        read(tmp_path, ITEM, item)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"[{", "neither a JSON array nor JSON lines"), (b"", "contains no items"), (b"\xff\xfe", "is not UTF-8 text")],
)
def test_a_file_that_is_something_else_is_refused_by_name(tmp_path, content, complaint):
    path = tmp_path / "mbpp.json"
    path.write_bytes(content)
    with pytest.raises(TaskError, match=f"mbpp.json.*{complaint}"):
        load("importers", "mbpp")(path)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TaskError, match=r"Cannot read .*nowhere.json: No such file"):
        load("importers", "mbpp")(tmp_path / "nowhere.json")


@needs_file
def test_the_two_problems_that_need_an_undefined_class_are_left_out_and_named():
    with pytest.warns(UserWarning, match=r"mbpp/367, mbpp/927: .* nothing defines Node\.$"):
        task_set = load("importers", "mbpp")(FILE)
    assert len(task_set["held_out"]) == 972


@needs_file
@pytest.mark.needs_namespaces
@pytest.mark.filterwarnings("ignore:.*left out")
async def test_every_eighth_of_the_published_solutions_passes_the_judge():
    """All 972 are run by `python benchmarks/importers.py`; docs/benchmarks.md has its table."""
    judge, task_set = load_reward("hidden_tests"), load("importers", "mbpp")(FILE)
    tasks, room = task_set["held_out"][::8], asyncio.Semaphore(8)

    async def passes(task):
        async with room:
            return all(await judge.judge(task.truth["reference"], task.truth["tests"], setup=task.truth["setup"]))

    verdicts = await asyncio.gather(*map(passes, tasks))
    assert [task.id for task, passed in zip(tasks, verdicts, strict=True) if not passed] == []
