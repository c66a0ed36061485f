"""Trajectories of several rows in training: no row reads another, a frozen role has no gradient, episodes stay one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from trl import GRPOConfig

from agentgym import Policy, Task, Trajectory, Turn
from agentgym.credit import Group
from agentgym.errors import CreditError, RecipeError
from agentgym.messages import Message, StopReason
from agentgym.policy import make_model, make_tokenizer
from agentgym.rollout.replay import Fork
from agentgym.training import Recipe, Rollouts
from agentgym.training.checks.preflight import check_stages
from agentgym.training.imitation import Example, ImitationOptions, imitate
from agentgym.training.loss.scored_rows import ScoredRow, scores_of, scoring_head
from agentgym.training.stages.plan import planned_stages
from agentgym.training.turn_grpo import TurnGRPOTrainer
from agentgym.trajectory import Row, TokenMask

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

TASK = Task("t", "test/none-v1", prompt="question")
GROUP = 3


def episode(sample: int, executor_turns: int = 2, seed: int = 0) -> Trajectory:
    """Planner, executor (a row of its own), planner: turns 0, 1 .. n, n + 1."""
    rng = np.random.default_rng((seed, sample))

    def draw(count: int) -> list[int]:
        return [int(i) for i in rng.integers(3, 200, count)]

    def turn(index: int, role: str, row: int, last: bool) -> Turn:
        own = draw(2 + index % 3)
        message = Message("assistant", f"{role} {index}")
        observed = [] if last else draw(4)
        return Turn(index, message, (), (), own, [-1.0] * len(own), observed, role=role, row=row)

    end = executor_turns + 1
    return Trajectory(
        f"t#{sample}",
        TASK,
        sample,
        opening=(Message("user", "plan"),),
        prompt_ids=draw(5 + sample),
        turns=[
            turn(0, "planner", 0, False),
            *(turn(k, "executor", 1, k == executor_turns) for k in range(1, end)),
            turn(end, "planner", 0, True),
        ],
        further_rows=[Row((Message("user", "execute"),), draw(6), parent=0)],
        outcome={"success": float(sample == 0)},
        stop_reason=StopReason.ANSWERED,
    )


class Given(Rollouts):
    """Hands out one group made beforehand."""

    def __init__(self) -> None:
        super().__init__()
        self.trajectories = [episode(sample) for sample in range(GROUP)]

    def play(self, *_: Any, **__: Any) -> list[Trajectory]:
        return self.trajectories


def executor_credit(group: Group) -> list[np.ndarray]:
    """Only the executor's turns have an advantage."""
    return [np.array([0.0, 1.0, -2.0, 0.0]) for _ in range(group.size)]


def planner_credit(group: Group) -> list[np.ndarray]:
    return [np.array([1.0, 0.0, 0.0, -1.0]) for _ in range(group.size)]


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


def trainer_of(tokenizer: Any, folder: Path, estimator: Any, roles: tuple[str, ...] = ()) -> TurnGRPOTrainer:
    return TurnGRPOTrainer(
        make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1),
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=GROUP,
            num_generations=GROUP,
            max_completion_length=64,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
            max_steps=1,
        ),
        tasks=[TASK],
        policy=Policy(),
        rollouts=Given(),
        estimator=estimator,
        trainable_roles=roles,
        processing_class=tokenizer,
    )


def batch_of(trainer: TurnGRPOTrainer) -> dict[str, Any]:
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    return trainer._generate_and_score_completions([{"prompt": "question", "task": 0}] * GROUP)


def gradient(trainer: TurnGRPOTrainer) -> float:
    trainer.compute_loss(trainer.model, batch_of(trainer)).backward()
    return max(float(p.grad.abs().max()) for p in trainer.model.parameters() if p.grad is not None)


def alone(model: Any, row: Trajectory) -> list[np.ndarray]:
    """Log-probabilities of the own tokens of each turn of a row, in a forward pass of this row alone."""
    arrays = row.arrays()
    ids = torch.tensor(arrays.ids)[None]
    with torch.no_grad():
        logps = torch.log_softmax(model(ids).logits[0].float(), -1)[:-1].gather(-1, ids[0, 1:, None])[:, 0]
    return [
        logps[len(row.prompt_ids) + start - 1 : len(row.prompt_ids) + end - 1].numpy()
        for start, end in row.turn_spans()
    ]


