"""Every chat template that TRL ships: its call format is chosen, and the template can be used or is refused."""

from __future__ import annotations

import json

import pytest
from template_tokenizers import TEMPLATES, tokenizer_of
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.errors import PolicyError
from agentgym.messages import Message
from agentgym.policy import TemplateRenderer, make_tokenizer
from agentgym.policy.checkpoint import load_tokenizer
from agentgym.policy.formats.choice import PROBE_CALL, PROBE_TOOL, call_format_for
from agentgym.policy.load_options import LoadOptions
from agentgym.policy.template_check import check_template
from agentgym.registry import load

FORMATS = {  # by the beginning of the template's name; the longest one counts
    "deepseekv3_training": "deepseek",
    "gemma4": "gemma4",
    "diffusion_gemma": "gemma4",
    "glm4moe": "glm",
    "gptoss": "harmony",
    "lfm2_2": "lfm2",
    "lfm2_v2": "lfm2",
    "llama3_1": "llama3",
    "llama3_2": "llama3",
    "nemotron": "qwen_xml",
    "qwen3_5": "qwen_xml",
    "qwen3_6": "qwen_xml",
    "qwen3_8": "qwen_xml",
}
EMPTY_THOUGHTS = ("glm4moe", "nemotron", "qwen3_training")
"""Templates that write a thought without words before a call; a prompt that begins a thought has other spaces in it."""
NO_CALLS = ("lfm2.", "lfm2_training", "llama3.", "llama3_training", "qwen2_5_vl")
REFUSED = {  # the beginning of the reason
    "no tool results": ("cohere", "gemma_training", "gemma3", "gemma.", "idefics3", "llava", "phi3", "smolvlm"),
    "thoughts in one place only": ("deepseek",),
    "begins the agent's message anew after results": ("diffusion_gemma",),
    "unknown format": ("muse",),
}


def is_refused(template: str) -> bool:
    return any(f"{template}.".startswith(beginning) for names in REFUSED.values() for beginning in names)


@pytest.mark.parametrize("template", sorted(path.stem for path in TEMPLATES.glob("*.jinja")))
def test_a_template_can_be_used_with_the_format_it_writes_or_is_refused(template):
    findings = check_template(tokenizer_of(template))
    problems = [(finding.check, finding.detail) for finding in findings if not finding.ok]
    if is_refused(template):
        assert [check for check, _ in problems] in (["usable"], ["written as the template"])
        return
    assert not problems
    assert len(findings) == 8
    [two_turns] = [finding.detail for finding in findings if finding.check == "written as the template"]
    if not f"{template}.".startswith(NO_CALLS):
        calls = "1 calls" if template.startswith(("llama3_1", "llama3_2", "gptoss")) else "2 calls"
        assert two_turns.startswith(f"two turns of {calls}, ")
        assert ("token for token" in two_turns) != template.startswith(EMPTY_THOUGHTS)
        assert ("empty thoughts" in two_turns) == template.startswith(EMPTY_THOUGHTS)
    known = [beginning for beginning in FORMATS if template.startswith(beginning)]
    expected = FORMATS[max(known, key=len)] if known else "hermes"
    assert call_format_for(tokenizer_of(template)).name == expected


def test_a_template_that_rewrites_is_replaced_by_its_training_variant_where_that_can_be_used(tmp_path):
    for template, is_replaced in {"glm4moe": False, "deepseekv3": False, "gemma4": False, "qwen3": False}.items():
        tokenizer = tokenizer_of(template)
        own = tokenizer.chat_template
        tokenizer.save_pretrained(tmp_path / template)
        loaded = load_tokenizer(tmp_path / template)
        assert (loaded.chat_template != own) == is_replaced
        [usable, *_] = check_template(loaded)
        assert ("TRL's training variant" in usable.detail) == is_replaced
        assert usable.ok == (template != "deepseekv3")
        assert usable.ok or "policy.chat_template" in usable.detail
    named = load_tokenizer(tmp_path / "glm4moe", LoadOptions(chat_template=str(TEMPLATES / "glm4moe.jinja")))
    assert named.chat_template == tokenizer_of("glm4moe").chat_template  # what a user names is used


def test_a_template_whose_calls_nobody_reads_names_the_formats_there_are():
    with pytest.raises(PolicyError, match=r"writes a call as .*atem:invoke.*hermes, .*react"):
        call_format_for(tokenizer_of("muse_glimmer"))


def test_a_format_that_the_template_does_not_write_is_found(tokenizer):
    findings = {finding.check: finding for finding in check_template(tokenizer, "llama3")}
    assert not findings["calls are read"].ok
    assert "call_format at 'auto'" in findings["calls are read"].detail
    assert all(finding.ok for finding in check_template(tokenizer))


def test_a_call_within_a_thought_that_the_prompt_begins_is_none():
    renderer = TemplateRenderer(tokenizer_of("qwen3_5_think"), load("call_formats", "qwen_xml")())
    call = renderer.call_format.render((PROBE_CALL,))

    def parse(text: str) -> Message:
        return renderer.parse(renderer.tokenizer.encode(text), [PROBE_TOOL])

    assert parse(f"perhaps {call} not\n</think>\n\nDone.").calls == ()
    assert parse(f"perhaps {call}").calls == ()
    assert parse(f"\n</think>\n\nNow. {call}") == Message("assistant", "Now.", (PROBE_CALL,))
    for message in (Message("assistant", "Now.", (PROBE_CALL,)), Message("assistant", "<think>\nhm\n</think>Done.")):
        assert renderer.parse(renderer.encode(message), [PROBE_TOOL]) == message


def test_added_tokens_after_special_ones_keep_their_ids():
    """Qwen's <tool_call> comes after fourteen special tokens; without them it had the id of <|endoftext|>."""
    from tokenizers import AddedToken

    tokenizer = make_tokenizer(["some words"] * 3, 280)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|one|>", "<|two|>"]})
    tokenizer.add_tokens([AddedToken("<kept>", special=False)])
    renderer = TemplateRenderer(tokenizer, load("call_formats", "hermes")())
    ids = renderer.encode(Message("assistant", "some <kept> words <|one|>"))
    assert tokenizer.convert_tokens_to_ids("<kept>") in ids
    assert tokenizer.convert_tokens_to_ids("<|one|>") not in ids
    assert tokenizer.decode(ids[:-1]) == "some <kept> words <|one|>"
    observation = renderer.observation([Message("tool", "<kept> <|one|> <|two|>", name="t")])
    assert not set(tokenizer.convert_tokens_to_ids(["<kept>", "<|one|>", "<|two|>"])) & set(observation)


def test_model_check_says_what_a_user_has_to_know(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)

    def run(*arguments: str):
        return CliRunner().invoke(app, ["model", "check", str(tmp_path), *arguments])

    good, bad = run("--json"), run("--call-format", "llama3")
    assert good.exit_code == 0
    verdict = json.loads(good.stdout)
    assert (verdict["ok"], verdict["call_format"], verdict["reason"]) == (True, "hermes", "")
    assert run().stdout.splitlines()[-1] == "usable, with call_format = hermes"
    assert bad.exit_code == 1
    assert bad.stdout.splitlines()[-1].startswith("not usable: calls are read: llama3 does not read")
    assert "llama3 does not read" in " ".join(bad.stdout.split())
    (tmp_path / "chat_template.jinja").unlink()
    without = run()
    assert without.exit_code == 1
    assert "has no chat template" in " ".join(without.stdout.split())
