"""A population of instructions: which are drawn, which give way, who writes new ones, and what is measured with."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from right_answers import Right
from staged_runs import pressing, run

from agentgym import Environment, Message, Policy, RolloutConfig, Task, tool
from agentgym.errors import CreditError
from agentgym.messages import Call
from agentgym.methods.supply.instructions import Instructions
from agentgym.policy import Reply
from agentgym.registry import register
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer
from agentgym.training import Rollouts
from agentgym.training.gatherers import StepRequest, make_gatherer, play_groups

POPULATION = ["Be wrong.", "Be right at times."]
TASKS = [Task(f"t{index}", "test/quiz-v1", f"question {index}", truth="42") for index in range(8)]


class Quiz(Environment):
    """Questions."""

    @tool(final=True, inline=True)
    def say(self, answer: str) -> str:
        """Say the answer."""
        return "Heard."


class Obedient(Policy):
    """Does what the instruction says, and writes what it is told to."""

    name, renderer = "obedient", ByteRenderer()

    def __init__(self, written=("Be right.",)) -> None:
        self.written, self.requests, self.times = list(written), [], 0

    async def generate(self, request):
        system = request.messages[0].text if request.messages[0].role == "system" else ""
        if not system:
            self.requests.append(request.messages[0].text)
            message = Message("assistant", self.written[(len(self.requests) - 1) % len(self.written)])
        else:
            self.times += 1
            knows = system == "Be right." or ("at times" in system and self.times % 2)
            message = Message("assistant", "", (Call("say", {"answer": "42" if knows else "?"}),))
        ids = self.renderer.encode(message)
        return Reply(message, ids, [-0.5] * len(ids))


class Knowing(Policy):
    """Is right."""

    name, renderer = "knowing", ByteRenderer()

    async def generate(self, request):
        message = Message("assistant", "", (Call("say", {"answer": "42"}),))
        ids = self.renderer.encode(message)
        return Reply(message, ids, [-0.5] * len(ids))


class Judge(Right):
    """Says what it thinks, too."""

    def feedback(self, episode):
        return "No."


class Writer(Obedient):
    """Writes, as a registered policy."""


register("test_writer", Writer, kind="policies")


@pytest.fixture
def rollouts(tmp_path):
    config = RolloutConfig(environment=Quiz, reward=Judge(), instruction="Be anything.")
    with Rollouts(config, ledger=Ledger(tmp_path / "l.sqlite")) as playing:
        yield playing


def gathering(**options) -> Instructions:
    text = ", ".join(f"{name}={value!r}" for name, value in ({"population": POPULATION} | options).items())
    gatherer = make_gatherer(play_groups, [f"instructions({text})"])
    (wrapper,) = gatherer.wrappers
    return wrapper


def step(rollouts, number: int, policy: Policy | None = None, label: str = "", **options) -> StepRequest:
    return StepRequest(rollouts, policy or Obedient(), TASKS, label or f"train-{number:06d}", 4, **options)


def drawn(groups) -> Counter:
    return Counter(group.trained[0].provenance.instruction for group in groups if group.trained)


def test_a_group_has_one_instruction_in_place_of_the_runs_and_the_record_has_it(rollouts):
    groups = gathering()(step(rollouts, 0))
    assert sorted(group.trained[0].task.id for group in groups) == [task.id for task in TASKS]
    assert set(drawn(groups)) == set(POPULATION)
    for group in groups:
        assert len({episode.provenance.instruction for episode in group.trained}) == 1
        for episode in group.trained:
            assert [m.text for m in episode.opening] == [episode.provenance.instruction, episode.task.prompt]
            assert rollouts.ledger.load(episode.id).provenance.instruction == episode.provenance.instruction
        assert len(group.unaided) == 4, "an instruction is no help"
    assert rollouts.config.instruction == "Be anything."


def test_what_succeeds_is_drawn_more_often_and_one_that_was_never_played_counts_as_the_best(rollouts):
    wrapper = gathering(every=100)
    for number in range(4):
        groups = wrapper(step(rollouts, number))
    assert [round(own.success, 2) for own in wrapper.population] == [0.0, 0.5]
    assert sum(own.groups for own in wrapper.population) == 4 * 8
    weights = wrapper._weights()
    assert weights[0] / weights[1] == pytest.approx(0.0067, abs=1e-4), "exp(-0.5 / 0.1)"
    assert drawn(groups)["Be right at times."] == 8
    assert wrapper.best_instruction == "Be right at times."
    wrapper.population[0].success = None
    assert wrapper._weights() == [1.0, 1.0]


def test_the_worst_gives_way_to_what_the_policy_writes_and_that_is_tried_first(rollouts):
    policy, wrapper = Obedient(), gathering(every=2)
    first = wrapper(step(rollouts, 0, policy))
    second = wrapper(step(rollouts, 1, policy))
    assert [own.text for own in wrapper.population] == ["Be right.", "Be right at times."]
    assert [(own.number, own.text) for own in wrapper.former] == [(0, "Be wrong.")]
    assert (wrapper.population[0].number, wrapper.population[0].groups) == (2, 0)
    (request,) = policy.requests
    for words in ("Be wrong.", "in 0% of its tasks", "Task: question", "say(answer='?')", "in 50%", "at times"):
        assert words in request
    writing = second[-1]
    assert (writing.trained, len(writing.episodes), writing.unaided) == ([], 1, [])
    assert "Be right." in drawn(wrapper(step(rollouts, 2, policy)))
    assert wrapper.best_instruction == "Be right."
    assert not any(group.episodes[0].task.is_of_one_step for group in first)


@pytest.mark.parametrize("written", ["", "Be wrong.", "Be right at times.", "x" * 5000])
def test_what_is_no_new_instruction_changes_nothing(rollouts, written):
    wrapper = gathering(every=1)
    wrapper(step(rollouts, 0, Obedient([written])))
    assert [own.text for own in wrapper.population] == POPULATION
    assert wrapper.former == []


def test_a_registered_policy_may_write(rollouts):
    policy, wrapper = Obedient(), gathering(every=1, writer="test_writer", options={"written": ["Be right."]})
    wrapper(step(rollouts, 0, policy))
    assert policy.requests == []
    assert wrapper.population[0].text == "Be right."


def test_a_resumed_population_draws_and_learns_as_an_unbroken_one(rollouts):
    unbroken, before = gathering(every=2), gathering(every=2)
    for number in range(3):
        unbroken(step(rollouts, number))
        before(step(rollouts, number))
    resumed = gathering(every=2)
    resumed.load(json.loads(json.dumps(before.state())))
    groups = [wrapper(step(rollouts, 3)) for wrapper in (unbroken, resumed)]
    assert drawn(groups[0]) == drawn(groups[1])
    assert resumed.state() == unbroken.state()


def test_wrappers_within_draw_other_tasks_for_each_instruction(rollouts):
    draws = []

    def more_tasks(count: int, further: int):
        draws.append(further)
        return TASKS[:count]

    gatherer = make_gatherer(play_groups, ["dynamic(max_rounds=3)", f"instructions(population={POPULATION!r})"])
    gatherer(step(rollouts, 0, more_tasks=more_tasks))
    assert len(draws) >= 2
    assert len(set(draws)) == len(draws)


def test_an_instruction_is_judged_only_by_what_was_played_with_it(rollouts):
    """Some groups begin within records of before, which have the prompt of their record."""
    before = play_groups(step(rollouts, 0, Knowing(), label="shown"))
    assert {episode.provenance.instruction for group in before for episode in group.trained} == {"Be anything."}
    gatherer = make_gatherer(
        play_groups, ["starts(label='shown', share=1.0)", f"instructions(population={POPULATION!r})"]
    )
    groups = gatherer(step(rollouts, 9))
    assert all(group.untrained_turns for group in groups)
    assert [own.groups for own in gatherer.wrappers[1].population] == [0, 0]


def test_refinements_have_the_instruction_of_their_group(rollouts):
    gatherer = make_gatherer(play_groups, ["refined", f"instructions(population={POPULATION!r})"])
    groups = gatherer(step(rollouts, 0))
    refined = [t for group in groups for t in group.episodes if t.provenance.assistance is not None]
    assert {t.provenance.instruction for t in refined} == set(POPULATION)


@pytest.mark.parametrize("population", [[], ["Be right."], ["a", "a "], ["a", " "]])
def test_a_population_without_a_choice_is_refused(population):
    with pytest.raises(CreditError, match="give at least two different texts"):
        gathering(population=population)


def test_options_that_a_writer_does_not_take_are_refused():
    with pytest.raises(CreditError, match="does not accept these options"):
        gathering(writer="test_writer", options={"pen": "blue"})


def test_a_run_measures_with_the_best_and_later_stages_play_with_it(tmp_path):
    play = {"steps": 2, "tasks_per_step": 4, "group_size": 2, "estimator": "grpo", "save_every": 1}
    stages = [
        {"kind": "evaluate", "name": "before"},
        {"kind": "reinforce", "options": play | {"gather": [f"instructions(population={POPULATION!r}, every=1)"]}},
        {"kind": "evaluate", "name": "after"},
    ]
    output = run(pressing(*stages), tmp_path / "run")
    stage = tmp_path / "run" / "stages" / "train"
    best = json.loads((stage / "instructions.json").read_text())["best"]
    assert best in POPULATION
    assert f"later stages play with the best instruction, {best!r}" in output
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    used = {
        label: {t.provenance.instruction for t in ledger.trajectories(label)}
        for label in ("held-out-before", "held-out-after", "train-")
    }
    ledger.close()
    assert used == {"held-out-before": {None}, "held-out-after": {best}, "train-": {*POPULATION, None}}
    state = json.loads((stage / "checkpoints" / "checkpoint-2" / "gatherers.json").read_text())
    assert state[0]["steps"] == 2
