"""Hints, scaffolds, guides and refinements: what helps in training, is recorded, and enters no measurement."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym import Environment, Policy, Reward, RolloutConfig, ScriptedPolicy, Task, TaskSet, Trajectory, tool
from agentgym.credit import credit_of, estimator
from agentgym.errors import CreditError, EvaluationError, HeldOutError, TaskError
from agentgym.evaluation.runner import row_of
from agentgym.messages import Call, Message
from agentgym.methods.supply.guided import hint_of
from agentgym.methods.supply.guided_policy import GuidedPolicy
from agentgym.policy import Reply
from agentgym.registry import load_reward
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer
from agentgym.training import Rollouts
from agentgym.training.gatherers import GatheredGroup, StepRequest, make_gatherer, play_groups
from agentgym.training.loss.grpo_batches import trl_rows
from agentgym.trajectory import PromptAddition

DIGITS = 20


def lock(index: int, split: str = "train") -> Task:
    """A lock of twenty binary digits, opened by all of them at once; its hints are its digits."""
    code = "".join(random.Random(f"{split}{index}").choice("01") for _ in range(DIGITS))
    return Task(f"{split}{index}", "test/lock-v1", f"Lock {split}{index}.", truth=code, hints=tuple(code), split=split)


LOCKS = [lock(index) for index in range(8)]


class Lock(Environment):
    """A lock. It keeps a book of the tasks it was given."""

    tasks: list[Task] = []

    async def reset(self, task, *, seed):
        self.tasks.append(task)
        return task.opening()

    @tool(final=True, inline=True)
    def enter(self, code: str) -> str:
        """Enter all digits."""
        return "Click."


class Opened(Reward):
    """1 where the code is right. Its feedback is the code."""

    def outcome(self, episode):
        return {"success": float(code_of(episode) == episode.task.truth)}

    def feedback(self, episode):
        return f"The code is {episode.task.truth}."


def code_of(episode: Trajectory) -> str:
    return str(episode.turns[-1].calls[0].arguments["code"])


class Guesser(Policy):
    """Enters the digits that the prompt shows, and guesses the others."""

    name, renderer = "guesser", ByteRenderer()

    async def generate(self, request):
        _, _, hint = request.messages[0].text.rpartition("Hint:\n")
        digits = "".join(d for d in hint if d in "01") if hint != request.messages[0].text else ""
        if "The code is " in request.messages[0].text:
            digits = request.messages[0].text.partition("The code is ")[2][:DIGITS]
        draws = random.Random(request.sampling.seed)
        code = digits + "".join(draws.choice("01") for _ in range(DIGITS - len(digits)))
        message = Message("assistant", "", (Call("enter", {"code": code}),))
        ids = self.renderer.encode(message)
        return Reply(message, ids, [-0.5] * len(ids))


@pytest.fixture
def rollouts(tmp_path):
    config = RolloutConfig(environment=Lock, reward=Opened())
    with Rollouts(config, ledger=Ledger(tmp_path / "ledger.sqlite")) as playing:
        yield playing


def step(rollouts, tasks=LOCKS, group_size: int = 16, label: str = "train-000000", **options) -> StepRequest:
    return StepRequest(rollouts, Guesser(), list(tasks), label, group_size, **options)


def shares(group: GatheredGroup) -> list[float]:
    return [0.0 if t.provenance.assistance is None else t.provenance.assistance.share for t in group.trained]


def test_a_lock_that_nobody_guesses_has_a_gradient_with_three_quarters_of_its_digits(rollouts):
    plain = play_groups(step(rollouts, label="train-000001"))
    assert GatheredGroup.metrics(plain)["gather/useful"] == 0.0
    groups = make_gatherer(play_groups, ["guided"])(step(rollouts))
    metrics = GatheredGroup.metrics(groups)
    assert metrics["gather/useful"] > 0.0
    assert metrics["gather/assisted"] == 16 * sum(group.differs for group in groups)
    assert metrics["gather/episodes"] == 8 * 16 * 4, "without a hint, and with each of three"
    for group in groups:
        assert set(shares(group)) == ({0.75} if group.differs else {0.0})
        assert len(group.unaided) == 16
        assert not any(episode.success for episode in group.unaided)
        for episode in group.trained:
            hint = "\n\nHint:\n" + "\n".join(episode.task.truth[:15])
            assert episode.opening[0].text == episode.task.prompt + (hint if group.differs else "")
            assert list(episode.prompt_ids) == ByteRenderer().prompt(episode.opening, [])
    assert all(task.truth is None and task.hints == () for task in Lock.tasks), "no environment sees a hint as data"


def test_a_group_that_fails_whole_is_played_again_with_what_its_reward_says(rollouts):
    groups = make_gatherer(play_groups, ["guided(source='feedback')"])(step(rollouts, LOCKS[:3], 4))
    for group in groups:
        assert [t.success for t in group.trained] == [1.0] * 4, "the feedback is the code"
        assert not any(t.success for t in group.unaided)
        assert len(group.unaided) == len(group.left_out) == 4
        for episode in group.trained:
            assert episode.provenance.assistance.kind == "feedback"
            assert episode.opening[0].text.endswith(f"Hint:\nThe code is {episode.task.truth}.")


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("strip", [False, True])
def test_a_test_that_fails_guides_a_group_of_the_code_environment(strip):
    """The player squares only where it reads that 3 is to become 9; without it, it doubles, which is right for 2."""
    tests = ["assert f(2) == 4", "assert f(3) == 9"]
    task = Task("square", "agentgym/code-v1", "Write f.", truth={"tests": tests})

    def write(messages):
        guided = any("\n\nHint:\nThis test fails: assert f(3) == 9" in message.text for message in messages)
        body = "x * x" if guided else "x + x"
        return Message("assistant", "", (Call("submit", {"code": f"def f(x): return {body}"}),))

    gather = make_gatherer(play_groups, [f"guided(source='feedback', strip={strip})"])
    with Rollouts(RolloutConfig()) as playing:
        (group,) = gather(StepRequest(playing, ScriptedPolicy(write, ByteRenderer()), [task], "train-000000", 2))
    assert [t.success for t in group.trained] == [1.0, 1.0]
    assert [t.success for t in group.left_out] == [0.0, 0.0]
    assert [t.help_removed for t in group.trained] == [strip, strip]


def test_a_share_of_nothing_is_as_no_gatherer(rollouts):
    plain = play_groups(step(rollouts, LOCKS[:2], 4))
    nothing = make_gatherer(play_groups, ["guided(most=0.0)"])(step(rollouts, LOCKS[:2], 4))
    assert [group.trained for group in nothing] == [group.trained for group in plain]
    assert not any(group.left_out for group in nothing)


class Drawn(Reward):
    """An episode succeeds as a seed and its id draw."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def outcome(self, episode):
        return {"success": float(random.Random(f"{self.seed}{episode.id}").random() < 0.1)}


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 4))
def test_advantages_compare_only_episodes_that_were_shown_the_same(seed, group_size, steps):
    with Rollouts(RolloutConfig(environment=Lock, reward=Drawn(seed))) as rollouts:
        request = step(rollouts, [*LOCKS, *LOCKS[:2]], group_size)
        groups = make_gatherer(play_groups, [f"guided(steps={steps})"])(request)
    assert [group.trained[0].task for group in groups] == [*LOCKS, *LOCKS[:2]]
    for group in groups:
        assert len(group.trained) == group_size
        assert len(set(shares(group))) == 1
        (baseline,) = {round(t.success - a[0], 9) for t, a in zip(group.trained, credit(group), strict=True)}
        assert baseline == pytest.approx(np.mean([t.success for t in group.trained]))


