"""A checkpoint is read by the kind of its model, and what is missing of one is named."""

from __future__ import annotations

import json

import pytest

from agentgym.errors import PolicyError

torch = pytest.importorskip("torch")
from agentgym.policy.checkpoint import load_checkpoint, tokenizer_of  # noqa: E402 - after it is known that there is torch


@pytest.fixture(params=[False, True], ids=["reads", "sees"])
def saved(request, tmp_path, tokenizer, model):
    """A folder, the weights in it, and whether its model sees."""
    if request.param:
        from vision_models import llava

        tokenizer, model = llava()
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    return tmp_path, model.state_dict(), request.param


def test_the_configuration_tells_the_kind_of_model_and_reader(saved):
    folder, weights, sees = saved
    model, reader = load_checkpoint(folder, device="cpu")
    assert hasattr(reader, "tokenizer") is sees
    assert tokenizer_of(reader).chat_template
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_without_weights_is_named_with_what_belongs_there(saved):
    folder, _, sees = saved
    (folder / "model.safetensors").unlink()
    with pytest.raises(PolicyError, match=f"No {'vision ' if sees else ''}model .*{folder}.*save_pretrained"):
        load_checkpoint(folder, device="cpu")


def test_a_model_that_only_reads_is_refused_where_one_that_sees_was_asked_for(tmp_path, tokenizer, model):
    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match="No vision model"):
        load_checkpoint(tmp_path, device="cpu", sees=True)


def test_a_template_that_only_the_processor_reads_is_its_tokenizers_too(tmp_path):
    """Checkpoints of older versions of transformers keep it in a file of JSON."""
    from vision_models import llava

    processor, model = llava()
    processor.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    template = (tmp_path / "chat_template.jinja").read_text()
    (tmp_path / "chat_template.jinja").unlink()
    (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    _, reader = load_checkpoint(tmp_path, device="cpu")
    assert reader.tokenizer.chat_template == template
