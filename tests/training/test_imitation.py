"""A warm start: it goes on where it was broken off, and what saves memory changes no weight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from lookup_runs import RECIPE, execute, recipe
from transformers import TrainerCallback

from agentgym import Message, Task, Trajectory, Turn
from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.policy.silence import silence_libraries
from agentgym.policy.tiny import make_model, make_tokenizer
from agentgym.training import Recipe
from agentgym.training.imitation import Example, ImitationOptions, imitate

STEPS = 8


class BreaksOff(TrainerCallback):
    """Stands for a process that is killed at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args, state, control, **_):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["the red box holds seven coins"], vocab_size=300)


@pytest.fixture(scope="module")
def examples(tokenizer):
    def example(number: int) -> Trajectory:
        text = tokenizer.encode(f"the {'red ' * (number % 3)}box holds {number} coins")
        turn = Turn(0, Message("assistant", ""), token_ids=text[2:], logprobs=[0.0] * len(text[2:]))
        return Trajectory(str(number), Task(str(number), "none"), turns=[turn], prompt_ids=text[:2])

    return [example(number) for number in range(12)]


def imitated(tokenizer, examples, folder: Path, model=None, *, weights=None, callbacks=(), **options):
    model = model or make_model(tokenizer, hidden=16, layers=2, heads=2, kv_heads=1, seed=0)
    options = {"steps": STEPS, "batch_size": 4, "learning_rate": 1e-2, "seed": 0} | options
    with silence_libraries():
        weighted = [Example(*each) for each in zip(examples, weights or [1.0] * len(examples), strict=True)]
        imitate(model, tokenizer, weighted, ImitationOptions(folder=folder, **options), callbacks=callbacks)
    return model.state_dict()


@pytest.mark.parametrize("weights", [None, [0.5, 2.0]])
def test_imitation_moves_the_agents_own_tokens_and_no_result(tokenizer, tmp_path, weights):
    """The gradient at the last hidden states, from which each next token is predicted."""
    first = Turn(0, Message("assistant", ""), token_ids=[7, 8], observation_ids=[9, 10, 11], logprobs=[0.0] * 2)
    second = Turn(1, Message("assistant", ""), token_ids=[12, 13], logprobs=[0.0] * 2)
    pair = [Trajectory(name, Task(name, "none"), turns=[first, second], prompt_ids=[5, 6]) for name in "ab"]
    model = make_model(tokenizer, hidden=16, layers=1, heads=1, kv_heads=1, seed=0)
    states: list[torch.Tensor] = []

    def keep(_, __, outputs):
        outputs.last_hidden_state.retain_grad()
        states.append(outputs.last_hidden_state)

    model.base_model.register_forward_hook(keep)
    imitated(tokenizer, pair, tmp_path, model, steps=1, batch_size=2, weights=weights)
    [state] = states
    assert [(row.abs().sum(-1) > 0).nonzero()[:, 0].tolist() for row in state.grad] == [[1, 2, 6, 7]] * 2


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_an_imitation_that_was_broken_off_ends_with_equal_weights(tokenizer, examples, tmp_path, optimizer):
    options = {"optimizer": optimizer, "save_every": 3}
    unbroken = imitated(tokenizer, examples, tmp_path / "unbroken", **options)
    with pytest.raises(KeyboardInterrupt):
        imitated(tokenizer, examples, tmp_path / "broken", callbacks=[BreaksOff(5)], **options)
    assert [path.name for path in (tmp_path / "broken").glob("checkpoint-*")] == ["checkpoint-3"]
    seen_steps = []

    class Counts(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            seen_steps.append(state.global_step)

    resumed = imitated(tokenizer, examples, tmp_path / "broken", callbacks=[Counts()], **options)
    assert seen_steps == [4, 5, 6, 7, 8]
    assert all(torch.equal(resumed[name], value) for name, value in unbroken.items())


@pytest.mark.parametrize("saving", [{"microbatch_tokens": 20}, {"gradient_checkpointing": True}])
def test_what_saves_memory_changes_no_weight(tokenizer, examples, tmp_path, saving):
    plain = imitated(tokenizer, examples, tmp_path)
    sparing = imitated(tokenizer, examples, tmp_path, **saving)
    for name, value in plain.items():
        torch.testing.assert_close(sparing[name], value, rtol=1e-3, atol=1e-5)


def test_a_pretrained_model_is_measured_before_its_warm_start_too(tmp_path):
    first = execute(recipe(train__steps=0), tmp_path / "first")
    data = json.loads(json.dumps(RECIPE))
    data["policy"] = {"path": str(first.path)}
    data["warm_start"] |= {"steps": 10, "microbatch_tokens": 500, "learning_rate": 1e-4}
    data["train"] |= {"steps": 1, "microbatch_tokens": 500}
    data["evaluate"] |= {"zero_shot": True}
    data["machine"] |= {"gradient_checkpointing": True}
    second = execute(Recipe.parse(data), tmp_path / "second")
    zero_shot, before = (Evaluation.load(second.path / f"evaluation/{name}.json") for name in ("zero_shot", "before"))
    assert zero_shot.manifest == before.manifest
    assert '"zero_shot":{"' in (second.path / "report.html").read_text().replace(" ", "")
    assert not (second.path / "checkpoints" / "warm_start_steps").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"evaluate": {"zero_shot": True}}, "evaluate.zero_shot measures the model of policy.path"),
        ({"warm_start": {"microbatch_tokens": 0}}, "warm_start.microbatch_tokens = 0"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, says):
    with pytest.raises(RecipeError, match=says):
        Recipe.parse(json.loads(json.dumps(RECIPE)) | changes)