def test_each_row_is_scored_as_if_no_other_existed(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path, planner_credit)
    batch = batch_of(trainer)
    trainer._begin_pass(batch)
    with torch.no_grad():
        trainer._score(trainer.model, batch)
    logps = trainer._pass.scores[0].numpy()
    for number, trajectory in enumerate(trainer._rollouts.trajectories):
        expected: dict[int, np.ndarray] = {}
        for row in trajectory.rows():
            expected |= {t.index: values for t, values in zip(row.turns, alone(trainer.model, row), strict=True)}
        for turn, (start, end) in zip(trajectory.turns, trajectory.turn_spans(), strict=True):
            np.testing.assert_allclose(logps[number, start:end], expected[turn.index], rtol=1e-4, atol=1e-5)


def test_a_mask_of_a_logit_hook_finds_its_tokens_in_a_further_row(tokenizer, tmp_path):
    """Only two tokens were allowed where the executor sampled its first one: p' = p / (p + p of the other)."""
    trainer = trainer_of(tokenizer, tmp_path, planner_credit)
    trajectory = trainer._rollouts.trajectories[1]
    turn = trajectory.turns[1]
    first, other = turn.token_ids[0], (turn.token_ids[0] + 1) % 200
    turn.masks = [(0, 1, TokenMask((first, other), True))]
    batch = batch_of(trainer)
    trainer._begin_pass(batch)
    with torch.no_grad():
        trainer._score(trainer.model, batch)
        row = trajectory.rows()[1]
        logits = trainer.model(torch.tensor(row.prompt_ids)[None]).logits[0, -1].float()
    start, _ = trajectory.turn_spans()[1]
    expected = torch.log_softmax(logits[[first, other]], -1)[0]
    assert float(trainer._pass.scores[0][1, start]) == pytest.approx(float(expected), rel=1e-4)


def test_the_gradient_of_a_frozen_role_is_exactly_zero(tokenizer, tmp_path):
    assert gradient(trainer_of(tokenizer, tmp_path, executor_credit)) > 0
    assert gradient(trainer_of(tokenizer, tmp_path, executor_credit, ("planner",))) == 0.0
    assert gradient(trainer_of(tokenizer, tmp_path, planner_credit, ("planner",))) > 0


def test_a_role_that_nobody_has_is_an_error(tokenizer, tmp_path):
    with pytest.raises(RecipeError, match=r"'plannr'.*\['executor', 'planner'\]"):
        batch_of(trainer_of(tokenizer, tmp_path, planner_credit, ("plannr",)))


def test_statistics_count_an_episode_once_however_many_rows_it_has(tokenizer, tmp_path):
    batch = batch_of(trainer_of(tokenizer, tmp_path, planner_credit))
    assert len(batch["completion_ids"]) == GROUP
    assert batch["episode_returns"].tolist() == [1.0, 0.0, 0.0]
    assert Group.from_trajectories([episode(i) for i in range(GROUP)]).turns.tolist() == [4, 4, 4]


def test_preferences_score_rows_apart(tokenizer):
    model = make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1)
    trajectory = episode(0)
    expected = sum(float(values.sum()) for row in trajectory.rows() for values in alone(model, row))
    with scoring_head(model), torch.no_grad():
        [score] = scores_of(model, [ScoredRow.of(trajectory, [1.0] * 4)]).tolist()
    assert score == pytest.approx(expected, rel=1e-4)


def test_imitation_has_an_example_for_each_row(tokenizer, tmp_path):
    model = make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1)

    def loss() -> float:
        return -sum(float(values.sum()) for row in episode(0).rows() for values in alone(model.eval(), row))

    before = loss()
    options: dict[str, Any] = dict(folder=tmp_path, steps=8, batch_size=2, learning_rate=1e-2, seed=0)
    imitate(model, tokenizer, [Example(episode(0))], ImitationOptions(**options))
    assert loss() < before - 1


def test_what_reads_one_context_refuses_several_rows():
    with pytest.raises(CreditError, match=r"2 rows \(contexts\), but a branch can read only one"):
        Fork(episode(0), 1)


@pytest.mark.parametrize("estimator", ["turn_gae", "archer"])
def test_a_critic_is_refused_before_the_run_where_the_agent_may_continue_in_other_contexts(estimator):
    recipe = Recipe.parse(
        {
            "name": "rows",
            "tasks": {"set": "memory/short-v1"},
            "policy": {"tiny": {}},
            "train": {"estimator": estimator},
        }
    )
    with pytest.raises(RecipeError, match="the agent may continue in others in agentgym/memory-v1"):
        check_stages(planned_stages(recipe), recipe.tasks.load())
