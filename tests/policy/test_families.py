"""Families of models: what ends their turns, what stands between two, and how their calls are written."""

from __future__ import annotations

import pytest
from families import FAMILIES, documented, family
from template_tokenizers import tokenizer_of

from agentgym import Tool, Turn
from agentgym.formats.deepseek import ALL_CLOSE, ALL_OPEN, CLOSE, OPEN, SEPARATOR
from agentgym.messages import Call, Message
from agentgym.policy import TemplateRenderer
from agentgym.policy.formats.choice import call_format_for
from agentgym.policy.formats.coercion import parse_message
from agentgym.registry import load
from agentgym.rollout.conversation import Conversation

CALL = Call("query", {"sql": "SELECT 1"})
RESULTS = [Message("tool", "7", name="query", call_id="a"), Message("tool", "8", name="look", call_id="b")]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_table_of_families_says_what_is_so(name):
    """Told, read, written, ended and read back 1,500 times as its template has it, or refused with a reason."""
    assert family(name).row() in documented().splitlines()


def test_every_family_is_in_the_table_and_all_but_one_can_be_used():
    rows = documented().splitlines()
    assert len(rows) == len(FAMILIES) + 2
    assert [row for row in rows if "not usable" in row] == [row for row in rows if "| DeepSeek V3 |" in row]


def renderer_of(template: str) -> TemplateRenderer:
    tokenizer = tokenizer_of(template)
    return TemplateRenderer(tokenizer, call_format_for(tokenizer))


def text_of(renderer: TemplateRenderer, ids) -> str:
    return renderer.tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("template", "ends"),
    [
        ("qwen2_5", {"<|im_end|>"}),
        ("gptoss", {"<|return|>", "<|call|>", "<|im_end|>"}),  # the last one is this small tokenizer's own
        ("glm4moe", {"<|user|>", "<|observation|>", "<|im_end|>"}),
        ("llama3_1", {"<|eot_id|>", "<|im_end|>"}),
    ],
)
def test_the_ends_of_a_template_are_the_ends_of_sampling(template, ends):
    renderer = renderer_of(template)
    assert set(renderer.tokenizer.convert_ids_to_tokens(sorted(renderer.end_ids))) == ends


def test_an_observation_of_harmony_holds_the_results_under_their_own_names():
    renderer = renderer_of("gptoss")
    assert text_of(renderer, renderer.observation(RESULTS)) == (
        '<|start|>functions.query to=assistant<|channel|>commentary<|message|>"7"<|end|>'
        '<|start|>functions.look to=assistant<|channel|>commentary<|message|>"8"<|end|><|start|>assistant'
    )
    words = text_of(renderer, renderer.observation([Message("user", "Go on.")]))
    assert words == "<|start|>user<|message|>Go on.<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (Message("assistant", "Hi."), "<|channel|>final<|message|>Hi.<|return|>"),
        (
            Message("assistant", "<think>hm</think>Hi."),
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>",
        ),
        (
            Message("assistant", "<think>hm</think>I look.", (CALL,)),
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
            '<|start|>assistant to=functions.query<|channel|>commentary json<|message|>{"sql": "SELECT 1"}<|call|>',
        ),
    ],
)
def test_harmony_writes_thoughts_words_and_calls_in_channels_of_their_own(message, written):
    renderer = renderer_of("gptoss")
    ids = renderer.encode(message)
    assert text_of(renderer, ids) == written
    assert renderer.parse(ids) == message


def test_a_call_of_glm_ends_where_its_result_begins():
    renderer = renderer_of("glm4moe")
    token = renderer.tokenizer.convert_tokens_to_ids
    called, words = renderer.encode(Message("assistant", "", (CALL,))), renderer.encode(Message("assistant", "Hi."))
    assert (called[-1], words[-1]) == (token("<|observation|>"), token("<|user|>"))
    result, reply = RESULTS[:1], [Message("user", "Go on.")]
    begins = "\n<tool_response>\n7\n</tool_response>"
    assert text_of(renderer, renderer.after_turn(called, result)).startswith(begins)
    assert text_of(renderer, renderer.after_turn(words, reply)).startswith("\nGo on.")
    for ended_otherwise in ([*called[:-1], token("<|user|>")], called[:-1]):
        assert text_of(renderer, renderer.after_turn(ended_otherwise, result)).startswith("<|observation|>" + begins)


