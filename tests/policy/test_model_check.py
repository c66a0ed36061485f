"""`agentgym model check` on a folder with weights: the ends that it names, and the call that the model writes."""

from __future__ import annotations

import asyncio
import json

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.policy import TemplateRenderer, TransformersPolicy
from agentgym.policy.formats.choice import PROBE_CALL, PROBE_TOOL
from agentgym.policy.model_check import ask_model, check_generation_ends
from agentgym.registry import load


class Writing(TransformersPolicy):
    """A model that answers whatever it is asked with one text, in its own tokens."""

    def __init__(self, model, renderer, text: str) -> None:
        super().__init__(model, renderer)
        self._text = text

    async def generate(self, request):
        reply = await super().generate(request)
        ids = [*self.renderer.tokenizer.encode(self._text, add_special_tokens=False), self.renderer.end_of_turn_id]
        reply.token_ids, reply.message = ids, self.renderer.parse(ids, [PROBE_TOOL])
        return reply


@pytest.mark.parametrize(
    ("chosen", "written", "ok", "detail"),
    [
        ("hermes", "hermes", True, "hermes reads what the model writes"),
        ("hermes", "qwen_xml", False, "set call_format = qwen_xml"),
        ("qwen_xml", "hermes", False, "set call_format = hermes"),
        ("hermes", None, True, "asked for one, it writes none that a format reads: 'I cannot.'"),
    ],
)
def test_the_format_is_recommended_that_reads_what_the_model_writes(tokenizer, model, chosen, written, ok, detail):
    text = "I cannot." if written is None else load("call_formats", written)().render((PROBE_CALL,))
    renderer = TemplateRenderer(tokenizer, load("call_formats", chosen)())
    policy = Writing(model, renderer, text)
    finding = asyncio.run(ask_model(policy))
    asyncio.run(policy.close())
    assert (finding.ok, detail in finding.detail) == (ok, True)


@pytest.mark.parametrize(
    ("named", "detail"),
    [
        (["<|im_end|>"], "<|im_end|>, where sampling ends too"),
        (["<|im_end|>", "<|endoftext|>"], "<|im_end|>, where sampling ends too"),
        (["<|endoftext|>"], "a server that reads that file alone goes on after <|im_end|>"),
    ],
)
def test_the_ends_of_the_generation_config_are_compared(renderer, tmp_path, named, detail):
    ids = renderer.tokenizer.convert_tokens_to_ids(named)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": ids if len(ids) > 1 else ids[0]}))
    finding = check_generation_ends(renderer, tmp_path)
    assert finding is not None
    assert finding.ok
    assert detail in finding.detail
    (tmp_path / "generation_config.json").write_text("{}")
    assert check_generation_ends(renderer, tmp_path) is None


def test_a_folder_with_weights_is_asked_and_one_without_is_not(tokenizer, model, tmp_path):
    tokenizer.save_pretrained(tmp_path)

    def checks(*arguments: str) -> list[str]:
        done = CliRunner().invoke(app, ["model", "check", str(tmp_path), "--json", *arguments])
        assert done.exit_code == 0, done.output
        return [finding["check"] for finding in json.loads(done.stdout)["findings"]]

    assert "the model's own call" not in checks()
    model.save_pretrained(tmp_path)
    assert checks()[-1] == "the model's own call"
    assert "the model's own call" not in checks("--no-ask")