def credit(group: GatheredGroup) -> list[np.ndarray]:
    return credit_of(group.trained, estimator("dr_grpo"), group_size=len(group.trained))


def test_the_hint_can_be_taken_out_of_the_prompt_that_is_trained_on(rollouts):
    for group in make_gatherer(play_groups, ["guided(strip=True)"])(step(rollouts)):
        for episode in group.trained:
            assert episode.opening[0].text == episode.task.prompt
            assert list(episode.prompt_ids) == ByteRenderer().prompt(episode.task.opening(), [])
            assert episode.help_removed == group.differs
            recorded = rollouts.ledger.load(episode.id)
            assert not recorded.help_removed
            assert ("Hint:" in recorded.opening[0].text) == group.differs


def test_no_measurement_takes_an_episode_with_help(rollouts):
    with pytest.raises(HeldOutError, match=r"'validation0' is a task of the split 'validation'.* with a hint"):
        rollouts.play(
            Guesser(),
            [lock(0, "validation")],
            label="x",
            group_size=1,
            assistance=[PromptAddition.training_help("hint", "1")],
        )
    groups = make_gatherer(play_groups, ["guided"])(step(rollouts))
    helped = next(group for group in groups if group.differs)
    with pytest.raises(EvaluationError, match="was played with a hint"):
        row_of(helped.trained)
    reloaded = rollouts.ledger.load(helped.trained[0].id)
    assert reloaded == helped.trained[0]
    assert reloaded.provenance.assistance.share == 0.75


