"""Tiny policies, made from scratch: a byte-level BPE tokenizer and a small Qwen3; with images, a small CLIP before it.

They save and load like any checkpoint of a model hub, so the tiny policy runs the same code as a large one.
The model that reads images is joined as in LLaVA: Liu et al. 2023, arXiv:2304.08485.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


IMAGE = "<image>"
PATCH = 14


def make_processor(tokenizer: PreTrainedTokenizerFast, *, side: int = 56) -> Any:
    """Return a processor that shows every image as `(side / 14)^2` tokens; it adds the image token to the tokenizer.

    Args:
        side: width and height in pixels to which every image is scaled; a multiple of 14.
    """
    from tokenizers import AddedToken
    from transformers import LlavaProcessor
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    if side % PATCH:
        raise ValueError(f"side = {side} is not valid: the side of an image must be a multiple of {PATCH} pixels.")
    tokenizer.add_tokens([AddedToken(IMAGE, special=True, normalized=False)])
    size = {"height": side, "width": side}
    return LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size=size, do_center_crop=False),
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        chat_template=tokenizer.chat_template,
        image_token=IMAGE,
        num_additional_image_tokens=1,  # CLIP's class token, which "default" drops again
    )


def make_vision_model(processor: Any, *, hidden: int = 64, layers: int = 2, side: int = 56, seed: int = 0) -> Any:
    """Return a LLaVA with random weights, determined by the seed; the process's random state is not changed.

    Args:
        hidden, layers: for both the text model and the vision model.
        side: the same as for the processor.
    """
    import torch
    from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration, Qwen3Config

    tokenizer = processor.tokenizer
    text = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_TOKENS,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    vision = CLIPVisionConfig(
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        image_size=side,
        patch_size=PATCH,
        projection_dim=hidden,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=processor.image_token_id,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlavaForConditionalGeneration(config)
    return model.eval()
