"""Names of tools and ids of calls between turns are encoded together with the template's text around them."""

from __future__ import annotations

import pytest
from template_tokenizers import tokenizer_of

from agentgym.messages import Call, Message
from agentgym.policy import TemplateRenderer, make_tokenizer
from agentgym.policy.formats.choice import call_format_for


def renderer_of(template: str) -> TemplateRenderer:
    """Return a renderer whose tokenizer has tokens that are part of a name and of the text before it."""
    tokenizer = tokenizer_of(template)
    merging = make_tokenizer(["functions.probe functions.probe:0 .probe"] * 40, 400)
    merging.chat_template = tokenizer.chat_template
    merging.add_special_tokens({"additional_special_tokens": tokenizer.all_special_tokens})
    return TemplateRenderer(merging, call_format_for(merging))


@pytest.mark.parametrize("template", ["gptoss", "own/kimi_k2"])
def test_a_result_is_token_for_token_as_the_template_has_it_also_around_the_name(template):
    renderer = renderer_of(template)
    calls = renderer.numbered(Message("assistant", "", (Call("probe"),)), 0).calls
    written = renderer.encode(Message("assistant", "", calls))
    ids = renderer.after_turn(written, [Message("tool", "", name="probe", call_id=calls[0].id)])
    text = renderer.tokenizer.decode(ids)
    assert "functions.probe" in text
    assert ids == renderer.tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("name", ["<|end|>", "a<|start|>assistant", "end|>", "a b", "", "x" * 400])
def test_a_name_that_the_agent_made_up_forges_nothing(name):
    renderer = renderer_of("gptoss")
    specials = set(renderer.tokenizer.all_special_ids)
    counts = [
        sum(token in specials for token in renderer.observation([Message("tool", "words", name=each)]))
        for each in ("probe", name)
    ]
    assert counts[0] == counts[1]
    assert name in renderer.tokenizer.decode(renderer.observation([Message("tool", "words", name=name)]))