def test_hints_are_a_part_of_the_truth():
    row = LOCKS[0].to_json()
    assert row["hints"] == list(LOCKS[0].truth)
    assert Task.from_json(row) == LOCKS[0]
    assert LOCKS[0].public().hints == ()
    assert "hints" not in replace(LOCKS[0], hints=()).to_json(), "fingerprints of sets without hints stay"
    with pytest.raises(TaskError, match="the field 'hints' is 'left', which has the wrong type"):
        Task.from_json({**row, "hints": "left"})


@pytest.mark.parametrize(
    ("task", "gather", "message"),
    [
        (replace(LOCKS[0], hints=()), "guided", "no training task of test/locks-v1 has hints"),
        (replace(LOCKS[0], truth=None), "guided", "'train0' of test/locks-v1 has hints, but no truth"),
        (
            replace(LOCKS[0], hints=()),
            "scaffolded",
            r"no training task of test/locks-v1 has truth\['rubric'\] or hints",
        ),
        (LOCKS[0], "guide", "test/locks-v1 has no oracle"),
    ],
)
def test_a_task_set_that_cannot_help_is_named(task, gather, message):
    with pytest.raises(TaskError, match=message):
        make_gatherer(play_groups, [gather]).read_tasks(TaskSet("test/locks-v1", {"train": [task]}))


@pytest.mark.parametrize(("split", "text"), [("train", "0\n1"), ("validation", ""), ("held_out", "")])
def test_the_worked_solution_of_a_task_that_is_measured_is_no_feedback(split, text):
    task = replace(lock(0, split), hints=("0", "1"))
    assert load_reward("worked_solution").feedback(Trajectory("t", task)) == text


def test_of_a_single_hint_its_words_are_shown():
    task = Task("t", "test/lock-v1", "?", truth=1, hints=("Turn left at the old mill.",))
    assert [hint_of(task, share) for share in (0.0, 0.25, 0.5)] == ["", "Hint:\nTurn left", "Hint:\nTurn left at"]


def test_a_scaffold_fades_over_the_group_and_over_the_training(rollouts):
    gather = make_gatherer(play_groups, ["scaffolded(slope=1000.0)"])
    (early,) = gather(step(rollouts, LOCKS[:1], 5, progress=0.0))
    assert shares(early) == [1.0, 0.75, 0.5, 0.25, 0.0]
    (half,) = gather(step(rollouts, LOCKS[:1], 5, label="train-000001", progress=0.5))
    assert shares(half) == [0.5, 0.4, 0.25, 0.1, 0.0]  # of 20 lines 10, 8 (7.5), 5, 2 (2.5), 0
    (late,) = gather(step(rollouts, LOCKS[:1], 5, label="train-000002", progress=1.0))
    assert shares(late) == [0.0] * 5
    rubric = replace(LOCKS[0], truth={"rubric": [{"criterion": "It is short.", "points": 1}]}, hints=())
    (group,) = gather(step(rollouts, [rubric], 2, label="train-000003"))
    assert group.trained[0].opening[0].text.endswith("A good answer meets these criteria:\n- It is short.")
    assert len(group.unaided) == 1


def test_the_best_refinements_join_their_group_and_are_trained_on_without_the_critique(rollouts):
    groups = make_gatherer(play_groups, ["refined(best=2)"])(step(rollouts, LOCKS[:2], 4))
    for group in groups:
        assert [t.success for t in group.trained] == [1.0, 1.0, 0.0, 0.0]
        assert len(group.left_out) == 4, "two first answers and two refinements"
        assert not any(t.success for t in group.unaided)
        for episode in group.trained:
            assert episode.opening[0].text == episode.task.prompt
        recorded = rollouts.ledger.load(group.trained[0].id)
        assert recorded.provenance.assistance.kind == "critique"
        assert "enter(code='" in recorded.opening[0].text
        assert f"The code is {recorded.task.truth}." in recorded.opening[0].text


