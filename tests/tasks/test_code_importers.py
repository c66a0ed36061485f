"""HumanEval, HumanEvalFix and GSM8K: the public files where they lie beside the checkout, broken ones anywhere."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy
from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.reward import comparison
from agentgym.rewards.remote_check import RemoteCheck

DATA = Path(__file__).parents[2] / "../shared/data"
HUMANEVAL = DATA / "humaneval/HumanEval.jsonl.gz"
FIX = DATA / "humanevalfix_python/python.jsonl"
GSM8K = DATA / "gsm8k/test.jsonl"
EVERY = 64
"""A sample of the problems; `python benchmarks/importers.py` runs all of them."""

needs_files = pytest.mark.skipif(not HUMANEVAL.is_file(), reason="the public files are not in ../shared/data")

ITEM = {
    "task_id": "HumanEval/0",
    "entry_point": "f",
    "canonical_solution": "    return x * K\n",
    "prompt": 'K = 2\n\ndef f(x):\n    """Double.\n    >>> f(2)\n    4\n    >>> f(3)\n    six\n    """\n',
    "test": "def check(candidate):\n    assert candidate(5) == 10\n",
}


def read(tmp_path, kind, *items):
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(item if isinstance(item, str) else json.dumps(item) for item in items))
    return load("importers", kind)(path)


def test_a_problem_shows_its_doctests_and_keeps_its_check(tmp_path):
    (task,) = read(tmp_path, "humaneval", ITEM)["held_out"]
    assert task.parameters == {"tests": ["assert f(2) == 4"], "setup": "K = 2\n"}
    assert task.truth["check"].endswith("check(f)\n")
    assert "candidate" not in str(task.public())


def test_a_repair_shows_the_bug_and_not_the_solution(tmp_path):
    item = ITEM | {
        "declaration": "K = 2\n\ndef f(x):\n",
        "buggy_solution": "    return x + K\n",
        "docstring": "Double.",
    }
    (task,) = read(tmp_path, "humanevalfix", item)["held_out"]
    assert "return x + K" in task.prompt
    assert "return x * K" not in str(task.public())


@pytest.mark.parametrize(
    ("kind", "item", "reason"),
    [
        ("humaneval", "{", "neither a JSON array nor JSON lines"),
        ("humaneval", "[1]", "item 0: expected a JSON object"),
        ("humaneval", {"task_id": 1}, "item 0: the field 'prompt' is missing"),
        (
            "humaneval",
            ITEM | {"entry_point": "g"},
            "does not define 'g' as a Python function. Import Python files only",
        ),
        ("humaneval", ITEM | {"prompt": None}, "a field is not text"),
        ("humaneval", "", "contains no items"),
        ("humanevalfix", ITEM, "the field 'declaration' is missing"),
        ("gsm8k", {"question": "a"}, "item 0: none of the fields answer holds text"),
        ("gsm8k", {"question": "a", "answer": "18"}, "the field answer has no text after '####"),
        ("gsm8k", "", "contains no items"),
        ("maths", {"answer": "4"}, "item 0: none of the fields problem, question holds text"),
        ("maths", {"problem": "1 + 1?"}, "none of 1 items can be imported: .*it has no answer"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_place(tmp_path, kind, item, reason):
    with pytest.raises(TaskError, match=reason):
        read(tmp_path, kind, item)


async def test_files_of_mathematics_are_read_in_the_forms_in_which_they_are_published(tmp_path):
    rows = [
        {"problem": "MATH?", "level": "Level 5", "type": "Algebra", "solution": r"So it is $\boxed{\frac{1}{2}}$."},
        {"question": "AMC?", "answer": 27.0},
        {"id": 60, "problem": "AIME?", "answer": "033", "url": "https://example.org"},
        {"question": "OlympiadBench?", "final_answer": ["$2^n$"], "solution": ["Long."], "subfield": "Algebra"},
        {"question": "Two answers?", "final_answer": ["1", "2"]},
        {"question": "Which?", "options": ["A) 1", "B) 2"], "answer": "A"},
    ]
    with pytest.warns(UserWarning, match="2 of 6 items are left out: .*it has several answers; .*it has choices"):
        tasks = list(read(tmp_path, "maths", *rows)["held_out"])
    assert [task.tags for task in tasks] == [("Algebra", "Level 5"), (), (), ("Algebra",)]
    assert not any(task.public().truth for task in tasks)
    reward = load("rewards", "symbolic_maths")()
    for task, right, wrong in zip(tasks, ["0.5", "27", "33", "2^n"], ["0.6", "28", "34", "2n"], strict=True):
        for answer, success in ((right, 1.0), (wrong, 0.0), (task.truth["answer"], 1.0)):
            policy = ScriptedPolicy([Message("assistant", "", (Call("answer", {"text": answer}),))])
            (episode,) = await EpisodeManager(policy, RolloutConfig(reward=reward)).collect([task])
            assert episode.success == success, (task.prompt, answer)


def test_a_folder_of_problems_is_read_as_maths_archive_has_it(tmp_path):
    for name, answer in (("test/algebra/1.json", "3"), ("test/geometry/1.json", "4")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(json.dumps({"problem": "?", "solution": rf"\boxed{{{answer}}}"}, indent=4))
    tasks = load("importers", "maths")(tmp_path / "test", split="train")["train"]
    assert [task.id for task in tasks] == ["test/algebra/1", "test/geometry/1"]
    (tmp_path / "test/algebra/1.json").write_text('[{"problem": "?"}, {"problem": "!"}]')
    with pytest.raises(TaskError, match="does not hold a single problem"):
        load("importers", "maths")(tmp_path / "test")


def test_a_broken_archive_is_refused(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 999)[:15])
    with pytest.raises(TaskError, match="Cannot read"):
        load("importers", "humaneval")(tmp_path / "a.gz")


@needs_files
def test_the_public_files_have_164_164_and_1319_problems():
    assert len(load("importers", "humaneval")(HUMANEVAL)["held_out"]) == 164
    assert len(load("importers", "humanevalfix")(FIX)["held_out"]) == 164
    problems = load("importers", "gsm8k")(GSM8K)["held_out"]
    assert len(problems) == 1319
    assert all(comparison.read_number(task.truth["answer"]) is not None for task in problems)


@needs_files
@pytest.mark.needs_namespaces
async def test_published_solutions_pass_and_stubs_and_bugs_do_not():
    tasks = list(load("importers", "humaneval")(HUMANEVAL)["held_out"])[:: EVERY // 2]
    repairs = list(load("importers", "humanevalfix")(FIX)["held_out"])[::EVERY]
    rows = [json.loads(line) for line in FIX.read_text().splitlines()][::EVERY]
    judge, room = RemoteCheck(cpu_s=2), asyncio.Semaphore(4)

    async def passes(task, code):
        async with room:
            truth = task.truth
            return await judge.judge(code, truth["check"], truth["entry_point"], setup=truth["setup"])

    async def verdicts(pairs):
        return set(await asyncio.gather(*(passes(task, code) for task, code in pairs)))

    assert await verdicts((task, task.truth["reference"]) for task in tasks + repairs) == {True}
    assert await verdicts((task, f"def {task.truth['entry_point']}(*a): pass") for task in tasks) == {False}
    wrong = [row["prompt"] + row["buggy_solution"] for row in rows]
    assert await verdicts(zip(repairs, wrong, strict=True)) == {False}
