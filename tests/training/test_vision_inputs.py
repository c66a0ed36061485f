"""Training on images: the forward pass of the loss sees what the agent saw, and weighs the words it could choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_trainers import InOrder
from trl import GRPOConfig
from trl.trainer.utils import shuffle_sequence_dict, split_tensor_dict
from vision_models import BLUE, RED, llava, picture, qwen2_vl

from agentgym import Budgets, Environment, Message, Reward, RolloutConfig, Task, register, tool
from agentgym.credit import estimator
from agentgym.errors import CreditError, PolicyError
from agentgym.messages import TextPart
from agentgym.policy import Hermes, ImageTokens, Request, TemplateRenderer, VisionPolicy
from agentgym.training import Rollouts
from agentgym.training.loss.grpo_batches import own_tokens
from agentgym.training.signals import SignalSources
from agentgym.training.trained_policy import TrlPolicy
from agentgym.training.turn_grpo import TurnGRPOTrainer

# trl 1.16 still says gradient_checkpointing where transformers 5.23 says activation_checkpointing
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
TASKS = [
    Task("lamps", "test/lamps-v1", "look", parameters={"lit": True}),
    Task("dark", "test/lamps-v1", "look", parameters={"lit": False}),
]
GROUP = 3


class Lamps(Environment):
    """Answers whatever is said with another colour, or in the dark with words. Nothing is isolated."""

    reward = "test_luck"

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self._colours = iter([RED, BLUE, RED, BLUE]) if task.parameters["lit"] else iter(())
        return [Message("user", (TextPart("look"), *self._pictures()))]

    async def respond(self, message: Message) -> list[Message]:
        return [Message("user", (*self._pictures(), TextPart("and now?")))]

    @tool
    def look(self) -> str:
        """Look."""
        return "Nothing."

    def _pictures(self) -> list[Any]:
        return [picture for picture in [next(self._colours, None)] if picture is not None]


class Luck(Reward):
    """Something that differs from episode to episode."""

    def outcome(self, episode):
        return {"luck": sum(sum(turn.token_ids) for turn in episode.turns) % 97 / 97}


register("test/lamps-v1", Lamps)


@pytest.fixture(scope="module", params=[llava, qwen2_vl])
def model_and_renderer(request):
    processor, model = request.param()
    return model, TemplateRenderer(processor.tokenizer, Hermes(), images=ImageTokens(processor))


def talker(model, renderer) -> VisionPolicy:
    """Ends its turns soon, though it has never learned how: every third token ends one."""
    return VisionPolicy(model, renderer, eos_token_ids=range(0, model.config.get_text_config().vocab_size, 3))


@pytest.fixture
def trainer(model_and_renderer, tmp_path):
    model, renderer = model_and_renderer
    rollouts = Rollouts(RolloutConfig(reward=Luck(), budgets=Budgets(max_turns=3, max_void_turns=9), concurrency=6))
    settings: dict[str, Any] = dict(
        output_dir=str(tmp_path),
        per_device_train_batch_size=GROUP,
        steps_per_generation=2,
        num_generations=GROUP,
        gradient_accumulation_steps=2,
        max_completion_length=256,
        use_cpu=True,
        bf16=False,
        report_to=[],
        max_steps=1,
        gradient_checkpointing=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        learning_rate=1e-3,
    )
    with rollouts:
        yield TurnGRPOTrainer(
            model,
            args=GRPOConfig(**settings),
            tasks=TASKS,
            sampler=InOrder(TASKS),
            policy=talker(model, renderer),
            rollouts=rollouts,
            estimator=estimator("grpo"),
            processing_class=renderer.tokenizer,
        )


def generated(trainer) -> dict[str, Any]:
    trainer.model.train()
    rows = [{"prompt": task.prompt, "task": i} for i, task in enumerate(TASKS) for _ in range(GROUP)]
    return trainer._generate_and_score_completions(rows)


def gap(trainer, batch) -> torch.Tensor:
    """Between the log-probabilities of the trainer's own forward pass and those sampled with, of the agent's tokens."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    trainer._begin_pass(batch)
    with torch.no_grad():
        recomputed, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model.eval(), ids, mask, batch["completion_ids"].size(1), batch_size=2
        )
    return (recomputed - batch["sampling_per_token_logps"]).abs()[own_tokens(batch).bool()]


def test_sampler_and_trainer_agree_on_every_token_of_rows_with_and_without_images(trainer):
    batch = generated(trainer)
    assert [len(row.images) for row in batch["row_data"]] == [3] * GROUP + [0] * GROUP
    assert (trainer._vision._images.count(batch["completion_ids"].flatten().tolist())) > 0, "none in an observation"
    assert gap(trainer, batch).max() < 2e-4
    torch.manual_seed(1)
    for part in split_tensor_dict(shuffle_sequence_dict(batch), 2):
        assert gap(trainer, part).max() < 2e-4


def test_other_images_give_other_probabilities(trainer):
    """Else a forward pass that dropped its images would pass the test above."""
    batch = generated(trainer)
    other = picture("green", (90, 60))
    batch["row_data"] = [
        replace(row, images=[other if image is RED else image for image in row.images]) for row in batch["row_data"]
    ]
    assert gap(trainer, batch).max() > 1e-3


def test_a_step_trains_the_eyes_too_and_begins_where_the_sampling_was(trainer):
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    changed = {name for name, value in trainer.model.named_parameters() if not torch.equal(before[name], value)}
    assert any("vision" in name or "visual" in name for name in changed)
    assert any("language_model" in name for name in changed)
    assert all(torch.isfinite(value).all() for value in trainer.model.parameters())
    assert trainer.state.log_history[0]["guard/drift"] < 2e-4
    assert "bias" not in trainer.model.get_output_embeddings().__dict__


def test_a_record_of_another_processor_is_refused(trainer):
    generated(trainer)
    episode = trainer._episodes.trajectories[0]
    episode.opening = [Message("user", (TextPart("look"), RED, RED))]
    with pytest.raises(PolicyError, match="image tokens, but its 4 image"):
        trainer._vision.images_of(episode)


def test_a_model_that_wants_what_trl_does_not_pass_on_is_refused(trainer, monkeypatch):
    batch = generated(trainer)
    vision_inputs = trainer._vision
    features = vision_inputs._images.features
    monkeypatch.setattr(vision_inputs._images, "features", lambda images: features(images) | {"tiles": torch.ones(1)})
    with pytest.raises(PolicyError, match="makes tiles from an image"):
        vision_inputs.model_kwargs(batch["prompt_ids"], [row.images for row in batch["row_data"]], trainer.model)


def test_a_critic_that_would_be_blind_is_refused(model_and_renderer):
    model, renderer = model_and_renderer

    def providers(chosen):
        parts = dict(rollouts=None, task_set=None, encode=renderer.tokenizer.encode, estimator=chosen)
        return SignalSources(model=model, policy=VisionPolicy(model, renderer), **parts).providers()

    with pytest.raises(CreditError, match=r"turn_gae requires values: .* computed without images"):
        providers(estimator("turn_gae"))
    with pytest.raises(
        CreditError, match=r"rank_shaped requires rank_acceleration_deviations.* computed without images"
    ):
        providers(estimator("rloo | rank_shaped"))
    assert providers(estimator("grpo")) == []


async def test_trls_own_generation_refuses_images():
    message = Message("user", (TextPart("look"), RED))
    with pytest.raises(PolicyError, match="generation"):
        await TrlPolicy(None, None).generate(Request((message,), (), ()))
