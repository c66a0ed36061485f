"""SWE-bench-format files: junk is dropped, nothing of the fix is shown, and an instance with a clone is played."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agentgym import Call, Message
from agentgym.errors import TaskError
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EpisodeManager
from agentgym.tasks.importers.swebench import load_swebench, pytest_ids
from agentgym.tasks.importers.swebench_django import unittest_ids

INSTANCES = Path(__file__).parents[3] / "shared/data/swebench_format_12/instances.jsonl"
BUG, FIXED = "def area(a, b):\n    return a + b\n", "def area(a, b):\n    return a * b\n"
TEST = "import pytest\nfrom shape import area\n\n\ndef test_square():\n    assert area(2, 2) == 4\n"
NEW = (
    TEST + '\n\n@pytest.mark.parametrize("a", ["3 by 2", "2 by 3"])\ndef test_more(a):\n    x, y = a.split(" by ")\n'
    "    assert area(int(x), int(y)) == 6\n"
)


def git(folder, *arguments):
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def instance(tmp_path):
    """A clone whose second commit mends its first, and the instance that a recorder would have made of it."""
    clone = tmp_path / "mirrors" / "acme__shape"
    clone.mkdir(parents=True)
    git(clone, "init", "-q")
    (clone / "shape.py").write_text(BUG)
    (clone / "test_shape.py").write_text(TEST)
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "base")
    base = git(clone, "rev-parse", "HEAD")
    (clone / "shape.py").write_text(FIXED)
    (clone / "test_shape.py").write_text(NEW)
    row = {
        "instance_id": "acme__shape-1",
        "repo": "acme/shape",
        "base_commit": base,
        "problem_statement": "area(3, 2) is 5.",
        "patch": git(clone, "diff", "--", "shape.py") + "\n",
        "test_patch": git(clone, "diff", "--", "test_shape.py") + "\n",
        "FAIL_TO_PASS": json.dumps(["test_shape.py::test_more[3", "[100%]", "["]),
        "PASS_TO_PASS": ["test_shape.py::test_square"],
    }
    git(clone, "commit", "-q", "-a", "-m", "the fix")
    path = tmp_path / "instances.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return path


@pytest.mark.needs_namespaces
async def test_the_gold_patch_solves_an_instance_and_nothing_does_not(instance):
    [task] = load_swebench(instance, mirrors=instance.parent / "mirrors")["held_out"]
    for calls, success in (([Call("patch", {"diff": task.truth["gold"]})], 1), ([], 0)):
        script = [Message("assistant", "", (call,)) for call in [*calls, Call("submit")]]
        [episode] = await EpisodeManager(ScriptedPolicy(script)).collect([task])
        assert episode.outcome["success"] == success, episode.error


@pytest.mark.needs_namespaces
async def test_the_agent_sees_neither_the_fix_nor_its_tests(instance):
    [task] = load_swebench(instance, mirrors=instance.parent / "mirrors")["held_out"]
    script = [
        Message("assistant", "", (Call("shell", {"command": "git log -p --all; cat *"}),)),
        Message("assistant", ""),
    ]
    [episode] = await EpisodeManager(ScriptedPolicy([*script, *script])).collect([task])
    visible_text = "".join(message.text for message in episode.messages())
    assert "return a + b" in visible_text
    assert "a * b" not in visible_text
    assert "test_more" not in visible_text


def test_junk_in_lists_of_tests_is_dropped():
    listed = ["a/test_x.py::test_y[1", "[100%]", "[", "PASSED", "test_old (some.Class)", "a/test_x.py::test_y[1"]
    assert pytest_ids(listed) == ["a/test_x.py::test_y[1"]


def test_a_field_that_is_no_list_of_tests_is_named(instance):
    row = json.loads(instance.read_text())
    instance.write_text(json.dumps({**row, "FAIL_TO_PASS": "nonsense"}))
    with pytest.raises(TaskError, match="item 0: 'nonsense' is no list of tests"):
        load_swebench(instance, mirrors=instance.parent / "mirrors")


def test_names_of_unittest_are_turned_into_ids_of_pytest_and_descriptions_dropped():
    listed = [
        "test_a (forms_tests.tests.test_media.MediaCase)",
        "Says what it does.",
        "test_b (expressions.tests.Case)",
    ]
    assert unittest_ids([*listed, "test_skip_if_db_feature (test_utils.tests.SkippingTestCase)"]) == [
        "tests/forms_tests/tests/test_media.py::MediaCase::test_a",
        "tests/expressions/tests.py::Case::test_b",
    ]


@pytest.mark.skipif(not INSTANCES.is_file(), reason="the shared data is not beside this checkout")
def test_the_real_instances_are_read_and_what_they_lack_is_said(tmp_path):
    with pytest.warns(UserWarning, match=r"no clone of astropy/astropy.*django-11019: no clone of django/django"):
        stood_in = load_swebench(INSTANCES, mirrors=tmp_path)["held_out"]
    assert [task.parameters["repository"] for task in stood_in] == ["Django==2.2b1"] * 5
    assert all("stand_in" in task.tags for task in stood_in)
    for name in ("astropy__astropy", "django"):
        (tmp_path / name).mkdir()
    tasks = load_swebench(INSTANCES, mirrors=tmp_path)["held_out"]
    assert len(tasks) == 12
    for task in tasks:
        assert task.parameters["repository"].startswith(str(tmp_path))
        assert task.truth["gold"][:200] not in task.prompt
        assert all("::" in test for test in task.truth["fail_to_pass"])


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"repo": 1}')
    with pytest.raises(TaskError, match="item 0: the field 'instance_id' is no text"):
        load_swebench(path)
    path.write_text("{")
    with pytest.raises(TaskError, match="neither"):
        load_swebench(path)
