"""Expert steps as tasks: what the model reads is what it would have read in the expert's episode."""

from __future__ import annotations

import lookup_environment
import pytest
from staged_runs import run, with_stages

from agentgym import ScriptedPolicy, Task, TaskSet
from agentgym.errors import RecipeError, TaskError
from agentgym.methods.step_tasks import step_tasks
from agentgym.policy import TemplateRenderer, make_tokenizer
from agentgym.policy.formats.hermes import Hermes
from agentgym.registry import load_task_set
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Rollouts
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.demonstrate import demonstrations, tokenise


@pytest.fixture(scope="module")
def experts() -> list:
    """Two demonstrations of two turns with token ids."""
    with Rollouts() as rollouts:
        trajectories = demonstrations(rollouts, load_task_set(lookup_environment.NAME), 2)
    return [tokenise(trajectory, RENDERER) for trajectory in trajectories]


RENDERER = TemplateRenderer(make_tokenizer(["box look answer text"]), Hermes())


def test_a_step_is_read_as_the_expert_read_it(experts):
    """Token for token: the opening, what the expert did, what came back, and the tools."""
    for expert in experts:
        tasks, messages = step_tasks(expert), [turn.message for turn in expert.turns]

        def repeat(task: Task, messages=messages) -> ScriptedPolicy:
            return ScriptedPolicy([messages[task.parameters["turn"]]], RENDERER)

        assert [task.id for task in tasks] == [f"{expert.task.id}-turn-{index}" for index in (0, 1)]
        with Rollouts() as rollouts:
            steps = rollouts.play(repeat, tasks, label="steps")
        history = list(expert.prompt_ids)
        for step, turn in zip(steps, expert.turns, strict=True):
            assert step.prompt_ids == history
            assert step.outcome == {"success": 1.0, "action_similarity": 1.0}
            assert len(step.turns) == 1
            history += [*turn.token_ids, *turn.observation_ids]


def test_messages_with_calls_and_results_are_written_and_read_back_equal(experts, tmp_path):
    tasks = step_tasks(experts[0])
    assert [Task.from_json(task.to_json()) for task in tasks] == tasks
    TaskSet("steps", {"train": tasks}).to_jsonl(tmp_path / "tasks.jsonl")
    assert list(TaskSet.from_jsonl(tmp_path / "tasks.jsonl")["train"]) == tasks
    plain = Task("a", "test/none-v1", "go")
    assert "calls" not in str(plain.to_json()), "the fingerprints of other tasks stay"
    with pytest.raises(TaskError, match="has the call"):
        Task.from_json({"id": "a", "environment": "x", "messages": [{"role": "assistant", "calls": [3]}]})


def test_reinforcement_trains_on_the_steps_and_is_measured_on_the_tasks(tmp_path):
    stages = [
        {"kind": "imitate", "options": {"steps": 2}},
        {"kind": "step_tasks", "name": "steps", "options": {"max_tasks": 12}},
        {"kind": "reinforce", "options": {"steps": 1, "tasks_of": "steps", "estimator": "grpo"}},
        {"kind": "evaluate", "name": "end", "options": {"tasks": 2}},
    ]
    folder = tmp_path / "run"
    run(with_stages(*stages), folder)
    assert len(TaskSet.from_jsonl(folder / "stages" / "steps" / "tasks.jsonl")["train"]) == 12
    ledger = Ledger(folder / "ledger.sqlite")
    trajectories = list(ledger.trajectories("train-"))
    ledger.close()
    assert len(trajectories) == 8
    assert {trajectory.task.environment for trajectory in trajectories} == {"agentgym/step-v1"}
    assert all(-1 <= trajectory.outcome["action_similarity"] <= 1 for trajectory in trajectories)
    assert RunFolder(folder).evaluations() == ["end"]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (
            [{"kind": "reinforce", "options": {"tasks_of": "steps"}}],
            "'steps' must name an earlier stage that makes tasks",
        ),
        ([{"kind": "step_tasks", "options": {"episodes": ["none"]}}], "'none', but no earlier stage plays them"),
    ],
)
def test_tasks_that_nobody_makes_are_one_line_before_anything_starts(stages, message):
    def check() -> None:
        chosen = with_stages(*stages)
        check_before_start(chosen, chosen.tasks.load())

    with pytest.raises(RecipeError, match=message):
        check()


def test_a_reward_of_the_recipe_does_not_judge_steps():
    data = with_stages({"kind": "step_tasks"}).model_dump(exclude_none=True) | {"reward": {"name": "test_lookup"}}
    chosen = type(with_stages()).parse(data)
    with pytest.raises(RecipeError, match="but \\[reward\\] names 'test_lookup'"):
        check_before_start(chosen, chosen.tasks.load())
