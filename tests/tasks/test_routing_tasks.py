"""`routing/experts-v1`: who is offered, what asking costs, and which policy is best at which price."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.errors import PolicyError, TaskError
from agentgym.rewards.routed_answer import RoutedAnswer
from agentgym.sandboxes.experts.environment import AskExperts
from agentgym.sandboxes.experts.knowledge import FIELDS, SKILLS, question_in
from agentgym.sandboxes.experts.models import EXPERTS, UNKNOWN, expert_pool

DEAR = {expert.name for expert in EXPERTS.values() if expert.price == 8}


@pytest.fixture(scope="module")
def task_set():
    return load_task_set("routing/experts-v1")


@pytest.fixture(scope="module")
def sample(task_set):
    return random.Random(0).sample([task for tasks in task_set.values() for task in tasks], 500)


async def play(tasks, player, **options):
    config = RolloutConfig(**options)
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), config).collect(tasks)


def success(trajectories) -> float:
    return sum(trajectory.success for trajectory in trajectories) / len(trajectories)


def calls(*named):
    return [Message("assistant", "", (Call(name, arguments, f"c{n}"),)) for n, (name, arguments) in enumerate(named)]


def asking(task, name):
    """Ask a model in the words of the task, and repeat what it says."""
    question = {"model": letter_of(task, name), "question": task.prompt}
    return calls(("route", question), ("answer", {"text": EXPERTS[name].answer(task.prompt)}))


def letter_of(task, name):
    """What a model is called in a task."""
    return "ABCDE"[task.parameters["models"].index(name)]


def test_unseen_models_and_subjects_are_in_no_training_task(task_set):
    unseen = {name for name, expert in EXPERTS.items() if expert.unseen}
    offered = {name for task in task_set["train"] for name in task.parameters["models"]}
    assert offered == EXPERTS.keys() - unseen
    strata = {
        tag: [task for task in task_set["held_out"] if tag in task.tags]
        for tag in ("unseen_models", "unseen_questions")
    }
    assert {name: len(tasks) for name, tasks in strata.items()} == {"unseen_models": 300, "unseen_questions": 300}
    assert {name for task in strata["unseen_models"] for name in task.parameters["models"]} == unseen
    trained = {task.prompt for task in task_set["train"]}
    assert not trained & {task.prompt for task in strata["unseen_questions"]}
    pairs = {expert.skills for expert in EXPERTS.values() if len(expert.skills) == 2}
    known = {expert.skills for expert in EXPERTS.values() if not expert.unseen}
    assert len(pairs - known) == 4, "combinations of fields that no model of training has"


def test_each_kind_of_task_has_as_many_experts_as_it_says(task_set):
    counts = {"easy": {5}, "one_expert": {1}, "several_experts": {2, 3}, "no_expert": {0}}
    for task in [task for tasks in task_set.values() for task in tasks]:
        kind, field = task.tags[:2]
        right = [
            name for name in task.parameters["models"] if EXPERTS[name].answer(task.prompt) == task.truth["answer"]
        ]
        cheap = [name for name in right if name not in DEAR or kind == "easy"]
        assert len(cheap) in counts[kind], task.id
        assert len(task.parameters["models"]) == 5
        assert question_in(task.prompt)[0] == field
        assert kind == "easy" or sum(name in DEAR for name in right) == 1
    assert set(Counter(task.tags[0] for task in task_set["train"]).values()) == {1000}


async def test_the_oracle_is_always_right_and_pays_the_least_that_can_be(task_set, sample):
    solved = await play(sample, task_set.oracle)
    assert success(solved) == 1.0
    for trajectory in solved:
        task = trajectory.task
        prices = [
            EXPERTS[name].price
            for name in task.parameters["models"]
            if EXPERTS[name].answer(task.prompt) == task.truth["answer"]
        ]
        least = 0 if "easy" in task.tags else min(prices)
        assert trajectory.usage().get("cost", 0) == least
        assert len(trajectory.turns) == (1 if "easy" in task.tags else 2)


async def test_costs_are_those_of_the_price_list_exactly(sample):
    """Each model of a task is asked once, all in one message."""

    def everybody(task):
        questions = [Call("route", {"model": letter}, letter) for letter in "ABCDE"]
        return [Message("assistant", "", tuple(questions)), *calls(("answer", {"text": "x"}))]

    for trajectory in await play(sample[:50], everybody):
        experts = [EXPERTS[name] for name in trajectory.task.parameters["models"]]
        total = sum(expert.price for expert in experts)
        assert trajectory.turns[0].usage["cost"] == total
        assert trajectory.outcome["spent_cost"] == -min(1.0, total / 10)
        lines = [f"{letter} ({each.price} a call: {each.note})" for letter, each in zip("ABCDE", experts, strict=True)]
        assert trajectory.messages()[0].text == "\n".join([trajectory.task.prompt, *lines])
        assert "; ".join(lines) in trajectory.tools[0]["function"]["description"]
        answers = [result.content for result in trajectory.turns[0].results]
        assert answers == [expert.answer(trajectory.task.prompt) for expert in experts]


async def test_who_asks_nobody_or_anybody_fails(task_set, sample):
    assert success(await play(sample[:60], lambda task: lambda messages: Message("assistant", ""))) == 0
    guesses = [task.truth["answer"] for task in task_set["train"]]
    hard = [task for task in sample if "easy" not in task.tags]

    def guessing(task):
        return calls(("answer", {"text": random.Random(task.id).choice(guesses)}))

    def copying(task):
        return calls(("answer", {"text": task.prompt}))

    assert success(await play(sample, guessing)) < 0.03
    assert success(await play(sample[:150], copying)) == 0
    any_model = success(
        await play(hard, lambda task: asking(task, random.Random(task.id).choice(task.parameters["models"])))
    )
    assert 0.3 < any_model < 0.5
    assert 0.4 < success(await play(sample, task_set.imperfect_oracle)) < 0.65


@pytest.mark.thorough
async def test_at_no_price_the_dear_model_is_best_and_at_any_price_it_is_best_to_ask_nobody(task_set, sample):
    def nobody(task):
        easy = "easy" in task.tags
        return calls(("answer", {"text": task.truth["answer"] if easy else "x"}))

    players = {
        "nobody": nobody,
        "oracle": task_set.oracle,
        "dear": lambda task: asking(task, next(name for name in task.parameters["models"] if name in DEAR)),
    }
    trajectories = {name: await play(sample, player) for name, player in players.items()}

    def worth(name, weight):
        total = 0.0
        for trajectory in trajectories[name]:
            weights = RoutedAnswer(weight=weight).weights_for(trajectory)
            total += sum(weights.get(part, 1.0) * value for part, value in trajectory.outcome.items())
        return total / len(trajectories[name])

    assert worth("dear", 0) == worth("oracle", 0) == 1.0
    for weight in (0.1, 0.5, 1.0):
        assert worth("oracle", weight) > max(worth("dear", weight), worth("nobody", weight))
    assert worth("nobody", 1e6) > 0.2 > 0 > worth("oracle", 1e6) > worth("dear", 1e6)


def test_a_model_is_right_in_its_fields_and_plausibly_wrong_in_the_others():
    rng = random.Random(0)
    for expert in EXPERTS.values():
        for name, field in FIELDS.items():
            question = field.ask(rng, rng.choice(field.subjects))
            right = field.answer(question_in(question)[1])
            answer = expert.answer(f"Tell me, what is {question}?")
            assert answer == expert.answer(question)
            assert (answer == right) == (name in expert.skills or name not in SKILLS)
            assert answer.isdigit() == right.isdigit()
            assert len(answer) == len(right) or name == "capitals"
        assert expert.answer("Who are you?") == expert.answer("capital of Atlantis") == UNKNOWN


async def test_a_model_that_fails_is_nobodys_mistake(sample):
    class Down(agentgym.Policy):
        async def generate(self, request):
            raise PolicyError("the server is down")

    pool = expert_pool()
    pool.policies = dict.fromkeys(pool.policies, Down())
    task = next(task for task in sample if "one_expert" in task.tags)
    player = lambda task: asking(task, task.parameters["models"][0])  # noqa: E731
    (failed,) = await play([task], player, environment=lambda: AskExperts(pool))
    assert not failed.valid
    assert "the server is down" in failed.error


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (None, "of experts-v1 must name 1 to 26 models"),
        ([], "of experts-v1 must name 1 to 26 models"),
        ([1], "of experts-v1 must name 1 to 26 models"),
        (["nobody"], "model 'nobody' is unknown, or it is unseen and may not be used in a task of train"),
        (
            [next(name for name, expert in EXPERTS.items() if expert.unseen)],
            "unseen and may not be used in a task of train",
        ),
    ],
)
async def test_a_task_that_cannot_be_is_refused_by_name(task_set, models, words):
    task = replace(task_set["train"][0], parameters={"models": models})
    with pytest.raises(TaskError, match=words):
        await agentgym.make(task.environment).reset(task, seed=0)


def test_a_reward_that_pays_for_costs_is_refused():
    with pytest.raises(ValueError, match="give at least 0"):
        RoutedAnswer(weight=-1)
