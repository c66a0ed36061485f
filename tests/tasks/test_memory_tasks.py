"""`memory/people-v1` and `memory/short-v1`: what is held out, and how scripted players score."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.methods.credit.counterfactual import leave_one_out_values
from agentgym.tasks.memory.words import ATTRIBUTES, NEW_ATTRIBUTES, NEW_NAMES


@pytest.fixture(scope="module")
def task_set():
    return load_task_set("memory/people-v1")


@pytest.fixture(scope="module")
def sample(task_set):
    return random.Random(0).sample([task for tasks in task_set.values() for task in tasks], 500)


async def play(tasks, player):
    return await EpisodeManager(lambda task: ScriptedPolicy(player(task)), RolloutConfig()).collect(tasks)


def success(trajectories) -> float:
    return sum(trajectory.success for trajectory in trajectories) / len(trajectories)


def call(name, **arguments):
    return Message("assistant", "", (Call(name, arguments, name),))


def test_what_is_held_out_is_in_no_training_task(task_set):
    trained = " ".join(text for task in task_set["train"] for text in task.parameters["sessions"])
    for name in NEW_NAMES:
        assert name not in trained
    questions = " ".join(task.parameters["question"] for task in task_set["train"])
    assert not any(word in questions for word in NEW_ATTRIBUTES)
    by_stratum = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    assert by_stratum == {"unseen_people": 480, "unseen_attributes": 120, "unseen_compositions": 150}
    assert set(Counter(task.tags[0] for task in task_set["train"]).values()) == {1000}


async def test_the_oracle_answers_all_and_reads_the_question_only_at_the_end(task_set, sample):
    solved = await play(sample, task_set.oracle)
    assert success(solved) == 1.0
    for trajectory in solved:
        *managers, answerer = trajectory.rows()
        question = trajectory.task.parameters["question"]
        assert len(managers) == len(trajectory.task.parameters["sessions"])
        assert {turn.role for row in managers for turn in row.turns} == {"manager"}
        assert {turn.role for turn in answerer.turns} == {"answerer"}
        assert question in answerer.opening[0].text
        read_before = [message.text for row in managers for message in row.messages() if message.role != "tool"]
        assert not any(question in text for text in read_before)
        assert answerer.turns[0].potential == 1.0
        answer, *searches = trajectory.task.truth["answer"], *answerer.turns[:-1]
        assert all(answer not in turn.calls[0].arguments["query"].split() for turn in searches)
        assert answer in str(searches[-1].results[0].content)


def test_notes_are_taken_in_the_order_in_which_things_are_said(task_set):
    """Values that are in two lines of a session aside, and counts, of which the session says the change alone."""
    compared = 0
    for task in task_set["train"][:200]:
        for session, notes in zip(task.parameters["sessions"], json.loads(task.truth["notes"]), strict=True):
            lines = session.splitlines()
            values = [text.rpartition(" ")[2] for _, text in notes]
            rows = [[n for n, line in enumerate(lines) if value in line] for value in values]
            known = [numbers[0] for numbers in rows if len(numbers) == 1]
            assert known == sorted(known)
            compared += len(known) > 1
    assert compared > 50


async def test_who_notes_nothing_or_answers_by_chance_answers_next_to_nothing(task_set, sample):
    answers: dict[str, list[str]] = {}
    for task in task_set["train"]:
        answers.setdefault(task.parameters["question"][:12], []).append(task.truth["answer"])

    def skipping(task):
        return [call("end_session") for _ in task.parameters["sessions"]]

    def empty_handed(task):
        return [*skipping(task), call("search", query="x"), call("answer", text="I do not know")]

    def guessing(task):
        similar = answers.get(task.parameters["question"][:12], ["flute"])
        return [*skipping(task), call("answer", text=random.Random(task.id).choice(similar))]

    assert success(await play(sample[:150], empty_handed)) == 0
    assert success(await play(sample[:150], lambda task: lambda messages: Message("assistant", ""))) == 0
    assert success(await play(sample, guessing)) < 0.2


async def test_the_imperfect_oracle_answers_about_half(task_set, sample):
    assert 0.4 < success(await play(sample, task_set.imperfect_oracle)) < 0.7


async def test_the_note_that_the_answer_needs_has_the_credit(task_set):
    """Of a reader who answers what it finds, and of all notes but one each."""
    task = next(task for task in task_set["train"] if task.tags[0] == "fact" and task.truth["notes"].count("[") > 5)
    moves, answer = task_set.oracle(task), task.truth["answer"]
    notes = [number for number, move in enumerate(moves) if move.calls[0].name == "add"]

    def reader(included):
        script = iter(
            move for number, move in enumerate(moves) if number not in notes or notes.index(number) in included
        )

        def act(messages):
            move = next(script)
            if move.calls[0].name == "answer" and answer not in messages[-1].text:
                return call("answer", text="I do not know")
            return move

        return act

    subsets = [frozenset(range(len(notes)))] + [frozenset(range(len(notes))) - {k} for k in range(len(notes))]
    values = {}
    for included in subsets:
        (trajectory,) = await play([task], lambda _, included=included: reader(included))
        values[included] = trajectory.success
    credit = leave_one_out_values(values.__getitem__, len(notes))
    holds = [answer in moves[number].calls[0].arguments["text"] for number in notes]
    assert len(notes) >= 3
    assert credit.tolist() == [float(each) for each in holds]


@pytest.fixture(scope="module")
def short():
    return load_task_set("memory/short-v1")


def test_what_a_held_out_answer_says_of_a_person_is_in_no_training_task(short):
    """Training knows the person and the value, and never says the one of the other."""
    facts = {split: {fact for task in tasks for fact in facts_of(task)} for split, tasks in short.items()}
    answers = {tuple(task.truth["answer"].split()) for task in short["held_out"]}
    assert all("unseen_pairs" in task.tags for task in short["held_out"])
    assert not answers & (facts["train"] | facts["validation"])
    assert {name for name, _, _ in answers} <= {name for name, _, _ in facts["train"]}
    assert {value for *_, value in answers} <= {value for *_, value in facts["train"]}
    assert Counter(len(task.parameters["sessions"]) for task in short["train"]) == {1: 1500, 2: 1500, 3: 1500}


def facts_of(task):
    facts = json.loads(task.truth["facts"])
    return [(name, what, value) for name, values in facts.items() for what, value in values.items()]


async def test_short_sessions_say_what_is_noted_and_scripted_players_score_as_their_card_says(short):
    sample = random.Random(0).sample([task for tasks in short.values() for task in tasks], 200)
    for task in sample:
        lines = [line for session in task.parameters["sessions"] for line in session.splitlines()]
        for name, what, value in facts_of(task):
            assert f"{name}: {ATTRIBUTES[what].first.format(value=value)}" in lines
    solved = await play(sample, short.oracle)
    assert success(solved) == 1.0
    for trajectory in solved:
        (search,) = trajectory.rows()[-1].turns[:-1]
        name, what, value = trajectory.task.truth["answer"].split()
        assert search.calls[0].arguments == {"query": f"{what} {name}"}
        assert str(search.results[0].content).startswith(f"{name} ")
        assert search.potential == 1.0
    assert 0.4 < success(await play(sample, short.imperfect_oracle)) < 0.6

    def guessing(task):
        name, what, _ = task.truth["answer"].split()
        value = random.Random(task.id).choice(ATTRIBUTES[what].values)
        ends = [call("end_session") for _ in task.parameters["sessions"]]
        return [*ends, call("search", query=name), call("answer", text=f"{name} {what} {value}")]

    assert success(await play(sample, guessing)) < 0.2
