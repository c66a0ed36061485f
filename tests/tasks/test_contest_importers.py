"""APPS, TACO, CodeContests and LiveCodeBench: rows of our own in the published forms, judged in the sandbox."""

from __future__ import annotations

import base64
import json
import pickle
import zlib

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, TaskError
from agentgym.registry import load
from agentgym.rewards.fresh_files import same_words
from agentgym.tasks.importers.contest_problems import ANY_CASE, SEVERAL
from agentgym.tasks.importers.items import LeftOutWarning

SUM = "print(sum(map(int, input().split())))\n"
DOUBLED = """class Solution:
    def doubled(self, values: List[int]) -> List[int]:
        return tuple(2 * v for v in values)
"""
APPS = {
    "problem_id": 7,
    "question": "Print the sum of the numbers of the line.",
    "solutions": json.dumps(["print sum(map(int, raw_input().split()))", SUM]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["3 4"]], "outputs": ["3\n", ["7"]]}),
    "difficulty": "interview",
    "starter_code": "",
}
FUNCTION = APPS | {
    "problem_id": 8,
    "question": "Return the doubled values.",
    "solutions": json.dumps([DOUBLED]),
    "input_output": json.dumps({"fn_name": "doubled", "inputs": [[[1, 2]], [[]]], "outputs": [[[2, 4]], []]}),
    "starter_code": "class Solution:\n    def doubled(self, values: List[int]) -> List[int]:\n",
}
CONTEST = {
    "name": "1_A. Sum",
    "description": "Print the mean of two numbers, or NO.",
    "public_tests": {"input": ["1 2\n"], "output": ["1.5\n"]},
    "private_tests": {"input": ["no\n"], "output": ["NO\n"]},
    "generated_tests": {"input": ["1 3\n"], "output": ["2.000000\n"]},
    "solutions": {
        "language": [1, 2, 3],
        "solution": [
            "print 1",
            "int main() {}",
            "try: print(sum(map(int, input().split())) / 2)\nexcept ValueError: print('No')",
        ],
    },
    "time_limit": {"seconds": 1, "nanos": 500_000_000},
    "input_file": "",
    "output_file": "",
}


def packed(tests):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


