"""The project's own tokenizer and model."""

from __future__ import annotations

import pytest
import torch

from agentgym.messages import Message
from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.tiny import SCAFFOLD, SPECIALS

TEXT = "How many orders did 'Zoë Žižek' place in 2024? SELECT count(*) FROM order_items WHERE total >= 12.50\n\t🙂"


def test_a_saved_tokenizer_and_model_load_like_any_checkpoint(tmp_path, tokenizer, model):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    reloaded = AutoTokenizer.from_pretrained(tmp_path)
    written = TEXT + "".join([*SPECIALS, *SCAFFOLD])
    assert reloaded.encode(written) == tokenizer.encode(written)
    assert (reloaded.chat_template, reloaded.eos_token_id, reloaded.pad_token_id, len(reloaded)) == (
        tokenizer.chat_template,
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
        len(tokenizer),
    )
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    ids = torch.tensor([tokenizer.encode(TEXT)])
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits)
    assert loaded.get_input_embeddings().weight is loaded.get_output_embeddings().weight


def test_any_text_survives_the_tokenizer(tokenizer):
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


def test_a_number_has_the_same_pieces_wherever_it_stands(tokenizer):
    digits = tokenizer.convert_tokens_to_ids(list("2024"))
    for written in ("2024", " 2024", "'2024'", "x=2024,"):
        ids = tokenizer.encode(written)
        assert any(ids[at : at + 4] == digits for at in range(len(ids)))


def test_a_name_has_the_same_pieces_in_a_question_and_in_sql(tokenizer):
    """Quotes never stick to the word, so that a small model can copy a quoted name."""
    name = tokenizer.encode("Zoë Žižek")
    for written in ("by 'Zoë Žižek'?", "= 'Zoë Žižek';"):
        ids = tokenizer.encode(written)
        assert any(ids[at : at + len(name)] == name for at in range(len(ids)))


def test_every_marker_is_one_token_and_the_vocabulary_has_the_size_asked_for():
    words = ["".join("abcdefghij"[int(digit)] for digit in str(n * n)) for n in range(2000)]
    tokenizer = make_tokenizer([f"{word} {word}" for word in words], 600)
    assert len(tokenizer) == 600
    for marker in (*SPECIALS, *SCAFFOLD):
        assert len(tokenizer.encode(marker)) == 1


def test_training_texts_repeated_in_the_same_order_give_the_same_tokenizer():
    texts = ["SELECT name FROM customers", "order_items total"] * 3
    assert make_tokenizer(texts).get_vocab() == make_tokenizer(texts).get_vocab()


def test_a_vocabulary_too_small_for_bytes_and_markers_is_refused():
    with pytest.raises(ValueError, match="at least 267"):
        make_tokenizer(["x"], 100)


def test_tools_take_one_line_each(renderer, tools):
    text = renderer.tokenizer.decode(renderer.prompt([Message("system", "Use SQL."), Message("user", "Hi")], tools))
    system = "<|im_start|>system\nUse SQL.\nquery(sql: string)<|im_end|>"
    assert text == system + "<|im_start|>user\nHi<|im_end|><|im_start|>assistant\n"


def test_the_same_seed_makes_the_same_model_and_disturbs_no_other_randomness(tokenizer):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, other = make_model(tokenizer, seed=3), make_model(tokenizer, seed=3)
    assert torch.rand(1) == expected
    different = make_model(tokenizer, seed=4)
    weights = [built.model.layers[0].mlp.up_proj.weight for built in (first, other, different)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_default_model_has_about_a_million_parameters():
    tokenizer = make_tokenizer(["x"], 300)
    count = sum(parameter.numel() for parameter in make_model(tokenizer).parameters())
    assert 0.7e6 < count < 1.2e6
