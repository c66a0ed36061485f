"""Two small vision models with random weights, a LLaVA and a Qwen2-VL, and pictures for them to look at."""

from __future__ import annotations

import base64
import io

import torch
from PIL import Image
from tokenizers import AddedToken
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agentgym.messages import ImagePart, Message, TextPart
from agentgym.policy import make_processor, make_tokenizer, make_vision_model


def picture(colour="red", size=(90, 60)):
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return ImagePart(base64.b64encode(buffer.getvalue()).decode())


RED, BLUE = picture("red"), picture("blue", (30, 200))


def scaled(model):
    """Weights far from those of a flat distribution, so that a wrong token or image would show."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4.0)
    return model


class QwenProcessor:
    """What ImageTokens asks of a processor, for Qwen2-VL without the package that its video processor needs."""

    def __init__(self, tokenizer):
        self.tokenizer, self.image_token = tokenizer, "<|image_pad|>"
        self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
        self.image_processor = Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=28 * 28 * 12)

    def __call__(self, text, images, **options):
        grid = self.image_processor(images=images, return_tensors="pt")["image_grid_thw"]
        expanded = text[0].replace(self.image_token, self.image_token * int(grid[0].prod() // 4))
        return {"input_ids": torch.tensor([self.tokenizer.encode(expanded, add_special_tokens=False)])}


def llava():
    processor = make_processor(make_tokenizer(["click the red button x y"] * 20, 320))
    return processor, scaled(make_vision_model(processor))


def qwen2_vl():
    tokenizer = make_tokenizer(["click the red button x y"] * 20, 320)
    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    part = "{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}"
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}" + part + "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    start, end, image, video = tokenizer.convert_tokens_to_ids(marks)
    config = Qwen2VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "rope_parameters": {"rope_type": "default", "mrope_section": [4, 6, 6], "rope_theta": 10000.0},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={"depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2},
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2VLForConditionalGeneration(config).eval()
    return QwenProcessor(tokenizer), scaled(model)


def conversation(*images):
    return (Message("user", (TextPart("where is it? "), *images, TextPart(" click"))),)