LIVE = {
    "question_content": "Print the sum of the numbers of the line.",
    "question_id": "1873_A",
    "platform": "codeforces",
    "difficulty": "easy",
    "starter_code": "",
    "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
    "private_test_cases": packed([{"input": "5 6\n", "output": "11\n", "testtype": "stdin"}]),
    "metadata": "{}",
}
LIVE_FUNCTION = LIVE | {
    "question_id": "2730",
    "question_content": "Return the sum.",
    "starter_code": "class Solution:\n    def added(self, a: List[int], b: int) -> int:\n        ",
    "public_test_cases": json.dumps([{"input": "[1]\n2", "output": "3", "testtype": "functional"}]),
    "private_test_cases": packed([{"input": "[]\n4", "output": "4", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "added"}),
}


@pytest.fixture
def imported(tmp_path):
    def read(importer, *rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return load("importers", importer)(path)

    return read


async def paid(task_set, code=None):
    """Return what each task pays for its solution, or for this code."""
    config = RolloutConfig(concurrency=1)

    def script(task):
        given = (
            task_set.solution(task) if code is None else [Message("assistant", "", (Call("submit", {"code": code}),))]
        )
        return ScriptedPolicy(given)

    trajectories = await EpisodeManager(script, config).collect(list(task_set["held_out"]))
    return [trajectory.success for trajectory in trajectories]


@pytest.mark.parametrize("importer", ["apps", "taco"])
async def test_programs_and_functions_of_apps_and_taco_pay_their_solutions_alone(imported, importer):
    task_set = imported(importer, APPS, FUNCTION)
    assert [task.environment for task in task_set["held_out"]] == ["agentgym/code-program-v1", "agentgym/code-v1"]
    assert await paid(task_set) == [1.0, 1.0]
    assert await paid(task_set, "print(3)") == [0.0, 0.0]


async def test_the_published_folders_of_apps_are_read(tmp_path):
    for row in (APPS, FUNCTION):
        folder = tmp_path / "train" / f"000{row['problem_id']}"
        folder.mkdir(parents=True)
        (folder / "question.txt").write_text(row["question"])
        (folder / "input_output.json").write_text(row["input_output"])
        (folder / "solutions.json").write_text(row["solutions"])
        if row["starter_code"]:
            (folder / "starter_code.py").write_text(row["starter_code"])
    task_set = load("importers", "apps")(tmp_path)
    assert [task.id for task in task_set["held_out"]] == ["apps/train/0007", "apps/train/0008"]
    assert await paid(task_set) == [1.0, 1.0]


async def test_codecontests_compares_words_as_its_tester_does_in_the_published_time(imported):
    task_set = imported("codecontests", CONTEST)
    [task] = task_set["held_out"]
    assert (task.truth["cpu_s"], len(task.truth["runs"]), len(task.parameters["examples"])) == (2, 3, 1)
    assert await paid(task_set) == [1.0]
    assert await paid(task_set, "while True: pass") == [0.0]


def test_codecontests_is_read_from_parquet(tmp_path):
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    parquet.write_table(pyarrow.Table.from_pylist([CONTEST]), tmp_path / "test.parquet")
    [task] = load("importers", "codecontests")(tmp_path / "test.parquet")["held_out"]
    assert task.truth["reference"].startswith("try:")


async def test_livecodebench_judges_by_its_private_tests_and_has_no_solutions(imported):
    task_set = imported("livecodebench", LIVE, LIVE_FUNCTION)
    program, function = task_set["held_out"]
    assert [run["stdin"] for run in program.truth["runs"]] == ["1 2\n", "5 6\n"]
    assert len(function.parameters["tests"]) == 1
    with pytest.raises(TaskError, match="no solution"):
        task_set.solution(program)
    assert await paid(task_set, SUM) == [1.0, 0.0]
    added = "class Solution:\n    def added(self, a: List[int], b: int) -> int:\n        return sum(a, b)\n"
    assert await paid(task_set, added) == [0.0, 1.0]


class Hostile:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_that_does_something_is_not_executed(imported, tmp_path):
    planted = tmp_path / "planted"
    row = LIVE | {"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(Hostile(planted)))).decode()}
    with pytest.warns(LeftOutWarning, match="a pickle of more than one text"):
        assert len(imported("livecodebench", row, LIVE_FUNCTION)["held_out"]) == 1
    assert not planted.exists()


@pytest.mark.parametrize(
    ("importer", "row", "reason"),
    [
        ("apps", APPS | {"question": "Sum. If there are several answers, print any."}, "no checker"),
        ("apps", APPS | {"input_output": ""}, "it has no tests"),
        ("apps", APPS | {"input_output": "{"}, "not JSON"),
        ("apps", APPS | {"solutions": json.dumps(["print 1"])}, "Python 3"),
        ("taco", APPS | {"starter_code": "class Solution:\n    def f(self): pass"}, "declares a function"),
        ("codecontests", CONTEST | {"input_file": "in.txt"}, "reads or writes a file"),
        ("codecontests", CONTEST | {"public_tests": {"input": ["1"], "output": []}}, "one output for each input"),
        ("livecodebench", LIVE | {"private_test_cases": "eJ"}, "cannot be unpacked"),
        ("livecodebench", LIVE | {"metadata": '{"func_name": "f"}'}, "same form"),
    ],
)
def test_a_row_that_is_left_out_is_named_with_its_reason(imported, importer, row, reason):
    with pytest.raises(TaskError, match=reason):
        imported(importer, row)


def test_statements_say_whether_several_outputs_or_cases_are_right():
    assert SEVERAL.search("If there are multiple ways to do it, any of those will be accepted.")
    assert SEVERAL.search("Print any of them.")
    assert not SEVERAL.search("In one move he can go to any of the following points.")
    assert ANY_CASE.search("You can print each letter in any case (upper or lower).")
    assert not ANY_CASE.search("In any of the test cases the number is positive.")


def test_words_are_compared_by_value():
    def same(left, right, tolerance=0.0):
        return same_words(left, right, tolerance=tolerance, ignore_case=False)

    assert same("1 2\n3", "1\n2 3.0")
    assert same("0.50", ".5")
    assert same("1.000004", "1", 1e-5)
    assert not same("1 2", "1")
    assert not same("50000000000000001", "50000000000000000")
    assert not same("nan", "0", 1.0)
    assert not same("a", "A")
    assert same_words("yes", "YES", tolerance=0.0, ignore_case=True)
