"""The options of a local model: each reaches what it is about, and a wrong one is one line."""

from __future__ import annotations

import asyncio

import pytest

from agentgym.errors import PolicyError

torch = pytest.importorskip("torch")
from agentgym.messages import Message  # noqa: E402 - after it is known that there is torch
from agentgym.policy import make_tokenizer  # noqa: E402
from agentgym.policy.formats.choice import CallFormatWarning  # noqa: E402
from agentgym.policy.local import load as load_transformers_policy  # noqa: E402

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ 'LOUD ' if loud else '' }}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture
def folder(tmp_path, tokenizer, model):
    tokenizer.save_pretrained(tmp_path / "model")
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def load(folder):
    policies = []

    def load_with(**options):
        policies.append(load_transformers_policy(str(folder), device="cpu", **options))
        return policies[-1]

    yield load_with
    for policy in policies:
        asyncio.run(policy.close())


def prompt_of(policy) -> str:
    return policy.renderer.tokenizer.decode(policy.renderer.prompt([Message("user", "hi")], []))


def test_dtype_and_attention_are_those_of_the_weights(load):
    policy = load(dtype="bfloat16", attention="eager")
    assert policy.model.dtype == torch.bfloat16
    assert policy.model.config._attn_implementation == "eager"


def test_a_template_of_a_file_is_filled_in_with_its_options(load, tmp_path):
    file = tmp_path / "loud.jinja"
    file.write_text(TEMPLATE)
    assert "LOUD hi" in prompt_of(load(chat_template=str(file), template_options={"loud": True}))
    assert "LOUD" not in prompt_of(load(chat_template=str(file)))


def test_the_tokenizer_may_come_from_elsewhere(load, tmp_path, tokenizer):
    other = make_tokenizer(["hello hello"], 300)
    other.chat_template = TEMPLATE
    other.save_pretrained(tmp_path / "tokenizer")
    policy = load(tokenizer=str(tmp_path / "tokenizer"), call_format="hermes")
    assert len(policy.renderer.tokenizer) == len(other) != len(tokenizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float7"}, "dtype = 'float7'.*float32"),
        ({"quantization": "int3"}, "quantization = 'int3'.*nf4"),
        ({"chat_template": "nowhere.jinja"}, "No such file or directory: 'nowhere.jinja'"),
        ({"attention": "shiny"}, "shiny"),
        ({"tokenizer": "nowhere/at-all"}, "nowhere/at-all"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(load, options, message):
    with pytest.raises(PolicyError, match=message) as caught:
        load(**options)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_that_lacks_weights_is_refused(load, folder):
    """transformers would fill them in at random."""
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "model.safetensors")
    lost = next(name for name in state if "q_proj" in name)
    del state[lost]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PolicyError, match=f"lack 1 weights that the model needs, for example {lost}"):
        load()


def test_a_named_format_that_the_template_does_not_write_gives_a_warning(load):
    with pytest.warns(CallFormatWarning, match="call format llama3 cannot read calls .*<tool_call>"):
        load(call_format="llama3")