@pytest.mark.parametrize("template", ["qwen2_5", "gptoss", "glm4moe", "llama3_1"])
@pytest.mark.parametrize("ending", ["own", "twice", "none", "other"])
def test_however_a_model_ends_its_turn_the_record_goes_on_as_the_template_does(template, ending):
    renderer = renderer_of(template)
    written = renderer.encode(Message("assistant", "", (CALL,)))
    other = next((end for end in sorted(renderer.end_ids) if end != written[-1]), written[-1])
    last = {"own": [written[-1]], "twice": [written[-1]] * 2, "none": [], "other": [other]}[ending]
    sampled = [*written[:-1], *last]
    message = renderer.parse(sampled)
    assert message == Message("assistant", "", (CALL,))
    conversation = Conversation([Message("user", "?")], [], renderer)
    prompt = list(conversation.prompt_ids)
    turn = Turn(0, message, message.calls, [], token_ids=sampled)
    observation = conversation.extend(turn, RESULTS[:1])
    assert conversation.prefix_ids == [*prompt, *sampled, *observation]
    text = text_of(renderer, conversation.prefix_ids[len(prompt) + len(written) - 1 :])
    expected = text_of(renderer, [written[-1], *renderer.observation(RESULTS[:1])])
    assert text.endswith(expected.removeprefix(text_of(renderer, [written[-1]])))
    assert "probe" not in text


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("qwen2_5", '<tool_call>\n{"name": "query", "arguments": {"sql": "SELECT 1"}}\n</tool_call>'),
        (
            "nemotron_3_nano",
            "<tool_call>\n<function=query>\n<parameter=sql>\nSELECT 1\n</parameter>\n</function>\n</tool_call>\n",
        ),
    ],
)
def test_calls_are_laid_out_as_the_template_does_also_where_the_format_is_named(template, written):
    tokenizer = tokenizer_of(template)
    name = call_format_for(tokenizer).name
    for call_format in (call_format_for(tokenizer), call_format_for(tokenizer, name)):
        assert TemplateRenderer(tokenizer, call_format).written(Message("assistant", "", (CALL,))) == written
        assert call_format.parse(written)[1] == (CALL,)


def test_the_way_of_deepseek_is_found_though_its_template_wants_no_content_and_arguments_as_text():
    tokenizer = tokenizer_of("deepseekv3")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'assistant' and m['content'] is none %}"
        "{% for tool in m['tool_calls'] %}<CALLS><CALL>{{ tool['type'] + '<SEP>' "
        "+ tool['function']['name'] + '\n```json\n' + tool['function']['arguments'] + '\n```<DONE>' }}"
        "{% endfor %}<ALL><EOS>{% else %}{{ m['content'] }}<EOS>"
        "{% endif %}{% endfor %}"
    )
    marks = (("CALLS", ALL_OPEN), ("CALL", OPEN), ("SEP", SEPARATOR), ("DONE", CLOSE), ("ALL", ALL_CLOSE))
    for name, token in marks:
        tokenizer.chat_template = tokenizer.chat_template.replace(f"<{name}>", token)
    assert call_format_for(tokenizer).name == "deepseek"


BARE = '{"name": "query", "arguments": {"sql": "SELECT 1"}}'


@pytest.mark.parametrize("name", ["hermes", "llama3", "qwen_xml", "glm", "mistral", "deepseek", "tags"])
@pytest.mark.parametrize(
    ("written", "calls", "content"),
    [
        (BARE, 1, ""),
        (BARE.replace("arguments", "parameters"), 1, ""),
        (f"```json\n{BARE}\n```", 1, ""),
        (f"```\n{BARE}\n{BARE}\n```", 2, ""),
        (f"[{BARE}, {BARE}]", 2, ""),
        (f"<think>hm</think>\n\n```json\n{BARE}\n```", 1, "<think>hm</think>"),
        (f"<think>{BARE}</think>", 0, f"<think>{BARE}</think>"),
        ('{"name": "Ada", "age": 36}', 0, '{"name": "Ada", "age": 36}'),
        ('```json\n{"name": "Ada"}\n```', 0, '```json\n{"name": "Ada"}\n```'),
    ],
)
def test_a_message_of_json_calls_and_nothing_else_is_read_whatever_the_marks(name, written, calls, content):
    form = load("call_formats", name)()
    read_content, read_calls = form.parse(written)
    assert [(call.name, call.arguments, call.id) for call in read_calls] == [
        ("query", {"sql": "SELECT 1"}, f"call_{index}") for index in range(calls)
    ]
    assert read_content == content


def test_marks_in_the_arguments_of_a_bare_call_are_no_thought():
    call = Call("query", {"sql": "a</think>```</tool_call>", "b": "<think>"})
    form = load("call_formats", "llama3")()
    assert form.parse(form.render((call,))) == ("", (call,))


def test_more_bare_calls_than_one_message_may_hold_are_answered_by_one_error():
    _, calls = load("call_formats", "hermes")().parse(BARE * 70)
    assert len(calls) == 65
    assert "6 more" in calls[-1].error


@pytest.mark.parametrize("name", ["qwen_xml", "glm"])
def test_null_survives_formats_without_types(name):
    form = load("call_formats", name)()
    text_or_null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    function = {"name": "look", "parameters": {"properties": {"a": text_or_null, "b": {"type": "string"}}}}
    written = form.render((Call("look", {"a": None, "b": "null"}),))
    _, calls = parse_message(form, written, [{"type": "function", "function": function}])
    assert calls[0].arguments == {"a": None, "b": "null"}


def test_schemas_are_shown_in_the_order_that_models_know():
    def look(where: str | None = None, additionalProperties: int = 1) -> str:
        """Look around.

        Args:
            where: the place.
            additionalProperties: a name like any other.
        """
        return ""

    tool = Tool.from_function(look)
    assert tool.parameters["additionalProperties"] is False
    parameters = tool.shown_schema()["function"]["parameters"]
    assert next(iter(parameters)) == "type"
    assert "additionalProperties" not in parameters
    assert list(parameters["properties"]) == ["where", "additionalProperties"]
    assert next(iter(parameters["properties"]["additionalProperties"])) == "type"
