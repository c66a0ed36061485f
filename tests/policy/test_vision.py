"""A vision model as a policy: every image lies in one span of exact tokens, and nobody can forge one."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from agentgym import Budgets, Environment, EpisodeManager, RolloutConfig, Task, tool
from agentgym.errors import PolicyError
from agentgym.messages import ImagePart, Message, TextPart
from agentgym.policy import Hermes, Request, Sampling, TemplateRenderer

torch = pytest.importorskip("torch")
from vision_models import BLUE, RED, conversation, llava, picture, qwen2_vl  # noqa: E402 - after it is known that there is torch


@pytest.fixture(scope="module", params=[llava, qwen2_vl])
def parts(request):
    from agentgym.policy import ImageTokens

    processor, model = request.param()
    return model, TemplateRenderer(processor.tokenizer, Hermes(), images=ImageTokens(processor))


@pytest.fixture
async def policy(parts):
    from agentgym.policy import VisionPolicy

    vision_policy = VisionPolicy(*parts)
    yield vision_policy
    await vision_policy.close()


def request_for(renderer, messages, seed, tokens=8, temperature=1.0, episode=""):
    prefix = renderer.prompt(messages, ())
    return Request(messages, (), prefix, Sampling(temperature, max_tokens=tokens, seed=seed), episode or str(seed))


async def test_a_batch_of_texts_and_images_has_the_log_probabilities_of_a_plain_forward_pass(policy, parts):
    """Rows with none, one and two images, of different lengths: padding and neighbours change nothing."""
    requests = [
        request_for(policy.renderer, conversation(*images), seed)
        for seed, images in enumerate([(RED,), (), (BLUE, RED), (RED, BLUE)])
    ]
    replies = await asyncio.gather(*map(policy.generate, requests))
    for request, reply in zip(requests, replies, strict=True):
        scored = await policy.score(request.prefix_ids, reply.token_ids, request.messages[0].images)
        assert reply.logprobs == pytest.approx(scored, abs=2e-4)
        alone = await policy.generate(request)
        assert alone.token_ids == reply.token_ids


async def test_what_is_seen_matters(policy):
    """Else a policy that dropped its images would pass every other test."""
    messages = conversation(RED)
    ids = policy.renderer.prompt(messages, ())
    other = picture("green", (90, 60))
    assert policy.renderer.prompt(conversation(other), ()) == ids
    text = policy.renderer.encode(Message("assistant", "the red button"))
    first_score, second_score = await policy.score(ids, text, [RED]), await policy.score(ids, text, [other])
    assert np.abs(np.array(first_score) - second_score).max() > 1e-3


async def test_an_agent_never_writes_a_token_that_stands_for_an_image(policy, parts):
    model, renderer = parts
    head = model.get_output_embeddings().weight
    image = renderer.images.image_token_id
    saved_head = head.detach().clone()
    try:
        with torch.no_grad():  # a model that wants nothing else
            head[image] = 50 * head[saved_head.norm(dim=1).argmax()]
            head[renderer.images.reserved_ids[0]] = -head[image]
        replies = await asyncio.gather(
            *[policy.generate(request_for(renderer, conversation(RED), seed, 16, 0.0)) for seed in range(3)]
        )
    finally:
        with torch.no_grad():
            head.copy_(saved_head)
    for reply in replies:
        assert not set(reply.token_ids) & set(renderer.images.reserved_ids)


def test_text_that_looks_like_an_image_is_text(parts):
    renderer = parts[1]
    mark = renderer.tokenizer.convert_ids_to_tokens(renderer.images.image_token_id)
    assert renderer.images.count(renderer.prompt([Message("user", f"see {mark}{mark}")], ())) == 0
    assert renderer.images.count(renderer.encode(Message("assistant", mark))) == 0
    rendered = renderer.observation([Message("tool", (TextPart(mark), RED), name=mark)])
    assert renderer.images.count(rendered) == renderer.images.count(renderer.images.encode(RED)) > 0


def test_collapsed_ids_hold_each_image_once(parts):
    renderer = parts[1]
    ids = renderer.prompt(conversation(RED, BLUE), ())
    collapsed = renderer.images.collapsed(ids, [RED, BLUE])
    assert renderer.images.count(collapsed) == 2
    image = renderer.images.image_token_id
    assert [i for i in collapsed if i != image] == [i for i in ids if i != image]


async def test_a_prefix_without_its_images_is_refused(policy):
    messages = conversation(RED)
    with pytest.raises(PolicyError, match="image tokens, but 0 images"):
        await policy.generate(Request((Message("user", "none"),), (), policy.renderer.prompt(messages, ())))


def test_what_is_no_image_is_refused_with_its_kind(parts):
    for malformed_call in (ImagePart("AAAA"), ImagePart("not base64!", "image/jpeg"), ImagePart("")):
        with pytest.raises(PolicyError, match=f"{malformed_call.media_type}.*cannot be read"):
            parts[1].images.encode(malformed_call)


class Lamp(Environment):
    """Shows a lamp that changes its colour at every look."""

    async def reset(self, task, *, seed):
        self.colours = iter([RED, BLUE, RED, BLUE, RED])
        return [Message("user", (TextPart("look twice"), next(self.colours)))]

    async def respond(self, message):
        return [Message("user", (next(self.colours), TextPart("and now?")))]

    @tool
    def look(self) -> ImagePart:
        """Look at the lamp."""
        return next(self.colours)


async def test_an_episode_with_images_is_token_exact_from_its_first_span_to_its_last(parts):
    from agentgym.policy import VisionPolicy

    model, renderer = parts
    ends = range(0, model.config.get_text_config().vocab_size, 3)  # it has never learned to end a turn
    player = VisionPolicy(model, renderer, eos_token_ids=ends)
    budgets = Budgets(max_turns=3, max_turn_tokens=30, max_void_turns=9)
    manager = EpisodeManager(player, RolloutConfig(environment=Lamp, budgets=budgets, seed=1))
    trajectory = (await manager.collect([Task("t", "acme/lamp-v1", "look")], group_size=2))[0]
    assert trajectory.valid
    arrays = trajectory.arrays()
    images = renderer.images
    rendered = trajectory.messages()
    assert images.count(arrays.ids[: arrays.prompt_length]) == images.count(images.encode(RED))
    assert not images.count(arrays.ids[arrays.loss_mask])  # the agent's own tokens hold no image
    assert all(images.count(turn.observation_ids) for turn in trajectory.turns[:-1])
    start, at = len(trajectory.prompt_ids), 1
    for turn, (begin, _) in zip(trajectory.turns, trajectory.turn_spans(), strict=True):
        seen = [image for message in rendered[:at] for image in message.images]
        scored = await player.score(arrays.ids[: start + begin].tolist(), turn.token_ids, seen)
        assert turn.logprobs == pytest.approx(scored, abs=2e-4)
        at += 1 + len(turn.results) + len(turn.replies)
    await player.close()


async def test_a_saved_checkpoint_is_loaded_by_name_and_answers_alike(tmp_path):
    from agentgym.policy import VisionPolicy
    from agentgym.registry import load as load_registered

    processor, model = llava()
    from agentgym.policy import ImageTokens

    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    loaded = load_registered("policies", "vision")(str(tmp_path))
    first = VisionPolicy(model, TemplateRenderer(processor.tokenizer, Hermes(), images=ImageTokens(processor)))
    request = request_for(first.renderer, conversation(RED), 3)
    first_score, second_score = await first.generate(request), await loaded.generate(request)
    assert first_score.token_ids == second_score.token_ids
    await first.close()
    await loaded.close()


async def test_a_forward_pass_ends_before_its_next_layer_once_its_requests_are_cancelled(policy, parts):
    model, renderer = parts
    layers = [layer for module in model.modules() if isinstance(module, torch.nn.ModuleList) for layer in module]
    passed: list[int] = []
    cancelled = asyncio.get_running_loop().create_future()
    handle = layers[0].register_forward_hook(
        lambda *_: passed.append(1) or cancelled.get_loop().call_soon_threadsafe(task.cancel)
    )
    later = layers[-1].register_forward_pre_hook(lambda *_: time.sleep(0.2))
    task = asyncio.create_task(policy.generate(request_for(renderer, conversation(RED), 0, 200)))
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.get_running_loop().run_in_executor(policy._worker, lambda: None)
    assert len(passed) <= 2
    handle.remove(), later.remove()
