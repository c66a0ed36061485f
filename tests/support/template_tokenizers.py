"""Small tokenizers with the chat templates that TRL ships."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentgym.policy import make_tokenizer

trl = pytest.importorskip("trl")
TEMPLATES = Path(trl.__file__).parent / "chat_templates"
OWN = Path(__file__).parent / "family_templates"
MARK = re.compile(
    r"<\|[\w▁]+\|>|<\uff5c[\w▁]+\uff5c>|<(?:turn\|>|\|turn>|\|tool_response>|(?:start|end)_of_turn>)|</?s>"
    r"|\[/?(?:INST|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|TOOL_CALLS|CALL_ID|ARGS)\]|\[e~\[|\]~b\]"
)


def tokenizer_of(template: str):
    """A small tokenizer that knows the template's marks as special tokens.

    Args:
        template: the name of a template of TRL, or own/ and the name of one of ours.
    """
    tokenizer = make_tokenizer(["some words"] * 3, 280)
    folder = OWN if template.startswith("own/") else TEMPLATES
    tokenizer.chat_template = (folder / f"{template.removeprefix('own/')}.jinja").read_text()
    marks = {mark for mark in MARK.findall(tokenizer.chat_template) if "tool" not in mark or "response" in mark}
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(marks | {"<|bos|>"}), "bos_token": "<|bos|>"})
    if "[INST]" in marks:
        tokenizer.add_special_tokens({"eos_token": "</s>"})
    return tokenizer
