"""A GGUF file becomes a checkpoint with the same model, tokenizer and chat template, or one line says why not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from agentgym.bridges.gguf.convert import convert_gguf
from agentgym.errors import MissingExtraError, PolicyError
from agentgym.policy.template_check import check_template
from agentgym.policy.tiny import make_tokenizer

gguf = pytest.importorskip("gguf")
TEXT = "which order is the last"


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer([TEXT], vocab_size=300)


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def file(tmp_path_factory, model, tokenizer) -> Path:
    """The model as llama.cpp would write it, unquantised."""
    return write(tmp_path_factory.mktemp("gguf") / "tiny.gguf", model, tokenizer)


def write(path: Path, model, tokenizer, output=None) -> Path:
    """Write a file. `output`: the weights of an output layer that stands apart in it."""
    writer, config = gguf.GGUFWriter(path, "llama"), model.config
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    bpe = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    special = set(tokenizer.all_special_ids)
    kinds = [gguf.TokenType.CONTROL if index in special else gguf.TokenType.NORMAL for index in range(len(tokenizer))]
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in bpe["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue  # tied
        for part, count in heads.items():
            if part in name:  # llama.cpp rotates neighbouring dimensions, transformers halves
                weight = weight.view(count, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), weight.contiguous().numpy())
    if output is not None:
        writer.add_tensor("output.weight", output.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_checkpoint_is_the_same_model_and_tokenizer(file, model, tokenizer, tmp_path):
    folder = tmp_path / "model"
    assert convert_gguf(file, folder) == model.num_parameters()
    converted, text_reader = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer.encode(TEXT)])
    assert text_reader.encode(TEXT) == ids[0].tolist()
    assert text_reader.chat_template == tokenizer.chat_template
    assert getattr(converted.config, "quantization_config", None) is None
    torch.testing.assert_close(converted(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_an_output_layer_that_stands_apart_is_tied_where_it_is_the_embedding_rounded_otherwise(
    model, tokenizer, tmp_path
):
    embedding = model.get_input_embeddings().weight.detach()
    rounded = (embedding * 2**9).round() / 2**9
    file = write(tmp_path / "tied.gguf", model, tokenizer, output=rounded)
    assert convert_gguf(file, tmp_path / "tied") == model.num_parameters()
    tied = AutoModelForCausalLM.from_pretrained(tmp_path / "tied")
    assert tied.config.tie_word_embeddings
    torch.testing.assert_close(tied.get_output_embeddings().weight.detach(), rounded)
    file = write(tmp_path / "apart.gguf", model, tokenizer, output=torch.randn_like(embedding) * embedding.std())
    assert convert_gguf(file, tmp_path / "apart") == model.num_parameters() + embedding.numel()


def test_another_chat_template_takes_the_place_of_its_own(file, tmp_path):
    """The bundled one, which tells SmolLM2 of tools in a third of the tokens that their JSON schemas take."""
    template = (Path(__file__).parents[2] / "recipes" / "smollm2.jinja").read_text(encoding="utf-8")
    convert_gguf(file, tmp_path / "model", chat_template=template)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    findings = {finding.check: finding for finding in check_template(tokenizer)}
    assert all(finding.ok for finding in findings.values())
    assert findings["tools are told"].detail == "by the template"
    schema = {"type": "object", "properties": {"table": {"type": "string"}, "rows": {"type": "integer"}}}
    tool = {"type": "function", "function": {"name": "show", "description": "Show rows.", "parameters": schema}}
    text = tokenizer.apply_chat_template([{"role": "user", "content": "How many?"}], tools=[tool], tokenize=False)
    assert "Tools:\nshow(table, rows: integer): Show rows.\n" in text


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.write_bytes(b"PK\3\4 a zip"), "is not a GGUF file: such a file begins with GGUF"),
        (lambda file: file.write_bytes(b"GGUF" + bytes(60)), "No model can be read from"),
        (
            lambda file: file.write_bytes(file.read_bytes().replace(b"blk.0.attn_q.weight", b"blk.0.attn_Q.weight")),
            "lacks 1 weights that the model needs, for example model.layers.0.self_attn.q_proj.weight",
        ),
        (lambda file: file.unlink(), "No such file or directory"),
        (lambda file: file.with_name("model").mkdir(), "already exists. Remove it, or name another folder"),
    ],
    ids=["another file", "cut short", "a weight is missing", "missing", "folder exists"],
)
def test_what_cannot_be_converted_is_one_line(file, tmp_path, spoil, says):
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(file.read_bytes())
    spoil(copy)
    with pytest.raises(PolicyError, match=says) as raised:
        convert_gguf(copy, tmp_path / "model")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "model" / "config.json").exists()


def test_without_the_package_the_message_says_how_to_get_it(file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"needs the package gguf: pip install .*\[gguf\]"):
        convert_gguf(file, tmp_path / "model")
