"""BigCodeBench: rows of our own in the published form, judged by their unit tests."""

from __future__ import annotations

import json

import pytest

from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, TaskError
from agentgym.registry import load
from agentgym.tasks.importers.items import LeftOutWarning

ROW = {
    "task_id": "BigCodeBench/1",
    "complete_prompt": 'import random\n\ndef task_func(count):\n    """\n    Return `count` random digits.\n    """\n',
    "canonical_solution": "    return [random.randint(0, 9) for _ in range(count)]",
    "entry_point": "task_func",
    "test": """import unittest
from unittest.mock import patch

class TestCases(unittest.TestCase):
    def test_count(self):
        self.assertEqual(len(task_func(3)), 3)

    @patch("random.randint")
    def test_digits(self, randint):
        randint.side_effect = [7, 8]
        self.assertEqual(task_func(2), [7, 8])
""",
}


@pytest.fixture
def imported(tmp_path):
    def read(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return load("importers", "bigcodebench")(path)

    return read


async def test_the_solution_is_paid_and_a_wrong_one_is_not(imported):
    task_set = imported(ROW)
    [task] = task_set["held_out"]
    assert "import unittest" not in json.dumps([task.parameters, task.prompt])
    edit = {"path": "solution.py", "old": "raise NotImplementedError", "new": "return [1] * count"}
    wrong = [Message("assistant", "", (call,)) for call in (Call("replace", edit), Call("submit", {}))]
    for script, success in ((task_set.solution(task), 1.0), (wrong, 0.0)):
        [trajectory] = await EpisodeManager(ScriptedPolicy(script)).collect([task])
        assert trajectory.success == success


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"test": ROW["test"] + "\nimport absent_library\n"}, "it needs absent_library"),
        ({"test": "class TestCases: pass"}, "no unit tests"),
        ({"canonical_solution": "    return ("}, "not Python"),
    ],
)
def test_a_row_that_is_left_out_is_named_with_its_reason(imported, change, reason):
    with pytest.warns(LeftOutWarning, match=reason) as caught:
        task_set = imported(ROW, ROW | {"task_id": "BigCodeBench/2"} | change)
    assert len(task_set["held_out"]) == 1
    assert list(caught[0].message.reasons) == ["BigCodeBench/2"]


def test_a_row_of_another_set_is_named(imported):
    with pytest.raises(TaskError, match="item 0: none of the fields test holds text"):
        imported({name: ROW[name] for name in ("task_id", "complete_prompt", "entry_point")})
