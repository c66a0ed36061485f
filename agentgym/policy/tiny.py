"""The tiny policy: a byte-level BPE tokenizer and a small Qwen3, both made from scratch.

They save and load like any checkpoint of a model hub, so the tiny policy runs the same code as a large one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Each becomes one token in what the agent writes. They are not special: text from outside that contains them stays
# plain text.
SCAFFOLD = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    '{"name": "',
    '", "arguments": {',
    '": "',
    '"}}',
)
# A word includes the space before it and keeps its underscores. A digit is always a separate token, so that a number
# has the same tokens wherever it is written. Punctuation never joins the word that follows.
WORDS = r" ?[\p{L}_]+|\p{N}| ?[^\s\p{L}\p{N}_]+|[\r\n]+|\s+(?!\S)|\s+"
TEMPLATE = Path(__file__).with_name("tiny_chat_template.jinja")
MAX_TOKENS = 4096


def make_tokenizer(texts: Iterable[str], vocab_size: int = 1024) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE tokenizer trained on texts, with Qwen's special tokens and a compact chat template.

    Args:
        texts: texts that the environment and the oracle write; repeated words become single tokens.
        vocab_size: number of tokens, at least 256 bytes + specials + scaffold = 267; fewer if the texts are too small.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    smallest = len(alphabet) + len(SPECIALS) + len(SCAFFOLD)
    if vocab_size < smallest:
        raise ValueError(
            f"vocab_size = {vocab_size} is too small to hold all bytes and markers: give at least {smallest}."
        )
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SCAFFOLD),
        initial_alphabet=sorted(alphabet),
        special_tokens=list(SPECIALS),
        min_frequency=2,
        show_progress=False,
    )
    bpe.train_from_iterator([*texts, *["system\nuser\nassistant\n"] * 2], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=MAX_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in SCAFFOLD])
    tokenizer.chat_template = TEMPLATE.read_text("utf-8")
    return tokenizer


def make_configuration(
    vocabulary: int,
    *,
    hidden: int = 128,
    layers: int = 4,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    **tokens: int | None,
) -> Qwen3Config:
    """Return the configuration of a small Qwen3 with tied embeddings, about a million parameters by default.

    head_dim 32 is the smallest that vLLM's CPU build serves.

    Args:
        vocabulary: rows of the embedding.
        tokens: ids of special tokens, as transformers names them (`eos_token_id`).
    """
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=MAX_TOKENS,
        tie_word_embeddings=True,
        **tokens,
    )


def make_model(tokenizer: PreTrainedTokenizerFast, *, seed: int = 0, **shape: int) -> Qwen3ForCausalLM:
    """Return a Qwen3 with random weights. `shape`: see `make_configuration`.

    The same seed gives the same weights; the process's random state is not changed.
    """
    import torch
    from transformers import Qwen3ForCausalLM

    tokens = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = make_configuration(len(tokenizer), **shape, **tokens)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    return model.eval()
