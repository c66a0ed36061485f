"""SWE-bench-format files: junk is dropped, nothing of the fix is shown, and an instance with a clone is played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym import Call, EpisodeManager, Message, ScriptedPolicy
from agentgym.errors import TaskError
from agentgym.sandboxes.swe.patch import make_patch
from agentgym.tasks.importers.swebench import load_swebench
from agentgym.tasks.importers.swebench_django import CONFTEST, unittest_ids
from agentgym.tasks.importers.swebench_environments import ENVIRONMENTS, published_environment
from agentgym.tasks.importers.swebench_ids import pytest_ids
from agentgym.tasks.importers.swebench_patches import reversed_patch
from agentgym.tasks.importers.swebench_rows import instance_of

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
async def test_a_row_of_r2e_gym_is_played_with_the_tests_that_its_outputs_name(instance):
    """The columns and the outputs are those of the published rows; `test_2` fails before and after."""
    base = json.loads(instance.read_text())["base_commit"]
    files = {"shape.py": (BUG, FIXED, None), "test_shape.py": (TEST, NEW, None), "docs/a.md": ("", "# A", "new file")}
    line = "{} r2e_tests/test_1.py::{}"
    before = [
        line.format("\x1b[32mPASSED\x1b[0m", "test_square"),
        line.format("FAILED", "test_more[3 by 2] - assert 5"),
    ]
    after = [line.format("PASSED", name) for name in ("test_square", "test_more[3 by 2]")]
    row = {
        "repo_name": "shape",
        "commit_hash": "f" * 40,
        "problem_statement": "[ISSUE]\narea(3, 2) is 5.\n[/ISSUE]",
        "parsed_commit_content": json.dumps(
            {
                "old_commit_hash": base,
                "file_diffs": [
                    {
                        "header": {"file": {"path": path}, "misc_line": kind},
                        "old_file_content": old,
                        "new_file_content": new,
                    }
                    for path, (old, new, kind) in files.items()
                ],
            }
        ),
        "execution_result_content": json.dumps(
            {
                "test_file_names": ["__init__.py", "test_1.py"],
                "test_file_codes": ["", NEW],
                "old_commit_res_stdout": "\n".join([*before, line.format("FAILED", "test_2")]),
                "new_commit_res_stdout": "\n".join([*after, line.format("FAILED", "test_2")]),
            }
        ),
    }
    instance.write_text(json.dumps(row))
    (instance.parent / "mirrors/acme__shape").rename(instance.parent / "mirrors/shape")
    [task] = load_swebench(instance, mirrors=instance.parent / "mirrors")["held_out"]
    assert task.prompt == "area(3, 2) is 5."
    assert task.truth["fail_to_pass"] == ["r2e_tests/test_1.py::test_more[3"]
    for calls, success in (([Call("patch", {"diff": task.truth["gold"]})], 1), ([], 0)):
        script = [Message("assistant", "", (call,)) for call in [*calls, Call("submit")]]
        [episode] = await EpisodeManager(ScriptedPolicy(script)).collect([task])
        assert episode.outcome["success"] == success, episode.error
    with pytest.raises(TaskError, match="not a row of R2E-Gym: KeyError"):
        instance_of(row | {"execution_result_content": "{}"}, "here")


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


def test_names_without_a_file_and_with_the_path_of_another_container_become_ids():
    texts = {"a/test_x.py": "def test_y(n):\n", "a/test_z.py": "class T:\n    def test_w(self):\n"}
    names = ["test_y[1-2]", "test_gone", "/testbed/a/test_x.py::test_y[/testbed/a/data]", "test_y[cut at"]
    assert pytest_ids(names, list(texts), texts.__getitem__) == [
        "a/test_x.py::test_y[1-2]",
        "a/test_x.py::test_y[/work/repo/a/data]",
        "a/test_x.py::test_y[cut at",
    ]


def test_rows_of_sets_like_swe_bench_are_read():
    bug = make_patch({"shape.py": FIXED.encode()}, {"shape.py": BUG.encode()})
    smith = instance_of(
        {
            "instance_id": "acme__shape.93c5579a.func_pm__x1",
            "repo": "swesmith/acme__shape.93c5579a",
            "patch": bug,
            "FAIL_TO_PASS": ["test_shape.py::test_square"],
            "problem_statement": "-",
        },
        "here",
    )
    assert (smith.repo, smith.commit, smith.bug, smith.tests) == ("acme/shape", "93c5579a", bug, "")
    assert smith.fix == make_patch({"shape.py": BUG.encode()}, {"shape.py": FIXED.encode()})
    assert reversed_patch(smith.fix) == bug
    multi = instance_of(
        {
            "org": "acme",
            "repo": "shape",
            "number": 7,
            "base": {"ref": "main", "sha": "93c5579a"},
            "resolved_issues": [{"title": "area", "body": "is wrong"}],
            "fix_patch": "f",
            "test_patch": "t",
            "f2p_tests": {"test_shape.py::test_a": {"run": "PASS"}},
            "n2p_tests": {"test_shape.py::test_b": {}},
            "p2p_tests": {"test_shape.py::test_c": {}},
        },
        "here",
    )
    assert (multi.id, multi.issue, multi.commit) == ("acme__shape-7", "area\n\nis wrong", "93c5579a")
    assert multi.failing == ("test_shape.py::test_a", "test_shape.py::test_b")
    rebench = instance_of(
        {
            **dict.fromkeys(("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch"), "x"),
            "FAIL_TO_PASS": [],
            "install_config": {"python": "3.9", "packages": "numpy six", "pip_packages": ["pytest>=6, <8"]},
        },
        "here",
    )
    assert (rebench.python, rebench.requirements) == ("3.9", ("numpy", "six", "pytest>=6,<8"))
    with pytest.raises(TaskError, match="a hunk of the patch ends too early"):
        instance_of({"instance_id": "x", "repo": "a__b.1234567", "patch": bug + "@@ -1,3 +1,3 @@\nx"}, "here")


def test_every_repository_of_swe_bench_has_its_published_environments():
    assert len(ENVIRONMENTS) == 12
    flask = published_environment("pallets/flask", "2.3")
    assert flask is not None
    assert (flask.python, "Werkzeug==2.3.7" in flask.requirements) == ("3.11", True)
    assert published_environment("pallets/flask", "0.1") is None


def test_junk_in_lists_of_tests_is_dropped():
    listed = ["a/test_x.py::test_y[1", "[100%]", "[", "PASSED", "test_old (some.Class)", "a/test_x.py::test_y[1"]
    assert pytest_ids(listed) == ["a/test_x.py::test_y[1"]


def test_a_field_that_is_no_list_of_tests_is_named(instance):
    row = json.loads(instance.read_text())
    instance.write_text(json.dumps({**row, "FAIL_TO_PASS": "nonsense"}))
    with pytest.raises(TaskError, match="item 0: 'nonsense' is not a list of tests"):
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


@pytest.mark.parametrize(
    "signature",
    [
        "setup(verbosity, test_labels, parallel)",  # Django 2.2
        "setup(verbosity, test_labels, parallel, start_at, start_after)",  # 3.0 to 3.2
        "setup_run_tests(verbosity, start_at, start_after, test_labels=None)",  # since 4.0
    ],
)
def test_django_is_set_up_as_its_own_runner_of_the_version_does(tmp_path, signature):
    """Beside a runner of the shape that each version has; the real ones are too large to lie here."""
    (tmp_path / "django" / "test").mkdir(parents=True)
    (tmp_path / "django" / "__init__.py").touch()
    (tmp_path / "django" / "test" / "runner.py").write_text(
        "class DiscoverRunner:\n    def __init__(self, verbosity, interactive): pass\n"
        "    def setup_test_environment(self): pass\n    def setup_databases(self): pass\n"
    )
    (tmp_path / "tests" / "forms").mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    (tmp_path / "tests" / "runtests.py").write_text(
        f"SEEN = []\n\n\ndef {signature}:\n    SEEN.append((verbosity, test_labels))\n"
        + ("    assert start_at is start_after is None\n" if "start_at" in signature else "")
    )
    (tmp_path / "tests" / "forms" / "test_x.py").write_text(
        "import runtests\n\n\ndef test_x():\n    assert runtests.SEEN == [(0, ['forms'])]\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "tests/forms/test_x.py"]
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": "."}
    finished = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_bug_in_django_is_put_in_beside_what_its_tests_need(instance):
    row = json.loads(instance.read_text())
    bug = make_patch({"shape.py": FIXED.encode()}, {"shape.py": BUG.encode()})
    smith = {"repo": f"swesmith/django__django.{row['base_commit'][:8]}", "patch": bug, "test_patch": ""}
    instance.write_text(json.dumps({**row, **smith, "FAIL_TO_PASS": ["test_a (forms_tests.tests.Case)"]}))
    (instance.parent / "mirrors" / "django").mkdir()
    [task] = load_swebench(instance, mirrors=instance.parent / "mirrors")["held_out"]
    assert task.parameters["patch"].startswith(bug)
    assert "+++ b/tests/conftest.py" in task.parameters["patch"]


@pytest.mark.skipif(not INSTANCES.is_file(), reason="the shared data is not beside this checkout")
def test_the_real_instances_are_read_and_what_they_lack_is_said(tmp_path):
    with pytest.warns(UserWarning, match=r"clone of astropy/astropy.*django-11019: there is no clone of django/django"):
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
    with pytest.raises(TaskError, match="item 0: the field 'instance_id' is not text"):
        load_swebench(path)
    path.write_text("{")
    with pytest.raises(TaskError, match="neither"):
        load_swebench(path)


def test_a_patch_that_is_reversed_takes_itself_back(tmp_path):
    before = {"kept.py": "a\n\nb\nc\nd", "gone.py": "-- x\n++ y\n", "same.py": "1\n"}
    after = {"kept.py": "a\n\nB\nc\nd\ne\n", "gone.py": None, "new.py": "-- x\nno end"}
    patch = make_patch(
        {path: text.encode() for path, text in before.items()},
        {path: None if text is None else text.encode() for path, text in after.items()},
    )
    for path, text in before.items():
        (tmp_path / path).write_text(text)
    for diff in (patch, reversed_patch(patch)):
        subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True, cwd=tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    assert reversed_patch(reversed_patch(patch)) == patch