def test_a_reward_without_feedback_cannot_refine(tmp_path):
    class Silent(Opened):
        feedback = Reward.feedback

    with (
        Rollouts(RolloutConfig(environment=Lock, reward=Silent())) as silent,
        pytest.raises(CreditError, match="Silent, which judges test/lock-v1, has no `feedback`"),
    ):
        make_gatherer(play_groups, ["refined"])(step(silent, LOCKS[:1], 2))


class Stairs(Environment):
    """Three steps, then the end."""

    async def reset(self, task, *, seed):
        self.height = 0
        return task.opening()

    @tool(inline=True)
    def climb(self) -> str:
        """Climb a step."""
        self.height += 1
        if self.height == 3:
            self.end_episode()
        return f"Step {self.height}."


class Climbed(Reward):
    """1 at the top."""

    def outcome(self, episode):
        return {"success": float(len(episode.turns) == 3)}


def climbing(messages):
    return Message("assistant", "", (Call("climb", {}),))


def test_the_guides_turns_are_named_and_have_no_loss(tmp_path):
    tasks = [Task(f"s{index}", "test/stairs-v1", "Climb.", truth=3) for index in range(12)]
    task_set = TaskSet("test/stairs-v1", {"train": tasks}, oracle=lambda task: climbing)
    with Rollouts(RolloutConfig(environment=Stairs, reward=Climbed()), ledger=Ledger(tmp_path / "l.sqlite")) as playing:
        gather = make_gatherer(play_groups, ["guide(turns=2)"])
        gather.read_tasks(task_set)
        learner = ScriptedPolicy(climbing, ByteRenderer(), name="learner")
        groups = gather(StepRequest(playing, learner, tasks, "train-000000", 2))
        recorded = playing.ledger.load(groups[0].trained[0].id)
        assert recorded == groups[0].trained[0]
    assert sorted(group.trained[0].task.id for group in groups) == sorted(task.id for task in tasks)
    counts = []
    for group in groups:
        speakers = [[turn.policy or "learner" for turn in episode.turns] for episode in group.trained]
        assert speakers[0] == speakers[1], "the draw is the group's"
        count = speakers[0].count("oracle")
        counts.append(count)
        assert speakers[0] == ["oracle"] * count + ["learner"] * (3 - count)
        assert bool(group.unaided) == (count == 0)
        rows = trl_rows(group.trained, 0, group.untrained_turns)
        for episode, mask in zip(group.trained, rows["env_mask"], strict=True):
            own = [sum(mask[start:end]) for start, end in episode.turn_spans()]
            assert own == [0] * count + [len(turn.token_ids) for turn in episode.turns[count:]]
    assert set(counts) == {0, 1, 2}


def test_a_guide_begins_one_group_of_a_task_and_every_task_is_played_as_often_as_the_step_says():
    tasks = [Task(f"s{index}", "test/stairs-v1", "Climb.", truth=3) for index in range(3)]
    tasks = [task for task in tasks for _ in range(3)]
    with Rollouts(RolloutConfig(environment=Stairs, reward=Climbed())) as playing:
        gather = make_gatherer(play_groups, ["guide(turns=9)"])
        gather.read_tasks(TaskSet("test/stairs-v1", {"train": tasks[::3]}, oracle=lambda task: climbing))
        learner = ScriptedPolicy(climbing, ByteRenderer(), name="learner")
        groups = gather(StepRequest(playing, learner, tasks, "train-000000", 1))
    assert sorted(group.trained[0].task.id for group in groups) == [task.id for task in tasks]
    assert sum(not group.unaided for group in groups) == 3


async def test_a_guide_with_another_tokeniser_is_given_its_own_tokens():
    class Other(Policy):
        name, renderer = "other", ByteRenderer()

        async def generate(self, request):
            self.prefix_ids = request.prefix_ids
            return Reply(Message("assistant", "hello"), [1], [0.0])

    guide, learner = Other(), ScriptedPolicy(["mine"], ByteRenderer())
    guided = GuidedPolicy(learner, guide, lambda request: True)
    from agentgym.policy import Request

    reply = await guided.generate(Request([Message("user", "hi")], prefix_ids=(99, 98)))
    assert guide.prefix_ids == ByteRenderer().prompt([Message("user", "hi")], ())
    assert reply.token_ids == ByteRenderer().encode(Message("assistant", "hello"))
    assert reply.policy == "other"
    assert reply.logprobs is None
