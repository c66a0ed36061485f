"""`code/functions-v1`: references pass their tests, trivial code does not, and the splits are apart."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.tasks.functions import task_set as build
from agentgym.tasks.functions.families import WRITTEN
from agentgym.tasks.functions.pipelines import pipelines

FAMILIES = {family.name: family for family in (*WRITTEN, *pipelines())}


@pytest.fixture(scope="module")
def functions():
    return load_task_set("code/functions-v1")


def every_task(functions):
    return [task for split in functions for task in functions[split]]


def family_of(task):
    return FAMILIES[task.tags[0]]


def passed(source, tests):
    """How many assertions hold for code that this project wrote itself."""
    namespace = {}
    exec(source, namespace)
    count = 0
    for test in tests:
        try:
            exec(test, namespace)
            count += 1
        except Exception:  # noqa: BLE001 - a trivial function may fail in any way
            continue
    return count


def test_the_set_is_as_large_and_as_graded_as_its_card_says(functions):
    assert {split: len(functions[split]) for split in functions} == {"train": 1200, "validation": 210, "held_out": 360}
    strata = Counter(tag for task in functions["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert strata == {"unseen_parameters": 180, "unseen_families": 180}
    bands = Counter(task.difficulty for task in functions["train"])
    assert set(bands) == {1, 2, 3, 4, 5, 6}
    assert min(bands.values()) > 120
    assert len({family_of(task).name for task in functions["train"]}) > 60


def test_every_reference_passes_every_visible_and_hidden_test(functions):
    for task in every_task(functions):
        tests = [*task.parameters["tests"], *task.truth["tests"]]
        assert len(tests) == len(set(tests)) == 11
        assert passed(task.truth["reference"], tests) == 11, task.id


def test_trivial_functions_pass_no_task(functions):
    """Returning the argument, nothing, or what a visible test expects: never all hidden tests."""
    for task in every_task(functions)[::5]:
        name = family_of(task).name
        first = task.parameters["tests"][0].partition(" == ")[2]
        for body in ("return x", "return None", "return []", "return 0", f"return {first}"):
            assert passed(f"def {name}(x): {body}", task.truth["tests"]) <= 4, (task.id, body)


def test_looking_the_visible_tests_up_passes_no_hidden_test_by_it(functions):
    for task in every_task(functions):
        visible = {test.partition(" == ")[0] for test in task.parameters["tests"]}
        assert not visible & {test.partition(" == ")[0] for test in task.truth["tests"]}


def test_unseen_families_have_no_sibling_in_training(functions):
    trained = {family_of(task).name for split in ("train", "validation") for task in functions[split]}
    strange = {family_of(task).name for task in functions["held_out"] if "unseen_families" in task.tags}
    assert len(strange) >= 15
    assert not trained & strange
    assert {family_of(task).band for task in functions["held_out"] if "unseen_families" in task.tags} == set(
        range(1, 7)
    )


def test_unseen_parameters_are_of_known_families_and_in_no_other_reference(functions):
    trained_references = {task.truth["reference"] for split in ("train", "validation") for task in functions[split]}
    trained = {family_of(task).name for task in functions["train"]}
    for task in functions["held_out"]:
        assert task.truth["reference"] not in trained_references
        if "unseen_parameters" in task.tags:
            assert family_of(task).name in trained


def test_no_two_tasks_ask_the_same(functions):
    tasks = every_task(functions)
    assert len({task.prompt for task in tasks}) == len(tasks)
    assert len({task.truth["reference"] for task in tasks}) == len(tasks)


def test_prompts_say_the_name_and_give_an_example_but_not_the_solution(functions):
    for task in every_task(functions):
        assert f"{family_of(task).name}(" in task.prompt
        assert "return " not in task.prompt.split("For example")[1]
        assert "$" not in task.prompt.replace("'", "")
        assert task.truth["tests"][0].removeprefix("assert ").partition(" == ")[0] not in task.prompt


def test_another_seed_draws_other_tasks(functions):
    assert build(seed=1).fingerprint() != functions.fingerprint()


async def play(tasks, script_for):
    trajectories = await EpisodeManager(
        lambda task: ScriptedPolicy(script_for(task)), RolloutConfig(concurrency=8)
    ).collect(tasks)
    assert all(t.valid for t in trajectories), [t.error for t in trajectories if not t.valid]
    return trajectories


@pytest.mark.needs_namespaces
async def test_the_oracle_solves_a_task_of_every_third_family_through_the_public_tools(functions):
    chosen = {}
    for task in every_task(functions):
        chosen.setdefault(task.tags[0], task)  # one of each family
    assert len(chosen) == len(FAMILIES)
    trajectories = await play(list(chosen.values())[::3], functions.oracle)
    assert [t.task.id for t in trajectories if t.success != 1.0] == []


@pytest.mark.needs_namespaces
async def test_saying_nothing_and_submitting_at_random_scores_about_nothing(functions):
    """The random agent submits the reference solution of some other task under the asked name."""
    tasks = list(functions["validation"])[::10]

    def silent(task):
        return lambda messages: Message("assistant", "I would write a loop.")

    def random_submission(task):
        other = random.Random(task.id).choice(functions["train"])
        code = other.truth["reference"].replace(family_of(other).name, family_of(task).name)
        return lambda messages: Message("assistant", "", (Call("submit", {"code": code}),))

    for script in (silent, random_submission):
        assert sum(t.success for t in await play(tasks, script)) / len(tasks) <= 0.05


@pytest.mark.needs_namespaces
async def test_code_that_looks_the_visible_tests_up_passes_them_and_fails_the_hidden_ones(functions):
    def lookup(task):
        name = family_of(task).name
        pairs = [test.removeprefix(f"assert {name}(").split(") == ", 1) for test in task.parameters["tests"]]
        table = ", ".join(f"repr({argument}): {answer}" for argument, answer in pairs)
        code = f"def {name}(x):\n    return {{{table}}}[repr(x)]\n"

        def script(messages):
            return Message(
                "assistant", "", (Call("submit" if messages[-1].role == "tool" else "test", {"code": code}),)
            )

        return script

    trajectories = await play(list(functions["train"])[:12], lookup)
    assert {t.turns[0].results[0].content for t in trajectories} == {"All 3 tests pass."}
    assert {(t.success, t.outcome["tests_passed"]) for t in trajectories} == {(0.0, 0.0)}
