"""New tasks for weak kinds: from which tasks, what is refused and counted, and that they are only trained on."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console
from staged_runs import pressing

from agentgym import Call, Environment, Message, Policy, Reward, ScriptedPolicy, Task, TaskSet, tool
from agentgym.errors import HeldOutError, RecipeError
from agentgym.methods.generate import GenerateSection, generate_stage
from agentgym.methods.new_tasks import NewTasks
from agentgym.registry import load_task_set, register
from agentgym.storage.run_folder import RunFolder
from agentgym.task import Origin
from agentgym.task.mixture import mixed
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_stored_sources
from agentgym.training.stages.context import RunContext, with_tasks_of
from agentgym.training.stages.plan import planned_stages
from agentgym.training.stages.stored_episodes import EpisodeSource

BELL = "test/bell-v1"


class Bell(Environment):
    """A bell."""

    reward = "test_rung"

    @tool(final=True, inline=True)
    def ring(self, times: int) -> str:
        """Ring the bell."""
        return "Ding."


class Rung(Reward):
    """1 where the bell was rung as often as it was to be; for 0 times, where nobody called anything."""

    def outcome(self, episode):
        calls = [call for turn in episode.turns for call in turn.calls]
        return {"success": float(sum(call.arguments.get("times", 0) for call in calls) == episode.task.truth)}


register(BELL, Bell)
register("test_rung", Rung, kind="rewards")


def task(name: str, truth: int, split: str = "train", **fields: object) -> Task:
    return Task(name, BELL, f"Ring {name}.", truth=truth, split=split, tags=(f"times_{truth}",), **fields)


def ringer(times: int) -> Policy:
    return ScriptedPolicy([Message("assistant", "", (Call("ring", {"times": times}),))], name=f"rings_{times}")


def oracle(chosen: Task):
    times = 1 if chosen.truth == 9 else chosen.truth  # it does not know how to ring nine times
    return lambda messages: Message("assistant", "", (Call("ring", {"times": times}),))


def new_task(parent: Task, seed: int) -> Task:
    return Task("", BELL, f"Ring {seed} anew.", truth=parent.truth)


def bells(generate=new_task) -> TaskSet:
    """Tasks of one and of two rings; a policy that rings once is weak in the others."""
    splits = {
        split: [task(f"{split}-{n}", 1 + n % 2, split) for n in range(6)]
        for split in ("train", "validation", "held_out")
    }
    return TaskSet(BELL, splits, oracle=oracle, generate=generate)


@pytest.fixture
def contexts(tmp_path):
    opened = []

    def context_of(task_set: TaskSet) -> RunContext:
        recipe = Recipe.parse(
            {
                "name": "bells",
                "tasks": {"set": "test/press-v1"},
                "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 2, "heads": 2}},
                "episode": {"max_turns": 2},
                "machine": {"device": "cpu"},
            }
        )
        folder = RunFolder(tmp_path / f"run{len(opened)}").create()
        context = RunContext.open(folder, recipe, task_set, Console(file=io.StringIO(), width=300), state_keys=False)
        opened.append(context)
        context.rollouts.play(ringer(1), task_set["train"], label="played-000000", group_size=2)
        return replace(context, stage="new", sources=[EpisodeSource("played")])

    yield context_of
    for context in opened:
        context.close()


def generated(context: RunContext, **options: object) -> list[Task]:
    generate_stage.run(context, None, GenerateSection(**options))
    rows = TaskSet.from_jsonl(context.folder.path / "tasks.jsonl")
    return [row for row in rows["train"] if row.origin is not None]


def report(context: RunContext) -> str:
    return context.console.file.getvalue()


def test_new_tasks_are_like_the_weak_ones_and_only_trained_on(contexts):
    context = contexts(bells())
    tasks = generated(context, tasks=5)
    assert len(tasks) == 5
    assert {row.origin.parent for row in tasks} == {"train-1", "train-3", "train-5"}, "those of two rings"
    assert {row.tags for row in tasks} == {("times_2", "generated")}
    trained = with_tasks_of(context.folder, context.task_set)
    assert len(trained["train"]) == 11
    assert trained.oracle is context.task_set.oracle
    assert [trained[split] for split in ("validation", "held_out")] == [
        context.task_set[split] for split in ("validation", "held_out")
    ]
    record = context.folder.read_json("generated.json")
    assert record == {"below": 0.5, "weak": ["train-1", "train-3", "train-5"], "tasks": 5, "refused": {}}
    assert "new: 3 weak tasks, 5 new ones like them" in report(context)


def test_a_stage_that_is_run_once_more_finds_its_own_result(contexts):
    context = contexts(bells())
    first = generated(context, tasks=3, with_set=False)
    raising = replace(context, task_set=bells(lambda parent, seed: 1 / 0))
    assert generated(raising, tasks=3) == first
    assert len(with_tasks_of(context.folder, context.task_set)["train"]) == 3


@pytest.mark.parametrize(
    ("generate", "refused", "accepted"),
    [
        (lambda parent, seed: 1 / 0, {"error": 8}, 0),
        (lambda parent, seed: "not a Task", {"error": 8}, 0),
        (lambda parent, seed: new_task(parent, 0), {"repeated": 6}, 1),
        (lambda parent, seed: replace(parent, id=""), {"repeated": 8}, 0),
        (lambda parent, seed: task("held_out-0", 1), {"measured": 8}, 0),
        (lambda parent, seed: task("VALIDATION-0", 1), {"measured": 8}, 0),
        (lambda parent, seed: replace(new_task(parent, seed), truth=9), {"unsolved": 8}, 0),
        (lambda parent, seed: replace(new_task(parent, seed), truth=0), {"trivial": 8}, 0),
        (lambda parent, seed: replace(new_task(parent, seed), environment="test/other-v1"), {"environment": 8}, 0),
        (lambda parent, seed: replace(new_task(parent, seed), parameters={"x": object()}), {"error": 8}, 0),
    ],
)
def test_what_is_no_new_solvable_task_is_refused_counted_and_the_run_goes_on(contexts, generate, refused, accepted):
    context = contexts(bells(generate))
    options = {"tasks": 4, "tries": 2}
    assert len(generated(context, **options)) == accepted
    assert context.folder.read_json("generated.json")["refused"] == refused
    (metrics,) = context.folder.metrics("new")
    assert (metrics["new_tasks"], metrics["refused_tasks"]) == (accepted, sum(refused.values()))
    (reason, count) = next(iter(refused.items()))
    assert f"{count} refused ({reason})" in report(context)
    assert len(with_tasks_of(context.folder, context.task_set)["train"]) == 6 + accepted


def test_a_generator_that_fails_is_quoted_and_is_an_error_where_nothing_else_would_be_trained_on(contexts):
    context = contexts(bells(lambda parent, seed: 1 / 0))
    with pytest.raises(RecipeError, match=r"refused .error.. The generator raised ZeroDivisionError.* with_set = true"):
        generated(context, with_set=False)


def test_a_generator_cannot_read_held_out_tasks(contexts):
    task_set = bells()
    reading = TaskSet(
        BELL,
        {split: task_set[split] for split in task_set},
        oracle=oracle,
        generate=lambda parent, seed: task_set["held_out"][0],
    )
    with pytest.raises(HeldOutError):
        generated(contexts(reading))


def test_episodes_of_another_task_set_are_refused(contexts):
    context = contexts(bells())
    others = TaskSet(BELL, {"train": [task("train-1", 3)]}, oracle=oracle, generate=new_task)
    with pytest.raises(
        RecipeError, match=r"of test/bell-v1, but the given episodes are of other tasks, such as 'train-0'"
    ):
        generated(replace(context, task_set=others))


def test_stored_episodes_of_another_task_set_are_refused_before_a_run(contexts):
    context = contexts(bells())
    episodes = [f"{context.folder.path}:played"]
    stages = planned_stages(pressing({"kind": "generate", "options": {"episodes": episodes}}))
    with pytest.raises(
        RecipeError, match=r"of test/press-v1, but the given episodes are of other tasks, such as 'train-0'"
    ):
        check_stored_sources(stages, load_task_set("test/press-v1"))
    check_stored_sources(stages, bells())


def test_nothing_is_generated_where_nothing_is_weak(contexts):
    context = contexts(TaskSet(BELL, {"train": [task("a", 1), task("b", 1)]}, oracle=oracle, generate=new_task))
    assert generated(context) == []
    assert "new: 0 weak tasks, 0 new ones like them" in report(context)
    assert len(with_tasks_of(context.folder, context.task_set)["train"]) == 2


def test_a_set_without_a_generator_is_refused_before_anything_starts():
    stages = [{"kind": "collect"}, {"kind": "generate"}]
    planned_stages(pressing(*stages))
    data = pressing(*stages).model_dump(exclude_none=True) | {"tasks": {"set": "test/lookup-v1"}}
    with pytest.raises(RecipeError, match=r"test/lookup-v1 cannot generate tasks. Give the TaskSet `generate`"):
        planned_stages(Recipe.parse(data))


def test_a_mixture_generates_with_the_set_that_a_task_comes_from_and_its_oracle_plays_the_result():
    others = TaskSet("test/plain-v1", {"train": [task("p", 1)]}, oracle=oracle)
    mixture = mixed({BELL: bells(), "test/plain-v1": others})
    parent = mixture["train"][1]
    new = replace(mixture.generate(parent, 3), id="new/1", tags=parent.tags, origin=Origin("generate", parent.id))
    assert new.truth == parent.truth
    assert mixture.oracle(new)([]).calls[0].arguments == {"times": 2}
    with pytest.raises(Exception, match="test/plain-v1 cannot generate tasks"):
        mixture.generate(mixture["train"][-1], 3)


@pytest.mark.parametrize("name", ["text/doors-v1", "text/number-guess-v1", "sql/store-v1"])
def test_bundled_sets_generate_tasks_of_the_kind_of_a_given_one(name):
    task_set = load_task_set(name)
    admission = NewTasks(task_set)
    for parent in task_set["train"][:4]:
        first, second = (task_set.generate(parent, 7) for _ in range(2))
        assert first == second
        assert first.environment == parent.environment
        for key in ("horizon", "counts", "database"):
            assert first.parameters.get(key) == parent.parameters.get(key)
        if name == "text/number-guess-v1":
            assert first.difficulty == parent.difficulty
        if name == "sql/store-v1":
            assert first.tags == parent.tags
        admission.take(first)
    assert set(admission.refused) <= {"repeated", "measured"}
