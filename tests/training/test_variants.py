"""Variants of solved tasks: what writers earn, what is refused, what is trained on, and what a run counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from lookup_runs import recipe
from right_answers import Right
from trl import GRPOConfig

from agentgym import Environment, Message, Policy, RolloutConfig, Task, TaskSet, Trajectory, tool
from agentgym.credit import credit_of, estimator
from agentgym.errors import CreditError, RecipeError, SandboxError, SplitLeakError, TaskError
from agentgym.messages import Call, StopReason
from agentgym.methods.weakness import histories
from agentgym.policy import Reply, make_model, make_tokenizer
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer
from agentgym.training import Recipe, Rollouts, TrainingPart
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.gatherers import StepRequest, make_gatherer, play_groups
from agentgym.training.gatherers.groups import GatheredGroup
from agentgym.training.turn_grpo import TurnGRPOTrainer

WRITTEN = ["half one", "easy one", "hard one", " HALF  one", "", "half 0", "half 8", "x" * 5000]
"""What the eight writers of a group write: of the last five one repeats another, and four are no new tasks."""


class Quiz(Environment):
    """Questions."""

    @tool(final=True, inline=True)
    def say(self, answer: str) -> str:
        """Say the answer."""
        return "Heard."


class Deaf(Quiz):
    """Asks the same whatever the task says."""

    async def reset(self, task, *, seed):
        return [Message("user", "half of what?")]


class Student(Policy):
    """Knows what is easy, knows every second time what is half, and writes what it is told to."""

    name, renderer = "student", ByteRenderer()

    def __init__(self, written=WRITTEN) -> None:
        self.written, self.times = written, Counter()

    async def generate(self, request):
        prompt = request.messages[-1].text
        is_writing = prompt.startswith("A task:")
        kind = "writing" if is_writing else prompt
        self.times[kind] += 1
        if is_writing:
            message = Message("assistant", self.written[(self.times[kind] - 1) % len(self.written)])
        else:
            knows = "easy" in prompt or ("half" in prompt.lower() and self.times[kind] % 2)
            message = Message("assistant", "", (Call("say", {"answer": "42" if knows else "?"}),))
        ids = self.renderer.encode(message)
        return Reply(message, ids, [-0.5] * len(ids))


def quiz(name: str, number: int, split: str = "train") -> Task:
    return Task(f"{split}{number}", "test/quiz-v1", f"{name} {number}", truth="42", split=split, hints=("4", "2"))


TASKS = TaskSet(
    "test/quizzes-v1",
    {"train": [quiz("half", 0), *(quiz("hard", n) for n in (1, 2, 3))], "held_out": [quiz("half", 8, "held_out")]},
)


@pytest.fixture
def rollouts(tmp_path):
    with Rollouts(RolloutConfig(environment=Quiz, reward=Right()), ledger=Ledger(tmp_path / "l.sqlite")) as playing:
        yield playing


def gathered(
    rollouts, policy: Policy | None = None, options: str = "", task_set: TaskSet = TASKS, label="train-000000"
):
    gatherer = make_gatherer(play_groups, [f"variants({options})"])
    gatherer.read_tasks(task_set)
    return gatherer(StepRequest(rollouts, policy or Student(), task_set["train"], label, 8))


def of(groups, word: str):
    """The groups of tasks with this tag."""
    return [group for group in groups if word in group.episodes[0].task.tags]


def test_a_writer_earns_1_for_a_task_that_is_solved_sometimes_and_0_for_any_other(rollouts):
    groups = gathered(rollouts)
    (writing,) = of(groups, "writing")
    earned = {text: t.return_from() for text, t in zip(WRITTEN, sorted(writing.trained, key=order_of), strict=True)}
    assert earned == {text: float(text.lower().split() == ["half", "one"]) for text in WRITTEN}
    assert {t.outcome.get("variant_success") for t in writing.trained} == {0.5, 1.0, 0.0, None}
    advantages = credit_of(writing.trained, estimator("grpo"), group_size=8)
    assert all((a[-1] > 0) == (t.outcome["variant"] == 1) for a, t in zip(advantages, writing.trained, strict=True))
    assert [rollouts.ledger.load(t.id).outcome for t in writing.trained] == [t.outcome for t in writing.trained]
    assert all("42" in t.opening[0].text and "half 0" in t.opening[0].text for t in writing.trained)


def order_of(writer: Trajectory) -> int:
    """The position in WRITTEN: episodes of a group are played in any order."""
    return WRITTEN.index(writer.turns[0].message.text)


def test_what_differs_takes_the_place_of_what_does_not_and_everything_is_counted(rollouts):
    groups = gathered(rollouts)
    trained = [group for group in groups if group.trained]
    assert [len(group.trained) for group in trained] == [8] * 4
    assert [group.differs for group in trained] == [True, True, True, False]
    assert [group.trained[0].task.tags for group in trained] == [(), ("writing",), ("variant",), ()]
    variant = trained[2].trained[0].task
    parent = TASKS["train"][0]
    writer = next(t for t in trained[1].trained if t.id == variant.origin.episode)
    assert writer.turns[0].message.text.casefold().split() == ["half", "one"]
    assert variant == replace(
        parent, id=variant.id, prompt=variant.prompt, tags=("variant",), hints=(), origin=variant.origin
    )
    assert (variant.origin.parent, writer.task.origin.parent) == (parent.id, parent.id)
    assert GatheredGroup.metrics(groups)["gather/episodes"] == 8 * (4 + 1 + 3), (
        "the set's, the writers, three that were solved"
    )
    unaided = [episode.task.id for group in groups for episode in group.unaided]
    assert Counter(unaided) == Counter({task.id: 8 for task in TASKS["train"]}), "no written task counts as the set's"
    assert {history.task.id for history in histories(e for g in groups for e in g.episodes)} == set(unaided)
    with pytest.raises(SplitLeakError, match="a training made it \\(by 'variants', from 'train0'\\)"):
        TaskSet("test/leak-v1", {"held_out": [replace(variant, split="held_out")]})


def test_nothing_is_written_without_a_place_or_without_a_parent(rollouts):
    everything_differs = TaskSet("test/halves-v1", {"train": [quiz("half", 0), quiz("half", 1)]})
    nothing_is_solved = TaskSet("test/hard-v1", {"train": [quiz("hard", 0), quiz("hard", 1)]})
    for number, task_set in enumerate([everything_differs, nothing_is_solved]):
        groups = gathered(rollouts, task_set=task_set, label=f"train-{number:06d}")
        assert GatheredGroup.metrics(groups)["gather/episodes"] == 16
        assert not of(groups, "writing")


def test_equal_words_in_a_later_step_are_played_anew_and_a_step_is_read_back_as_it_was(rollouts):
    first = gathered(rollouts)
    assert len(of(gathered(rollouts, label="train-000001"), "variant")) == 3
    assert [[t.id for t in g.trained] for g in gathered(rollouts)] == [[t.id for t in g.trained] for g in first]
    assert [[t.outcome for t in g.trained] for g in gathered(rollouts)] == [
        [t.outcome for t in g.trained] for g in first
    ]


class Refusing(Quiz):
    """Cannot be reset to tasks with one of these `words`."""

    words, error = "", TaskError

    async def reset(self, task, *, seed):
        if self.words in task.prompt:
            raise self.error(f"no {self.words!r}, please")
        return task.opening()


def test_a_writer_whose_task_could_not_be_played_has_failed(tmp_path):
    environment = type("Broken", (Refusing,), {"words": "one", "error": SandboxError})
    config = RolloutConfig(environment=environment, reward=Right())
    with Rollouts(config, ledger=Ledger(tmp_path / "ledger.sqlite")) as playing:
        (writing,) = of(gathered(playing), "writing")
        assert Counter(t.stop_reason for t in writing.episodes)[StopReason.INFRA_ERROR] == 4
        assert not any(t.outcome for t in writing.episodes if not t.valid)
        assert not writing.trained, "the others all earn 0"


@pytest.mark.parametrize(("words", "dropped", "left"), [("easy", 1, {"half one", "hard one"}), ("one", 3, set())])
def test_what_no_environment_can_be_reset_to_is_dropped_with_its_reason(tmp_path, words, dropped, left):
    lines: list[str] = []
    config = RolloutConfig(environment=type("Strict", (Refusing,), {"words": words}), reward=Right())
    with Rollouts(config, ledger=Ledger(tmp_path / "ledger.sqlite"), on_failures=lines.append) as playing:
        groups = gathered(playing)
    assert {t.task.prompt for group in of(groups, "variant") for t in group.episodes} == left
    (writing,) = of(groups, "writing")
    assert all(t.valid for t in writing.episodes), "it is no failure of the infrastructure"
    earned = {t.turns[0].message.text: t.outcome["variant"] for t in writing.episodes}
    assert {text for text, reward in earned.items() if reward} == {text for text in (WRITTEN[0], WRITTEN[3]) if left}
    assert lines[-1].startswith(f"train-000000: {dropped} of 3 written tasks are dropped, because no environment can")
    assert f"TaskError: no {words!r}, please" in lines[-1]


def test_an_environment_that_does_not_show_the_task_is_named():
    tasks = TaskSet("test/deaf-v1", {"train": [quiz("half", 0), replace(quiz("half", 1), truth="7")]})
    named = pytest.raises(CreditError, match="does not show the agent the words of its task")
    with Rollouts(RolloutConfig(environment=Deaf, reward=Right())) as playing, named:
        gathered(playing, task_set=tasks)


def test_tasks_without_words_or_truth_and_bounds_that_cross_are_refused():
    wordless = TaskSet("test/silent-v1", {"train": [replace(quiz("half", 0), prompt="")]})
    with pytest.raises(TaskError, match=r"no training task of test/silent-v1 has both words"):
        make_gatherer(play_groups, ["variants"]).read_tasks(wordless)
    with pytest.raises(CreditError, match="`low` is above `high`"):
        make_gatherer(play_groups, ["variants(low=0.9)"])


@pytest.mark.parametrize(
    ("task_set", "train", "message"),
    [
        ("text/doors-v1", {"estimator": "gigpo"}, "no state_keys. Choose another estimator"),
        ("test/lookup-v1", {"objective": "grao", "experts": {}}, "no episodes of experts. Choose another objective"),
    ],
)
def test_what_writing_tasks_lack_is_refused_before_a_run(task_set, train, message):
    data = recipe().model_dump(exclude_none=True)
    data["tasks"] = {"set": task_set}
    data["train"] |= train | {"gather": ["variants"]}
    chosen = Recipe.parse(data)
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen, chosen.tasks.load())


class CreditNotes(TrainingPart):
    """Notes the credit of the first turn of each episode."""

    def __init__(self, notes):
        self.notes = notes

    def credited(self, step, trajectories, credit):
        self.notes |= {each.id: advantages[0] for each, advantages in zip(trajectories, credit, strict=True)}
        return {}


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_a_step_trains_on_writers_and_logs_the_success_of_the_sets_tasks(rollouts, tmp_path):
    tokenizer = make_tokenizer(["what is half"] * 20, vocab_size=300)
    options = dict(per_device_train_batch_size=32, num_generations=8, max_steps=1, max_completion_length=256)
    quiet = dict(use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], disable_tqdm=True)
    gatherer = make_gatherer(play_groups, ["variants"])
    gatherer.read_tasks(TASKS)
    credited = {}
    trainer = TurnGRPOTrainer(
        make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1),
        args=GRPOConfig(str(tmp_path), dataloader_pin_memory=False, logging_steps=1, **options, **quiet),
        tasks=TASKS["train"],
        policy=Student(),
        rollouts=rollouts,
        estimator=estimator("grpo"),
        gather=gatherer,
        processing_class=tokenizer,
        parts=[CreditNotes(credited)],
    )
    trainer.train()
    by_kind = Counter(name.split("/")[0] for name, advantage in credited.items() if advantage)
    assert by_kind == {"train-000000": 8, "train-000000-writing": 8, "train-000000-variants": 8}
    (row,) = [row for row in trainer.state.log_history if "gather/episodes" in row]
    assert row["success"] == 4 / 32
    assert row["gather/useful"] == 3 / 4
