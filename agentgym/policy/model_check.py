"""Checks of `agentgym model check` beyond the tokenizer: the end tokens in a folder, and one call by the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.messages import Message
from agentgym.policy.contract import Request, Sampling
from agentgym.policy.formats.choice import PROBE_CALL, PROBE_TOOL
from agentgym.policy.formats.coercion import parse_message
from agentgym.policy.formats.contract import excerpt
from agentgym.policy.rendering import TemplateRenderer
from agentgym.policy.template_check import TemplateFinding
from agentgym.registry import load, names

if TYPE_CHECKING:
    from agentgym.policy.transformers import TransformersPolicy

QUESTION = f"Call the tool {PROBE_CALL.name} once, with the text 'some words' and the count 3. Write nothing else."
MAX_TOKENS = 192
WEIGHTS = ("*.safetensors", "*.bin")


def has_weights(folder: Path) -> bool:
    """Return whether a folder holds weights."""
    return any(next(folder.glob(pattern), None) for pattern in WEIGHTS)


def check_generation_ends(renderer: TemplateRenderer, folder: Path) -> TemplateFinding | None:
    """Compare the end tokens of a turn with those in a folder's generation_config.json; None if the file names none.

    A policy loaded from the folder ends turns at all of them. A server that reads only the file misses the others.
    """
    file = folder / "generation_config.json"
    named = json.loads(file.read_text()).get("eos_token_id") if file.is_file() else None
    if named is None:
        return None
    configured = set(named if isinstance(named, list) else [named])
    written = set(renderer.tokenizer.convert_tokens_to_ids([*renderer.template.ends]))
    detail = f"{_words(renderer, configured)}, where sampling ends too"
    if missing := written - configured:
        detail += f"; a server that reads that file alone goes on after {_words(renderer, missing)}"
    return TemplateFinding("ends of generation_config", True, detail)


async def ask_model(policy: TransformersPolicy) -> TemplateFinding:
    """Let a model write one call by greedy sampling, and report which call formats read it.

    The check fails if other formats read the call but the policy's does not. Nothing is concluded if the model writes
    no call, as an untrained model may.
    """
    renderer = policy.renderer
    messages = [Message("user", QUESTION)]
    request = Request(
        messages,
        [PROBE_TOOL],
        prefix_ids=renderer.prompt(messages, [PROBE_TOOL]),
        sampling=Sampling(temperature=0.0, max_tokens=MAX_TOKENS),
    )
    reply = await policy.generate_in_time(request)
    if _is_call(reply.message):
        return TemplateFinding("the model's own call", True, f"{renderer.call_format.name} reads what the model writes")
    ids = [token for token in reply.token_ids or [] if token not in renderer.end_ids]
    text = renderer.begun_thought + renderer.tokenizer.decode(ids, skip_special_tokens=False)
    reading = [name for name in names("call_formats") if name != "tags" and _reads(name, text)]
    written = excerpt(text.strip(), 120)
    if reading:
        detail = f"{renderer.call_format.name} does not read {written}; set call_format = {reading[0]}"
        return TemplateFinding("the model's own call", False, detail)
    return TemplateFinding(
        "the model's own call", True, f"asked for one, it writes none that a format reads: {written}"
    )


def _reads(name: str, text: str) -> bool:
    content, calls = parse_message(load("call_formats", name)(), text, [PROBE_TOOL])
    return _is_call(Message("assistant", content, calls))


def _is_call(message: Message) -> bool:
    return any(call.name == PROBE_CALL.name and call.error is None for call in message.calls)


def _words(renderer: TemplateRenderer, ids: set[int]) -> str:
    return ", ".join(str(token) for token in renderer.tokenizer.convert_ids_to_tokens(sorted(ids)))
