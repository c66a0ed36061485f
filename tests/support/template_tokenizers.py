"""Small tokenizers with the chat templates that TRL ships."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentgym.policy import make_tokenizer

trl = pytest.importorskip("trl")
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
MARK = re.compile(r"<\|[\w▁]+\|>|<\uff5c[\w▁]+\uff5c>|<(?:turn\|>|\|turn>|(?:start|end)_of_turn>)|</?s>")


def tokenizer_of(template: str):
    """A small tokenizer that knows the template's marks as special tokens."""
    tokenizer = make_tokenizer(["some words"] * 3, 280)
    tokenizer.chat_template = (TEMPLATES / f"{template}.jinja").read_text()
    marks = {mark for mark in MARK.findall(tokenizer.chat_template) if "tool" not in mark}
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(marks | {"<|bos|>"}), "bos_token": "<|bos|>"})
    return tokenizer
