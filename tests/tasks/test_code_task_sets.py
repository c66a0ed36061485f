"""The generated code task sets: large enough, apart in two strata, solved by their oracle and by nothing trivial."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from by_day import some_by_day

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.registry import load
from agentgym.tasks.maths.families import KNOWN, UNSEEN
from agentgym.tasks.programs.languages import LANGUAGES

SETS = {
    "code/programs-v1": ("unseen_programs", "unseen_steps"),
    "code/projects-v1": ("unseen_functions", "unseen_kinds"),
    "code/shell-v1": ("unseen_files", "unseen_jobs"),
    "code/verilog-v1": ("unseen_parameters", "unseen_families"),
    "code/maths-v1": ("unseen_numbers", "unseen_families"),
    "code/tables-v1": ("unseen_tables", "unseen_questions"),
    "code/completion-v1": ("unseen_parameters", "unseen_families"),
    "code/verified-v1": ("unseen_parameters", "unseen_families"),
}
KINDS = {  # which tag tells the kind of work, and so what the second stratum keeps from training
    "code/shell-v1": 0,
    "code/verilog-v1": 0,
    "code/maths-v1": 0,
    "code/tables-v1": 0,
    "code/projects-v1": 0,
}
every_set = pytest.mark.parametrize("name", SETS)


@every_set
def test_a_set_is_large_and_its_held_out_tasks_are_of_two_strata(name):
    task_set = load_task_set(name)
    assert len(task_set["train"]) >= 1_000
    assert len(task_set["validation"]) >= 100
    strata = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag in SETS[name])
    assert set(strata) == set(SETS[name])
    assert sum(strata.values()) == len(task_set["held_out"])
    assert min(strata.values()) >= 100


@every_set
def test_no_two_tasks_of_a_set_ask_the_same(name):
    task_set = load_task_set(name)
    keys = [task.content_key() for split in task_set for task in task_set[split]]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_unseen_has_no_sibling_in_training(name):
    task_set, second = load_task_set(name), SETS[name][1]
    trained = {task.tags[KINDS[name]] for split in ("train", "validation") for task in task_set[split]}
    unseen = {task.tags[KINDS[name]] for task in task_set["held_out"] if second in task.tags}
    assert unseen
    assert not trained & unseen


async def outcomes(tasks, script_for):
    """Success of each task, played by a script."""
    trajectories = await EpisodeManager(
        lambda task: ScriptedPolicy(script_for(task)), RolloutConfig(concurrency=8)
    ).collect(tasks)
    assert [t.error for t in trajectories if t.error] == []
    return {t.task.id: t.success for t in trajectories}


def of_many_kinds(name, limit):
    """Tasks of training and of the held-out split, each of another kind by its first tag, from all over the set."""
    task_set = load_task_set(name)
    chosen = {}
    for task in (*task_set["train"], *task_set["held_out"]):
        chosen.setdefault((task.tags[0], task.split), task)
    return list(chosen.values())[:: max(1, len(chosen) // limit)][:limit]


@every_set
@pytest.mark.needs_namespaces
async def test_the_oracle_solves_tasks_of_many_kinds_through_the_public_tools(name):
    tasks = some_by_day(of_many_kinds(name, 12), 6)
    successes = await outcomes(tasks, load_task_set(name).oracle)
    assert [task for task, success in successes.items() if success != 1.0] == []


@every_set
@pytest.mark.needs_namespaces
async def test_ending_at_once_and_empty_answers_solve_nothing(name):
    tasks = of_many_kinds(name, 6)
    [final] = [tool for tool in load("environments", tasks[0].environment).tools.values() if tool.options.final]
    empty = {key: [] if schema.get("type") == "array" else "" for key, schema in final.parameters["properties"].items()}

    def ender(task):
        return lambda messages: Message("assistant", "", (Call(final.name, empty),) if len(messages) < 4 else ())

    assert sum((await outcomes(tasks, ender)).values()) == 0


def test_each_family_of_mathematics_gives_what_its_reference_prints():
    """The reference code and the answer are two ways to the same number; the code is ours, so it is run here."""
    task_set = load_task_set("code/maths-v1")
    counts = Counter()
    for task in (*task_set["train"], *task_set["held_out"]):
        counts[task.tags[0]] += 1
        if counts[task.tags[0]] <= 3:
            printed = []
            exec(task.truth["reference"], {"print": lambda value, printed=printed: printed.append(str(value))})
            assert printed == [task.truth["answer"]], task.id
    assert set(counts) == {*KNOWN, *UNSEEN}


def test_every_language_has_as_many_tasks_and_constant_outputs_are_rare_among_its_runs():
    task_set = load_task_set("code/programs-v1")
    assert Counter(task.tags[0] for task in task_set["train"]) == dict.fromkeys(LANGUAGES, 240)
    for task in task_set["train"][::7]:
        printed = [run["stdout"] for run in (*task.parameters["examples"], *task.truth["runs"])]
        assert max(Counter(printed).values()) <= 2


def test_the_reference_designs_agree_with_the_model_in_python(tmp_path):
    """Every family, both kinds of vectors; Icarus runs on our own text, so outside of a sandbox."""
    if not any((Path(folder) / "iverilog").exists() for folder in ("/usr/bin", "/usr/local/bin")):
        pytest.skip("Icarus Verilog (iverilog) is not installed")
    for task in of_many_kinds("code/verilog-v1", 24):
        (tmp_path / "design.v").write_text(task.truth["reference"])
        for run in task.truth["runs"][:1]:
            command = task.parameters["program"]["run"]
            done = subprocess.run(command, cwd=tmp_path, input=run["stdin"], capture_output=True, text=True)
            assert done.stdout == run["stdout"], (task.id, done.stderr)
