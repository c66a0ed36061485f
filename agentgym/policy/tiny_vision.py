"""The tiny vision policy: a small CLIP and a small Qwen3 joined as in LLaVA, made from scratch.

The model saves and loads like any hub checkpoint. Source of the architecture: Liu et al. 2023, arXiv:2304.08485.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentgym.policy.tiny import MAX_TOKENS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

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
