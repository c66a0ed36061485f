"""`swe/one-line-v1`: each bug is one line, some test tells it, the oracle mends it, and the splits are apart."""

from __future__ import annotations

import keyword
import sys

import pytest

from agentgym import load_task_set
from agentgym.tasks.one_line_bugs.names import NAMES, UNSEEN
from agentgym.tasks.one_line_bugs.oracle import wrong_line


@pytest.fixture(scope="module")
def bugs():
    return load_task_set("swe/one-line-v1")


def passing(source, tests):
    """Which tests hold, by number, for code that this project wrote itself."""
    namespace = {}
    exec(source + tests.partition("\n")[2], namespace)
    passing_ids = set()
    for name, test in namespace.items():
        if name.startswith("test_"):
            try:
                test()
            except Exception:  # noqa: BLE001  whatever a wrong line does
                continue
            passing_ids.add(name)
    return passing_ids


def test_every_bug_is_one_line_that_some_test_tells(bugs):
    for task in (task for split in bugs for task in bugs[split]):
        path = next(path for path in task.parameters["files"] if not path.startswith("test_"))
        wrong, tests = task.parameters["files"][path], task.parameters["files"][f"test_{path}"]
        assert wrong.count(wrong_line(task)) == 1
        right = wrong.replace(wrong_line(task), task.truth["right"])
        assert len(passing(right, tests)) == 6, task.id
        failing = {test.rpartition("::")[2] for test in task.truth["fail_to_pass"]}
        assert failing
        assert passing(wrong, tests) == {f"test_{n}" for n in range(6)} - failing, task.id


def test_names_and_templates_of_the_held_out_split_are_new(bugs):
    def names(tasks):
        return {task.prompt.partition(".py")[0] for task in tasks}

    held = bugs["held_out"]
    assert len(bugs["train"]) >= 1_000
    assert names(bugs["train"]) <= set(NAMES)
    assert names(held) <= set(UNSEEN)
    assert set(NAMES).isdisjoint(UNSEEN)
    strange = {task.tags[0] for task in held if "unseen_templates" in task.tags}
    assert strange.isdisjoint({task.tags[0] for split in ("train", "validation") for task in bugs[split]})


@pytest.mark.parametrize(("name", "environment"), [("shell", "agentgym/swe-v1"), ("given", "agentgym/swe-given-v1")])
def test_the_sets_of_other_scaffolds_ask_the_same(bugs, name, environment):
    other_set = load_task_set(f"swe/one-line-{name}-v1")
    for split in bugs:
        assert [task.prompt for task in other_set[split]] == [task.prompt for task in bugs[split]]
    assert {task.environment for task in other_set["train"]} == {environment}


def test_an_imperfect_oracle_edits_a_line_that_is_not_the_wrong_one_and_occurs_once():
    given = load_task_set("swe/one-line-given-v1")
    for task in (task for split in given for task in given[split]):
        edit = given.imperfect_oracle(task)([]).calls[0].arguments
        assert edit["old"] != wrong_line(task)
        assert edit["new"].rstrip() == edit["old"]
        assert task.parameters["files"][task.parameters["shown"][0]].count(edit["old"]) == 1


def test_no_module_is_named_like_one_of_pythons_own():
    """A file select.py in the working directory would be imported in its place, by pytest itself."""
    assert set(sys.stdlib_module_names).isdisjoint([*NAMES, *UNSEEN])
    assert not any(map(keyword.iskeyword, [*NAMES, *UNSEEN]))
